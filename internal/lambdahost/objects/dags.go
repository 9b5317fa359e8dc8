// Package objects is the functions' access to S3: the DAG files that users upload (DAGs), and packs.
package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/dagbucket"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// FileClient is the part of *s3.Client that DAGs uses.
type FileClient interface {
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
}

// DAGs reads DAG files from their bucket. It implements broker.Objects.
type DAGs struct {
	Client FileClient
	// Bucket is the only bucket that is read, whatever an event says.
	Bucket string
	Log    *slog.Logger
}

// NewDAGs opens the DAG bucket of a deployment.
func NewDAGs(s *lambdahost.Sandbox) *DAGs {
	return &DAGs{Client: s.S3(), Bucket: s.Env.DAGBucket, Log: s.Log}
}

// Open implements broker.Objects. If the file has changed since the event, it reads the new content, for which there is
// another event. Both are one job, because the tag is that of the content read.
func (d *DAGs) Open(ctx context.Context, o events.ObjectCreated) (body io.ReadCloser, tag string, err error) {
	bucket, key := o.Bucket, o.Key
	if bucket != d.Bucket {
		return nil, "", fmt.Errorf("objects: %s is not the DAG bucket, %s: %w", bucket, d.Bucket, fs.ErrNotExist)
	}
	out, err := d.Client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if Missing(err) {
		return nil, "", fmt.Errorf("objects: s3://%s/%s: %w", bucket, key, fs.ErrNotExist)
	}
	if err != nil {
		return nil, "", fmt.Errorf("objects: s3://%s/%s: %w", bucket, key, err)
	}
	return out.Body, strings.Trim(aws.ToString(out.ETag), `"`), nil
}

// Settle implements broker.Objects: relative paths in a job refer to objects next to its file in the bucket.
func (*DAGs) Settle(_ context.Context, bucket, key string, spec *dag.Job) error {
	return dagbucket.ResolvePaths("s3://"+bucket, key, spec)
}

// Accepted removes the error file of a job file that has become a job. In S3, removing a missing object is not an
// error.
func (d *DAGs) Accepted(ctx context.Context, o events.ObjectCreated) {
	if o.Bucket != d.Bucket {
		return
	}
	key := o.Key + lambdahost.ErrorSuffix
	if _, err := d.Client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &d.Bucket, Key: &key}); err != nil {
		d.Log.Warn("the error file of an accepted job file could not be removed", "file", o.Key, "err", err)
	}
}

// Missing reports whether an object does not exist. Not every endpoint returns a code for that.
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
