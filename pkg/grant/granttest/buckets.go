package granttest

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// RunBuckets is the conformance suite of grant.Bucketer. bucket is the URI of a missing bucket.
func RunBuckets(t *testing.T, s grant.Store, bucket string) {
	t.Helper()
	ctx := t.Context()
	for range 2 { // an existing bucket is no error
		if err := grant.MakeBucket(ctx, s, bucket); err != nil {
			t.Fatalf("make: %v", err)
		}
	}
	for _, key := range []string{"a", "b/c d", "b/e"} {
		uri, err := grant.Below(bucket, key)
		if err != nil {
			t.Fatal(err)
		}
		grants, err := s.Sign(ctx, grant.Want{Op: grant.Put, URI: uri, Size: 1, For: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		req, err := grants[0].Request(ctx, strings.NewReader("x"), 1)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(grant.Redact(err))
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode >= http.StatusMultipleChoices {
			t.Fatalf("put %s: %s", key, resp.Status)
		}
	}
	if page, err := s.List(ctx, bucket, ""); err != nil || len(page.Objects) != 3 {
		t.Fatalf("%d objects, %v", len(page.Objects), err)
	}
	for range 2 { // a missing bucket is no error
		if err := grant.RemoveBucket(ctx, s, bucket); err != nil {
			t.Fatalf("remove: %v", err)
		}
	}
	if _, err := s.List(ctx, bucket, ""); !errors.Is(err, grant.ErrNoBucket) {
		t.Errorf("the removed bucket still exists: %v", err)
	}
}
