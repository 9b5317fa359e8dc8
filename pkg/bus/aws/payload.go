package aws

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// PayloadPrefix is where large payloads lie in the bucket, by their digest. The bucket's life-cycle rule for it must
// keep them longer than the queues keep messages.
const PayloadPrefix = "events/"

// store puts a body into the bucket and returns where it is. The same body is the same object.
func (b *Bus) store(ctx context.Context, body []byte) (*Ref, error) {
	sum := sha256.Sum256(body)
	r := &Ref{Bucket: b.cfg.Bucket, Bytes: len(body), SHA256: hex.EncodeToString(sum[:])}
	r.Key = PayloadPrefix + r.SHA256
	kind := "application/json"
	err := b.retry(ctx, func() (bool, error) {
		_, err := b.cfg.S3.PutObject(ctx, &s3.PutObjectInput{
			Bucket: &r.Bucket, Key: &r.Key, Body: bytes.NewReader(body), ContentType: &kind,
		})
		return true, err
	})
	if err != nil {
		return nil, fmt.Errorf("s3://%s/%s: %w", r.Bucket, r.Key, err)
	}
	return r, nil
}

// Load returns the message of an envelope of kind Ours or CloudEvent, with a body that lies elsewhere fetched. It fails
// with ErrUnreadable where trying again is pointless: the object is gone, or is not what it should be.
func (b *Bus) Load(ctx context.Context, e Envelope) (bus.Message, error) {
	if e.Ref == nil {
		return e.Message, nil
	}
	if e.Ref.Bucket != b.cfg.Bucket { // whoever may send to a queue may not choose what is read
		return e.Message, fmt.Errorf("%w: its body is in bucket %q, not %q", ErrUnreadable, e.Ref.Bucket, b.cfg.Bucket)
	}
	var body []byte
	err := b.retry(ctx, func() (bool, error) {
		out, err := b.cfg.S3.GetObject(ctx, &s3.GetObjectInput{Bucket: &e.Ref.Bucket, Key: &e.Ref.Key})
		if err != nil {
			return true, err
		}
		defer out.Body.Close() //nolint:errcheck // only read
		body, err = io.ReadAll(io.LimitReader(out.Body, bus.MaxMessageBytes+1))
		return true, err
	})
	var missing *types.NoSuchKey
	if errors.As(err, &missing) {
		return e.Message, fmt.Errorf("%w: its body s3://%s/%s is gone", ErrUnreadable, e.Ref.Bucket, e.Ref.Key)
	}
	if err != nil {
		return e.Message, fmt.Errorf("s3://%s/%s: %w", e.Ref.Bucket, e.Ref.Key, err)
	}
	if sum := sha256.Sum256(body); len(body) != e.Ref.Bytes || hex.EncodeToString(sum[:]) != e.Ref.SHA256 {
		return e.Message, fmt.Errorf("%w: its body s3://%s/%s is not the one that was sent", ErrUnreadable,
			e.Ref.Bucket, e.Ref.Key)
	}
	m := e.Message
	m.Body = body
	return m, nil
}
