package s3grant_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/grant/granttest"
)

// counting counts requests to S3.
type counting struct{ calls atomic.Int64 }

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return http.DefaultTransport.RoundTrip(r)
}

func client(endpoint string, provider aws.CredentialsProvider, transport http.RoundTripper) *s3.Client {
	return s3.New(s3.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint), UsePathStyle: true, Credentials: provider,
		HTTPClient: &http.Client{Transport: transport},
	})
}

func TestConformance(t *testing.T) {
	granttest.Run(t, func(t *testing.T) granttest.Harness {
		var count counting
		c := client(servers.S3(t),
			credentials.NewStaticCredentialsProvider(servers.S3AccessKey, servers.S3SecretKey, ""), &count)
		for _, bucket := range []string{"grants", "others"} {
			if _, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
				t.Fatal(err)
			}
		}
		return granttest.Harness{
			At: func(now time.Time) grant.Store {
				return s3grant.New(c, s3grant.Options{Now: func() time.Time { return now }})
			},
			Calls:  func() int { return int(count.calls.Load()) },
			Prefix: "s3://grants/job/", Other: "s3://others/", NoBucket: "s3://none/",
			Secrets: []string{servers.S3SecretKey},
		}
	})
}

// lent returns credentials of a role that expire at a time.
func lent(until time.Time) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{
			AccessKeyID: "ASIA", SecretAccessKey: "the-secret", SessionToken: "the-session-token", CanExpire: true, Expires: until,
		}, nil
	})
}

func TestGrantsExpireWithCredentials(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)
	sign := func(until time.Time, want time.Duration) (grant.Grant, error) {
		s := s3grant.New(client("https://s3.example", lent(until), nil), s3grant.Options{Now: func() time.Time { return now }})
		grants, err := s.Sign(t.Context(), grant.Want{Op: grant.Get, URI: "s3://bucket/key", For: want})
		if err != nil {
			return grant.Grant{}, err
		}
		return grants[0], nil
	}
	g, err := sign(now.Add(20*time.Minute), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if g.Expires.After(now.Add(20*time.Minute)) || !strings.Contains(g.URL, "X-Amz-Expires=1200") {
		t.Errorf("expires %v: %s", g.Expires, g.URL)
	}
	if !strings.Contains(g.URL, "X-Amz-Security-Token=the-session-token") {
		t.Error("the session token is not in the URL, so S3 would reject it")
	}
	if g, err = sign(now.Add(20*time.Minute), time.Minute); err != nil || !strings.Contains(g.URL, "X-Amz-Expires=60&") {
		t.Errorf("%v, %v: want a minute", g, err)
	}
	_, err = sign(now.Add(-time.Second), time.Hour)
	if !errors.Is(err, grant.ErrCredentials) || strings.Contains(err.Error(), "the-") {
		t.Errorf("with expired credentials: %v", err)
	}
}

// The length and the checksum must be signed headers, so that S3 compares them. If they were in the query or
// unsigned, the client could change them.
func TestLengthAndChecksumAreSignedHeaders(t *testing.T) {
	s := s3grant.New(client("https://s3.example", lent(time.Now().Add(time.Hour)), nil), s3grant.Options{})
	for kind, header := range map[grant.SumKind]string{
		grant.MD5: "content-md5", grant.SHA256: "x-amz-checksum-sha256", grant.CRC32C: "x-amz-checksum-crc32c",
	} {
		size := map[grant.SumKind]int{grant.MD5: 16, grant.SHA256: 32, grant.CRC32C: 4}[kind]
		grants, err := s.Sign(t.Context(), grant.Want{
			Op: grant.Put, URI: "s3://bucket/key", For: time.Minute, Size: 7,
			Sum: grant.Sum{Kind: kind, Value: make([]byte, size)},
		})
		if err != nil {
			t.Fatal(err)
		}
		_, signed, _ := strings.Cut(grants[0].URL, "X-Amz-SignedHeaders=")
		signed, _, _ = strings.Cut(signed, "&")
		for _, name := range []string{"content-length", "host", header} {
			if !strings.Contains(signed, name) {
				t.Errorf("%s: signed headers are %s, without %s", kind, signed, name)
			}
		}
		if grants[0].Header[http.CanonicalHeaderKey(header)] == "" {
			t.Errorf("%s: the grant lacks a header: %v", kind, grants[0].Header)
		}
	}
}
