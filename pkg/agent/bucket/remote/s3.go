package remote

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"gocloud.dev/blob"
)

// s3 opens S3 buckets wherever they are: a task's data need not be in the region that its machine was bought in, and S3
// takes a request in the bucket's own region only.
type s3 struct {
	client   *http.Client
	endpoint string // of S3 in any region

	mu      sync.Mutex
	regions map[string]string // by bucket
}

func newS3(client *http.Client, endpoint string) *s3 {
	return &s3{client: client, endpoint: endpoint, regions: map[string]string{}}
}

// open puts in the bucket's region where the URL and the environment leave it open. A custom endpoint has no other
// regions.
func (s *s3) open(ctx context.Context, u *url.URL) (*blob.Bucket, error) {
	q := u.Query()
	if !q.Has("region") && !q.Has("endpoint") && os.Getenv("AWS_ENDPOINT_URL") == "" &&
		os.Getenv("AWS_ENDPOINT_URL_S3") == "" {
		if region := s.region(ctx, u.Host); region != "" {
			q.Set("region", region)
			known := *u
			known.RawQuery = q.Encode()
			u = &known
		}
	}
	return open(ctx, u)
}

// lookupWithin bounds the question where a bucket is; without an answer the environment's region is tried.
const lookupWithin = 5 * time.Second

// region asks S3 where a bucket is. It says so to anybody, in a header, whatever else it answers (Amazon S3 API
// reference, HeadBucket).
func (s *s3) region(ctx context.Context, name string) string {
	s.mu.Lock()
	known, ok := s.regions[name]
	s.mu.Unlock()
	if ok {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, lookupWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimSuffix(s.endpoint, "/")+"/"+
		url.PathEscape(name), nil)
	if err != nil {
		return ""
	}
	client := *s.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := client.Do(req) //nolint:gosec // S3's own address; the name is escaped
	if err != nil {
		return ""
	}
	defer res.Body.Close() //nolint:errcheck // a HEAD has none
	region := res.Header.Get("X-Amz-Bucket-Region")
	if region != "" {
		s.mu.Lock()
		s.regions[name] = region
		s.mu.Unlock()
	}
	return region
}
