// Package s3log reads the logs that EMR and EMR Serverless write into a bucket.
package s3log

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
)

// Read returns the objects stdout.gz and stderr.gz below a prefix, s3://bucket/prefix/. A missing object is empty.
func Read(ctx context.Context, sdk awssdk.Config, prefix string) (log service.Log, err error) {
	bucket, key, ok := strings.Cut(strings.TrimPrefix(prefix, "s3://"), "/")
	if !ok {
		return log, fmt.Errorf("logs: %q is not a prefix of S3", prefix)
	}
	client := s3.NewFromConfig(sdk, func(o *s3.Options) { o.UsePathStyle = sdk.BaseEndpoint != nil })
	if log.Stdout, err = read(ctx, client, bucket, key+"stdout.gz"); err != nil {
		return log, err
	}
	log.Stderr, err = read(ctx, client, bucket, key+"stderr.gz")
	return log, err
}

func read(ctx context.Context, client *s3.Client, bucket, key string) ([]byte, error) {
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	var missing *types.NoSuchKey
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer out.Body.Close() //nolint:errcheck // read
	// The SDK may have unpacked an object with Content-Encoding: gzip.
	packed, err := io.ReadAll(io.LimitReader(out.Body, service.MaxLog))
	if err != nil || !bytes.HasPrefix(packed, []byte{0x1f, 0x8b}) {
		return packed, err
	}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(zip, service.MaxLog))
	if errors.Is(err, io.ErrUnexpectedEOF) { // the rest of a long log
		err = nil
	}
	return text, err
}
