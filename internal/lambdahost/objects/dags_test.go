package objects_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects/objectstest"
)

// file is a bucket with one file and the tag that S3 gave it.
type file struct{ body, tag string }

func (f *file) GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	tag := `"` + f.tag + `"`
	return &s3.GetObjectOutput{Body: io.NopCloser(strings.NewReader(f.body)), ETag: &tag}, nil
}

func (*file) DeleteObject(context.Context, *s3.DeleteObjectInput,
	...func(*s3.Options)) (*s3.DeleteObjectOutput, error) {
	return &s3.DeleteObjectOutput{}, nil
}

// Two copies of a file within a second are two events, and both read the second copy. Because of its tag it becomes one
// job.
func TestOpenReturnsTagOfContentRead(t *testing.T) {
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

// TestRemarkRemovedWhenFileIsAccepted: no other object is removed, in this or another bucket.
func TestRemarkRemovedWhenFileIsAccepted(t *testing.T) {
	b := &objectstest.Bucket{Objects: map[string][]byte{"a.yaml": nil, "a.yaml.error.txt": nil, "b.yaml.error.txt": nil}}
	d := &objects.DAGs{Client: b, Bucket: "dags", Log: slog.New(slog.DiscardHandler)}
	d.Accepted(t.Context(), events.ObjectCreated{Bucket: "others", Key: "b.yaml"})
	d.Accepted(t.Context(), events.ObjectCreated{Bucket: "dags", Key: "a.yaml"})
	if left := slices.Sorted(maps.Keys(b.Objects)); !slices.Equal(left, []string{"a.yaml", "b.yaml.error.txt"}) {
		t.Errorf("left: %v", left)
	}
}

func TestOpenMissingFile(t *testing.T) {
	d := &objects.DAGs{
		Client: &objectstest.Bucket{Objects: map[string][]byte{"a.yaml": []byte("name: a")}},
		Bucket: "dags",
	}
	for _, c := range []struct{ bucket, key string }{{"dags", "b.yaml"}, {"secrets", "a.yaml"}} {
		_, _, err := d.Open(t.Context(), events.ObjectCreated{Bucket: c.bucket, Key: c.key})
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	r, _, err := d.Open(t.Context(), events.ObjectCreated{Bucket: "dags", Key: "a.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(r); err != nil || string(body) != "name: a" {
		t.Errorf("%q %v", body, err)
	}
}
