package objects_test

import (
	"context"
	"io"
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

// Two copies of a file within a second are two events, and both read the second copy: it is one job, by its tag.
func TestAFileThatWasWrittenAgainHasTheTagOfWhatIsRead(t *testing.T) {
	f := &file{body: "name: new", tag: "2"}
	d := &objects.DAGs{Client: f, Bucket: "dags"}
	for _, told := range []string{"1", "2", ""} {
		r, tag, err := d.Open(t.Context(), events.ObjectCreated{Bucket: "dags", Key: "job.yaml", ETag: told})
		if err != nil || tag != "2" {
			t.Fatalf("%q: %q %v", told, tag, err)
		}
		if body, err := io.ReadAll(r); string(body) != f.body || err != nil {
			t.Errorf("%q: %q %v", told, body, err)
		}
	}
}
