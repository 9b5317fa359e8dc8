// Package objects is what the functions keep in S3: the DAG files that users
// drop (DAGs), and what tasks print (Logs).
package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Client is what this package needs of *s3.Client.
type Client interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// NewClient makes the S3 client of a host. Emulators, which are named by a URL, have no host for each bucket.
func NewClient(h *lambdahost.Host) *s3.Client {
	return s3.NewFromConfig(h.AWS, lambdahost.S3Options(h.AWS))
}

// DAGs reads DAG files from their bucket. It implements broker.Objects.
type DAGs struct {
	Client Client
	// Bucket is the only one that is read, whatever an event says.
	Bucket string
}

// Part gives the broker the DAG bucket.
func Part(h *lambdahost.Host) error {
	h.Ports.Objects = &DAGs{Client: NewClient(h), Bucket: h.Env.DAGBucket}
	return nil
}

// Open implements broker.Objects.
func (d *DAGs) Open(ctx context.Context, bucket, key string) (io.ReadCloser, error) {
	if bucket != d.Bucket {
		return nil, fmt.Errorf("objects: %s is not the DAG bucket, %s: %w", bucket, d.Bucket, fs.ErrNotExist)
	}
	out, err := d.Client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if Missing(err) {
		return nil, fmt.Errorf("objects: s3://%s/%s: %w", bucket, key, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("objects: s3://%s/%s: %w", bucket, key, err)
	}
	return out.Body, nil
}

// Settle implements broker.Objects. What lies beside a file in the bucket no machine may read: paths stay as they are.
func (*DAGs) Settle(_, _ string, _ *dag.Job) {}

// Missing says that an object does not exist. Not every endpoint has a code for it.
func Missing(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && (api.ErrorCode() == "NoSuchKey" || api.ErrorCode() == "NotFound") ||
		status(err) == http.StatusNotFound
}

func status(err error) int {
	var answer *smithyhttp.ResponseError
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}
