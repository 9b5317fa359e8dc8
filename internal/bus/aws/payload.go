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

// PayloadPrefix is the prefix of large payloads in the bucket; the rest of the key is the digest. The bucket's
// life-cycle rule for the prefix must keep them longer than the queues keep messages.
const PayloadPrefix = "events/"

// store puts a body into the bucket and returns its reference. Equal bodies share one object.
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

// Load returns the message of an envelope of kind Ours or CloudEvent, and fetches a body that is stored elsewhere. It
// fails with ErrUnreadable if a retry cannot help: the object no longer exists or has the wrong content.
func (b *Bus) Load(ctx context.Context, e Envelope) (bus.Message, error) {
	if e.Ref == nil {
		return e.Message, nil
	}
	if e.Ref.Bucket != b.cfg.Bucket { // a sender to a queue must not choose which bucket is read
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
		return e.Message, fmt.Errorf("%w: its body s3://%s/%s has changed since it was sent", ErrUnreadable,
			e.Ref.Bucket, e.Ref.Key)
	}
	m := e.Message
	m.Body = body
	return m, nil
}
