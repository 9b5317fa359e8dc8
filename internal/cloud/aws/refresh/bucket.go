package refresh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// SnapshotKey is the key of the refreshed catalogue in the work bucket.
const SnapshotKey = "catalog/offers.snapshot"

// maxSnapshot is the maximum size that is read; the catalogue in the binary has 350 KB.
const maxSnapshot = 64 << 20

// Bucket stores the snapshot in S3.
type Bucket struct {
	Client *s3.Client
	Name   string
	Key    string // SnapshotKey when empty
}

func (b Bucket) key() *string {
	if b.Key == "" {
		return awssdk.String(SnapshotKey)
	}
	return &b.Key
}

// Get implements Snapshots; the tag is the object's.
func (b Bucket) Get(ctx context.Context, unless string) (data []byte, tag string, err error) {
	in := &s3.GetObjectInput{Bucket: &b.Name, Key: b.key()}
	if unless != "" {
		in.IfNoneMatch = &unless
	}
	out, err := b.Client.GetObject(ctx, in)
	var api smithy.APIError
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() == http.StatusNotModified {
		return nil, unless, nil
	}
	if errors.As(err, &api) && api.ErrorCode() == "NoSuchKey" {
		return nil, "", fmt.Errorf("s3://%s/%s: %w", b.Name, *b.key(), fs.ErrNotExist)
	}
	if err != nil {
		return nil, "", fmt.Errorf("s3://%s/%s: %w", b.Name, *b.key(), err)
	}
	defer out.Body.Close() //nolint:errcheck // only read
	data, err = io.ReadAll(io.LimitReader(out.Body, maxSnapshot))
	return data, awssdk.ToString(out.ETag), err
}

// Put implements Snapshots.
func (b Bucket) Put(ctx context.Context, data []byte) error {
	_, err := b.Client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.Name, Key: b.key(), Body: bytes.NewReader(data),
		ContentType: awssdk.String("application/octet-stream"),
	})
	if err != nil {
		return fmt.Errorf("s3://%s/%s: %w", b.Name, *b.key(), err)
	}
	return nil
}
