package s3grant

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

var _ grant.Store = (*AnyRegion)(nil)

func TestAnywhereSignsForBucketRegion(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method != http.MethodHead || r.Header.Get("Authorization") != "" {
			t.Errorf("%s %v", r.Method, r.Header)
		}
		switch r.URL.Path {
		case "/elsewhere": // S3's answer in the wrong region, or without the right to read
			w.Header().Set("X-Amz-Bucket-Region", "eu-central-1")
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(http.StatusMovedPermanently)
		case "/private":
			w.Header().Set("X-Amz-Bucket-Region", "us-west-2")
			w.WriteHeader(http.StatusForbidden)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	options := s3.Options{Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("A", "S", "")}
	a := NewAnyRegion(s3.New(options), Options{}).Home("home")
	a.public = server.URL
	uris := []string{"s3://elsewhere/a", "s3://private/b", "s3://none/c", "s3://home/d", "s3://elsewhere/e"}
	regions := []string{"eu-central-1", "us-west-2", "us-east-1", "us-east-1", "eu-central-1"}
	var wants []grant.Want
	for _, uri := range uris {
		wants = append(wants, grant.Want{Op: grant.Get, URI: uri, For: time.Minute})
	}
	for range 2 {
		grants, err := a.Sign(context.Background(), wants...)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range grants {
			if !strings.Contains(g.URL, "%2F"+regions[i]+"%2Fs3%2F") || !strings.Contains(g.URL, uris[i][len(uris[i])-2:]+"?") {
				t.Errorf("%s is signed as %v, want for %s", uris[i], g, regions[i])
			}
		}
	}
	if n := asked.Load(); n != 4 { // one request for each bucket with a region, and another one for the bucket without
		t.Errorf("%d lookups, want 4", n)
	}
	options.BaseEndpoint = aws.String("http://127.0.0.1:1")
	alone := NewAnyRegion(s3.New(options), Options{})
	if grants, err := alone.Sign(context.Background(), wants[0]); err != nil || !strings.Contains(grants[0].URL, "us-east-1") {
		t.Errorf("a custom endpoint: %v, %v", grants, err)
	}
	if asked.Load() != 4 {
		t.Error("Amazon was asked for a bucket of another server")
	}
}
