// Package logbucket keeps the large pieces of logs in a bucket of S3.
package logbucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/logs"
)

// Client is the part of *s3.Client that a Bucket uses.
type Client interface {
	s3.ListObjectsV2APIClient
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
}

// Bucket implements logs.Objects.
type Bucket struct {
	Client Client
	Name   string
}

var _ logs.Objects = Bucket{}

// Put implements logs.Objects.
func (b Bucket) Put(ctx context.Context, key string, data []byte) error {
	_, err := b.Client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.Name, Key: &key, Body: bytes.NewReader(data), ContentType: aws.String("text/plain; charset=utf-8"),
	})
	if err != nil {
		return fmt.Errorf("s3://%s/%s: %w", b.Name, key, err)
	}
	return nil
}

// ReadAt implements logs.Objects.
func (b Bucket) ReadAt(ctx context.Context, key string, offset int64, p []byte) (int, error) {
	out, err := b.Client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &b.Name, Key: &key, Range: aws.String(fmt.Sprintf("bytes=%d-%d", offset, offset+int64(len(p))-1)),
	})
	if err != nil {
		return 0, fmt.Errorf("s3://%s/%s: %w", b.Name, key, err)
	}
	defer out.Body.Close() //nolint:errcheck // read only
	n, err := io.ReadFull(out.Body, p)
	if err != nil && (n == 0 || !errors.Is(err, io.ErrUnexpectedEOF)) {
		return n, fmt.Errorf("s3://%s/%s: %w", b.Name, key, err)
	}
	return n, nil
}

// RemoveAll implements logs.Objects.
func (b Bucket) RemoveAll(ctx context.Context, prefix string) error {
	pages := s3.NewListObjectsV2Paginator(b.Client, &s3.ListObjectsV2Input{Bucket: &b.Name, Prefix: &prefix})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("s3://%s/%s: %w", b.Name, prefix, err)
		}
		for _, o := range page.Contents {
			if _, err := b.Client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.Name, Key: o.Key}); err != nil {
				return fmt.Errorf("s3://%s/%s: %w", b.Name, *o.Key, err)
			}
		}
	}
	return nil
}
