package objects_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
)

// file is a bucket with one file in it, and the tag that S3 gives it.
type file struct{ body, tag string }

func (f *file) GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	tag := `"` + f.tag + `"`
	return &s3.GetObjectOutput{Body: io.NopCloser(strings.NewReader(f.body)), ETag: &tag}, nil
}

func (*file) DeleteObject(context.Context, *s3.DeleteObjectInput,
	...func(*s3.Options)) (*s3.DeleteObjectOutput, error) {
	return &s3.DeleteObjectOutput{}, nil
}

// Two copies of a file within a second are two events, and both would read the second copy: one job of each.
func TestAFileThatWasWrittenAgainIsOneJob(t *testing.T) {
	f := &file{body: "name: new", tag: "2"}
	d := &objects.DAGs{Client: f, Bucket: "dags"}
	for _, tag := range []string{"2", ""} { // what tells of no tag is read as it is
		r, err := d.Open(t.Context(), events.ObjectCreated{Bucket: "dags", Key: "job.yaml", ETag: tag})
		if err != nil {
			t.Fatalf("%q: %v", tag, err)
		}
		if body, err := io.ReadAll(r); string(body) != f.body || err != nil {
			t.Errorf("%q: %q %v", tag, body, err)
		}
	}
	_, err := d.Open(t.Context(), events.ObjectCreated{Bucket: "dags", Key: "job.yaml", ETag: "1"})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the older event: %v", err)
	}
}
