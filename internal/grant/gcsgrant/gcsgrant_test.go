package gcsgrant_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/storage"

	"github.com/tradewind-broker/tradewind/internal/emulator/gcs"
	"github.com/tradewind-broker/tradewind/internal/grant/gcsgrant"
	"github.com/tradewind-broker/tradewind/internal/grant/remote"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/grant/granttest"
)

const serviceAccount = "broker@project.iam.gserviceaccount.com"

// counting counts requests to Google.
type counting struct{ calls atomic.Int64 }

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	return http.DefaultTransport.RoundTrip(r)
}

func newKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newStore(t *testing.T, opts gcsgrant.Options) *gcsgrant.Store {
	t.Helper()
	opts.Account = serviceAccount
	s, err := gcsgrant.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The suite runs on fake-gcs-server with a gate in front of it. The server checks no signatures and has no multipart
// uploads of the XML API; the gate does both.
func TestConformance(t *testing.T) { granttest.Run(t, open) }

// The driver must conform behind package remote, as in a function that does not link the SDK.
func TestConformanceThroughRemote(t *testing.T) {
	granttest.Run(t, func(t *testing.T) granttest.Harness {
		h := open(t)
		near := h.At
		h.At = func(now time.Time) grant.Store { return remote.New(remote.Server{Store: near(now)}.Serve) }
		return h
	})
}

func TestMakeAndRemoveBuckets(t *testing.T) {
	key := newKey(t)
	gate, err := gcs.New(servers.FakeGCS(t), serviceAccount, key)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gate)
	t.Cleanup(server.Close)
	opts := gcsgrant.Options{Sign: gcsgrant.RSA(key), Endpoint: server.URL, Project: "p"}
	granttest.RunBuckets(t, newStore(t, opts), "gs://made")
	// Tokens with a credential access boundary work only on buckets with uniform access (IAM documentation,
	// "Credential Access Boundaries"; github.com/salrashid123/downscoped_token).
	if err := newStore(t, opts).MakeBucket(t.Context(), "gs://lent"); err != nil || !gate.Uniform("lent") {
		t.Errorf("a bucket without uniform access: %v", err)
	}
	opts.Project = ""
	if err := newStore(t, opts).MakeBucket(t.Context(), "gs://made"); !errors.Is(err, grant.ErrCannotCreateBuckets) {
		t.Errorf("without a project: %v", err)
	}
}

// open starts a server, with the gate in front of it.
func open(t *testing.T) granttest.Harness {
	key := newKey(t)
	gate, err := gcs.New(servers.FakeGCS(t), serviceAccount, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, bucket := range []string{"grants", "others"} {
		if err := gate.MakeBucket(t.Context(), bucket); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(gate)
	t.Cleanup(server.Close)
	var count counting
	return granttest.Harness{
		At: func(now time.Time) grant.Store {
			return newStore(t, gcsgrant.Options{
				Sign: gcsgrant.RSA(key), Endpoint: server.URL, Client: &http.Client{Transport: &count},
				Now: func() time.Time { return now },
			})
		},
		Calls:  func() int { return int(count.calls.Load()) },
		Prefix: "gs://grants/job/", Other: "gs://others/", NoBucket: "gs://none/",
	}
}

// A signed URL must equal the one that Google's own library signs.
func TestSignaturesMatchGoogleLibrary(t *testing.T) {
	key := newKey(t)
	for _, c := range []struct {
		want    grant.Want
		headers []string
		query   url.Values
		md5     string
	}{
		{want: grant.Want{Op: grant.Get, URI: "gs://bucket/a/b%20c+d%25%3F%23/Z%C3%BCrich~(1)'!*"}},
		{
			want:    grant.Want{Op: grant.Get, URI: "gs://bucket/key", Range: &grant.Range{From: 1, Length: 9}},
			headers: []string{"Range:bytes=1-9"},
		},
		{
			want:    grant.Want{Op: grant.Put, URI: "gs://bucket/key", Size: 5},
			headers: []string{"X-Goog-Content-Length-Range:5,5"},
		},
		{
			want: grant.Want{
				Op: grant.Part, URI: "gs://bucket/key", Size: 5, Upload: "a b+c/=", Number: 7,
				Sum: grant.Sum{Kind: grant.MD5, Value: make([]byte, 16)},
			},
			headers: []string{"X-Goog-Content-Length-Range:5,5"},
			query:   url.Values{"partNumber": {"7"}, "uploadId": {"a b+c/="}}, md5: "AAAAAAAAAAAAAAAAAAAAAA==",
		},
	} {
		o, err := grant.Parse(c.want.URI)
		if err != nil {
			t.Fatal(err)
		}
		method := map[grant.Op]string{grant.Get: http.MethodGet, grant.Put: http.MethodPut, grant.Part: http.MethodPut}[c.want.Op]
		sign := gcsgrant.RSA(key)
		theirs, err := storage.SignedURL(o.Bucket, o.Key, &storage.SignedURLOptions{
			GoogleAccessID: serviceAccount, Method: method, Scheme: storage.SigningSchemeV4,
			SignBytes: func(b []byte) ([]byte, error) { return sign.Func(t.Context(), b) },
			Expires:   time.Now().Add(time.Hour), Headers: c.headers, QueryParameters: c.query, MD5: c.md5,
		})
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(theirs)
		if err != nil {
			t.Fatal(err)
		}
		// The time is that of Google's library, and the expiry is the one that it has computed for an hour.
		date, err := time.Parse("20060102T150405Z", u.Query().Get("X-Goog-Date"))
		if err != nil {
			t.Fatal(err)
		}
		lasts, err := time.ParseDuration(u.Query().Get("X-Goog-Expires") + "s")
		if err != nil {
			t.Fatal(err)
		}
		c.want.For = lasts
		ours, err := newStore(t, gcsgrant.Options{Sign: sign, Now: func() time.Time { return date }}).Sign(t.Context(), c.want)
		if err != nil {
			t.Fatal(err)
		}
		v, err := url.Parse(ours[0].URL)
		if err != nil {
			t.Fatal(err)
		}
		if v.Host != u.Host || v.EscapedPath() != u.EscapedPath() || v.Query().Encode() != u.Query().Encode() {
			t.Errorf("%s of %s:\nours   %s\ntheirs %s", c.want.Op, o, ours[0].URL, theirs)
		}
	}
}

func TestFailingSignerFailsBatch(t *testing.T) {
	secret := hex.EncodeToString([]byte("secret"))
	var calls atomic.Int64
	s := newStore(t, gcsgrant.Options{Sign: gcsgrant.Signer{Func: func(context.Context, []byte) ([]byte, error) {
		if calls.Add(1) == 20 {
			return nil, &url.Error{Op: "Post", URL: "https://iam.example/signBlob?key=" + secret, Err: context.DeadlineExceeded}
		}
		return []byte("signature"), nil
	}}})
	wants := make([]grant.Want, 50)
	for i := range wants {
		wants[i] = grant.Want{Op: grant.Get, URI: "gs://bucket/key", For: time.Hour}
	}
	grants, err := s.Sign(t.Context(), wants...)
	if grants != nil || !errors.Is(err, grant.ErrCredentials) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%d grants, %v", len(grants), err)
	}
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("the error contains a key: %v", err)
	}
}
