package s3grant

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// AnyRegion signs for buckets in any region: a task's data may be in another region than the broker, and S3 accepts a
// request only in the bucket's own region. It looks up each bucket's region once. Make one with NewAnywhere.
type AnyRegion struct {
	home *Store
	// public is the S3 endpoint that answers for every region; empty if the client has a custom endpoint, which has no
	// other regions.
	public string
	client *http.Client

	mu      sync.Mutex
	buckets map[string]*Store
	regions map[string]*Store
}

// NewAnyRegion returns a store with the client's credentials. If it cannot find a bucket's region, it uses the
// client's.
func NewAnyRegion(client *s3.Client, opts Options) *AnyRegion {
	a := &AnyRegion{
		home: New(client, opts), client: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}},
		buckets: map[string]*Store{}, regions: map[string]*Store{},
	}
	if client.Options().BaseEndpoint == nil {
		a.public = "https://s3.us-east-1.amazonaws.com"
	}
	a.regions[client.Options().Region] = a.home
	return a
}

// Home declares that buckets are in the client's region, so that no lookup is needed.
func (a *AnyRegion) Home(buckets ...string) *AnyRegion {
	for _, b := range buckets {
		a.buckets[b] = a.home
	}
	return a
}

// lookupWithin bounds the lookup of a bucket's region.
const lookupWithin = 5 * time.Second

// storeOf returns the store of a bucket's region.
func (a *AnyRegion) storeOf(ctx context.Context, bucket string) *Store {
	a.mu.Lock()
	s, known := a.buckets[bucket]
	a.mu.Unlock()
	if known || a.public == "" {
		if known {
			return s
		}
		return a.home
	}
	region := a.region(ctx, bucket)
	a.mu.Lock()
	defer a.mu.Unlock()
	if region == "" {
		return a.home // and look it up again next time
	}
	if s = a.regions[region]; s == nil {
		opts := a.home.client.Options()
		opts.Region = region
		opts.ExpressCredentials = nil // these belong to the home client; another client would write to them
		s = New(s3.New(opts), Options{Now: a.home.now, Loans: a.home.loans})
		a.regions[region] = s
	}
	a.buckets[bucket] = s
	return s
}

// region gets a bucket's region from S3. S3 returns it in a header to any caller, whatever the status (Amazon S3 API
// reference, HeadBucket).
func (a *AnyRegion) region(ctx context.Context, bucket string) string {
	ctx, cancel := context.WithTimeout(ctx, lookupWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead,
		strings.TrimSuffix(a.public, "/")+"/"+url.PathEscape(bucket), nil)
	if err != nil {
		return ""
	}
	resp, err := a.client.Do(req) //nolint:gosec // S3's own address; the name is escaped
	if err != nil {
		return ""
	}
	defer resp.Body.Close() //nolint:errcheck // a HEAD has none
	return resp.Header.Get("X-Amz-Bucket-Region")
}

// find returns the store of a URI's bucket. For a bad URI it returns the home store, which reports the error.
func (a *AnyRegion) find(ctx context.Context, uri string) *Store {
	bucket, _, _ := strings.Cut(strings.TrimPrefix(uri, scheme+"://"), "/")
	if _, err := grant.ParsePrefix(scheme + "://" + bucket); err != nil {
		return a.home
	}
	return a.storeOf(ctx, bucket)
}

// Sign implements grant.Signer.
func (a *AnyRegion) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	stores := grant.Mux{scheme: a.home}
	for _, w := range wants {
		o, err := w.CheckOf(scheme)
		if err != nil {
			return nil, err
		}
		if key := scheme + "://" + o.Bucket; stores[key] == nil {
			stores[key] = a.storeOf(ctx, o.Bucket)
		}
	}
	return stores.Sign(ctx, wants...)
}

// Begin implements grant.Store.
func (a *AnyRegion) Begin(ctx context.Context, uri string) (string, error) {
	return a.find(ctx, uri).Begin(ctx, uri)
}

// Complete implements grant.Store.
func (a *AnyRegion) Complete(ctx context.Context, uri, upload string, parts []grant.Uploaded) error {
	return a.find(ctx, uri).Complete(ctx, uri, upload, parts)
}

// Abort implements grant.Store.
func (a *AnyRegion) Abort(ctx context.Context, uri, upload string) error {
	return a.find(ctx, uri).Abort(ctx, uri, upload)
}

// List implements grant.Store.
func (a *AnyRegion) List(ctx context.Context, prefix, after string) (grant.Page, error) {
	return a.find(ctx, prefix).List(ctx, prefix, after)
}

// Remove implements grant.Store.
func (a *AnyRegion) Remove(ctx context.Context, uri string) error {
	return a.find(ctx, uri).Remove(ctx, uri)
}
