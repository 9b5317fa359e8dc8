package objects_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
)

// oneObject is a bucket with one object, which answers as S3 does where another version is asked for.
type oneObject struct{ content, tag string }

// GetObject implements objects.FileClient.
func (b oneObject) GetObject(_ context.Context, in *s3.GetObjectInput, _ ...func(*s3.Options)) (*s3.GetObjectOutput,
	error) {
	if in.IfMatch != nil && *in.IfMatch != b.tag {
		return nil, &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusPreconditionFailed}},
			Err:      errors.New("PreconditionFailed: At least one of the pre-conditions you specified did not hold"),
		}
	}
	return &s3.GetObjectOutput{Body: io.NopCloser(strings.NewReader(b.content)), ETag: aws.String(b.tag)}, nil
}

// DeleteObject implements objects.FileClient.
func (oneObject) DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput,
	error) {
	return &s3.DeleteObjectOutput{}, nil
}

// News of a file that was written again are of nothing: what is there now has news of its own.
func TestNewsOfAnEarlierContentFindNothing(t *testing.T) {
	dags := &objects.DAGs{Client: oneObject{"the second", `"2"`}, Bucket: "dags", Log: slog.New(slog.DiscardHandler)}
	for tag, there := range map[string]bool{"1": false, "2": true, "": true} {
		body, err := dags.Open(t.Context(), events.ObjectCreated{Bucket: "dags", Key: "a.yaml", ETag: tag})
		switch {
		case there && err != nil, !there && !errors.Is(err, fs.ErrNotExist):
			t.Errorf("news of version %q: %v", tag, err)
		case there:
			if got, err := io.ReadAll(body); err != nil || string(got) != "the second" {
				t.Errorf("news of version %q: %q, %v", tag, got, err)
			}
		}
	}
	elsewhere := events.ObjectCreated{Bucket: "another", Key: "a.yaml"}
	if _, err := dags.Open(t.Context(), elsewhere); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file of another bucket: %v", err)
	}
}
