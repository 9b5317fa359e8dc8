package objects_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tradewind-broker/tradewind/internal/lambdahost/objects"
	"github.com/tradewind-broker/tradewind/pkg/api"
)

// bucket is S3 in memory, with small pages.
type bucket struct {
	objects     map[string][]byte
	lists, puts int
}

func (b *bucket) GetObject(_ context.Context, in *s3.GetObjectInput, _ ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	body, ok := b.objects[*in.Key]
	if !ok {
		return nil, &types.NoSuchKey{}
	}
	if in.Range != nil {
		var from, to int
		if _, err := fmt.Sscanf(*in.Range, "bytes=%d-%d", &from, &to); err != nil {
			return nil, err
		}
		body = body[from:min(to+1, len(body))]
	}
	return &s3.GetObjectOutput{Body: io.NopCloser(bytes.NewReader(body))}, nil
}

func (b *bucket) PutObject(_ context.Context, in *s3.PutObjectInput, _ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	b.puts++
	if _, exists := b.objects[*in.Key]; exists && aws.ToString(in.IfNoneMatch) == "*" {
		return nil, &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusPreconditionFailed}}, Err: errors.New("exists")}
	}
	body, err := io.ReadAll(in.Body)
	b.objects[*in.Key] = body
	return &s3.PutObjectOutput{}, err
}

func (b *bucket) ListObjectsV2(_ context.Context, in *s3.ListObjectsV2Input, _ ...func(*s3.Options)) (*s3.ListObjectsV2Output, error) {
	b.lists++
	const page = 2
	var names []string
	for name := range b.objects {
		if strings.HasPrefix(name, *in.Prefix) && name > max(aws.ToString(in.StartAfter), aws.ToString(in.ContinuationToken)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	out := &s3.ListObjectsV2Output{IsTruncated: aws.Bool(len(names) > page)}
	for _, name := range names[:min(len(names), page)] {
		out.Contents = append(out.Contents, types.Object{Key: aws.String(name), Size: aws.Int64(int64(len(b.objects[name])))})
		out.NextContinuationToken = aws.String(name)
	}
	return out, nil
}

var (
	log = api.Log{Job: "job-1", Attempt: "job-1.0.1", Rank: 0}
	ctx = context.Background()
)

func read(t *testing.T, l *objects.Logs, from int64) string {
	t.Helper()
	var out []byte
	piece := make([]byte, 3)
	for {
		n, err := l.Read(ctx, log, from+int64(len(out)), piece)
		out = append(out, piece[:n]...)
		if errors.Is(err, io.EOF) {
			return string(out)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestALogIsWhatWasAppended(t *testing.T) {
	b := &bucket{objects: map[string][]byte{}}
	l := &objects.Logs{Client: b, Bucket: "work"}
	if _, err := l.Size(ctx, log); !errors.Is(err, api.ErrNoLog) {
		t.Errorf("before the first piece: %v", err)
	}
	want := ""
	for i := range 7 {
		piece := strings.Repeat(fmt.Sprint(i), i+1)
		if err := l.Append(ctx, log, int64(len(want)), []byte(piece)); err != nil {
			t.Fatal(err)
		}
		want += piece
	}
	if got := read(t, l, 0); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := read(t, l, 5); got != want[5:] {
		t.Errorf("%q, want %q", got, want[5:])
	}
	if n, err := (&objects.Logs{Client: b, Bucket: "work"}).Size(ctx, log); err != nil || n != int64(len(want)) {
		t.Errorf("size %d %v", n, err)
	}
}

func TestASandboxDoesNotAskWhatItKnows(t *testing.T) {
	b := &bucket{objects: map[string][]byte{}}
	l := &objects.Logs{Client: b, Bucket: "work"}
	for i := range int64(20) {
		if err := l.Append(ctx, log, i, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if b.lists > 1 || b.puts != 20 {
		t.Errorf("%d lists, %d puts for 20 pieces", b.lists, b.puts)
	}
}

func TestWhoBeginsElsewhereIsToldWhereItEnds(t *testing.T) {
	b := &bucket{objects: map[string][]byte{}}
	one, two := &objects.Logs{Client: b, Bucket: "work"}, &objects.Logs{Client: b, Bucket: "work"}
	if err := one.Append(ctx, log, 0, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	for name, offset := range map[string]int64{"an agent that began again": 0, "one that is ahead": 9} {
		var wrong *api.OffsetError
		if err := two.Append(ctx, log, offset, []byte("again")); !errors.As(err, &wrong) || wrong.Want != 5 {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The other sandbox has gone on: what this one remembers is old.
	if err := two.Append(ctx, log, 5, []byte(" world")); err != nil {
		t.Fatal(err)
	}
	var wrong *api.OffsetError
	if err := one.Append(ctx, log, 5, []byte(" other")); !errors.As(err, &wrong) || wrong.Want != 11 {
		t.Errorf("a log torn in two: %v", err)
	}
	if got := read(t, one, 0); got != "hello world" {
		t.Errorf("%q", got)
	}
}

func TestANameThatIsNoneIsRefused(t *testing.T) {
	l := &objects.Logs{Client: &bucket{objects: map[string][]byte{}}, Bucket: "work"}
	for _, bad := range []api.Log{{Job: "../x", Attempt: "a"}, {Job: "j", Attempt: "a/b"}, {Job: "", Attempt: "a"}, {Job: "j", Attempt: "a", Rank: -1}} {
		if err := l.Append(ctx, bad, 0, []byte("x")); !errors.Is(err, api.ErrNoLog) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestADAGFileThatIsGoneIsNoError(t *testing.T) {
	d := &objects.DAGs{Client: &bucket{objects: map[string][]byte{"a.yaml": []byte("name: a")}}, Bucket: "dags"}
	for _, c := range []struct{ bucket, key string }{{"dags", "b.yaml"}, {"secrets", "a.yaml"}} {
		if _, err := d.Open(ctx, c.bucket, c.key); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	r, err := d.Open(ctx, "dags", "a.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(r); err != nil || string(body) != "name: a" {
		t.Errorf("%q %v", body, err)
	}
}
