package lambdahost_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/tradewind-broker/tradewind/internal/lambdahost"
)

// object is S3 with one object, whose tag is its content.
type object struct {
	body  string
	gets  int
	empty bool
}

func (o *object) GetObject(_ context.Context, in *s3.GetObjectInput, _ ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	o.gets++
	if o.empty {
		return nil, &types.NoSuchKey{}
	}
	if aws.ToString(in.IfNoneMatch) == o.body {
		return nil, &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusNotModified}}, Err: errors.New("same")}
	}
	return &s3.GetObjectOutput{Body: io.NopCloser(strings.NewReader(o.body)), ETag: aws.String(o.body)}, nil
}

func TestReloadsChangedPolicyAndRejectsInvalidOne(t *testing.T) {
	s3 := &object{empty: true}
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	var log bytes.Buffer
	o := &lambdahost.PolicyObject{Client: s3, Bucket: "b", Key: "policy/scheduling.yaml",
		Now: func() time.Time { return now }, Log: slog.New(slog.NewTextHandler(&log, nil))}
	check := func(what, want string) {
		t.Helper()
		got := ""
		if p := o.Policy(t.Context()); p != nil {
			got = p.Tiers[0][0].Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("none yet", "")
	s3.empty, s3.body = false, "actions: [allocate]\ntiers: [[priority]]"
	check("within a minute of a look", "")
	now = now.Add(time.Minute)
	check("at the next look", "priority")
	for range 100 {
		check("not looked at", "priority")
	}
	if s3.gets != 2 {
		t.Errorf("%d looks", s3.gets)
	}
	s3.body = "actions: [allocate]\ntiers: [[prio]]"
	now = now.Add(time.Minute)
	check("a bad one", "priority")
	if want := "s3://b/policy/scheduling.yaml:2:10: tiers[0][0]: unknown plugin"; !strings.Contains(log.String(), want) {
		t.Errorf("the log has no %q: %s", want, log.String())
	}
	now = now.Add(time.Minute)
	check("the same", "priority")
	s3.body = "actions: [allocate]\ntiers: [[drf]]"
	now = now.Add(time.Minute)
	check("mended", "drf")
	s3.empty = true
	now = now.Add(time.Minute)
	check("gone", "drf")
}
