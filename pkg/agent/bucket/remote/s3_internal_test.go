package remote

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
)

func TestABucketIsOpenedInItsOwnRegion(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method != http.MethodHead || r.Header.Get("Authorization") != "" {
			t.Errorf("%s %v", r.Method, r.Header)
		}
		switch r.URL.Path {
		case "/elsewhere": // as S3 answers to whoever asks in the wrong region, or may not read it
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
	s := newS3(server.Client(), server.URL)
	for name, want := range map[string]string{"elsewhere": "eu-central-1", "private": "us-west-2", "none": ""} {
		if got := s.region(t.Context(), name); got != want {
			t.Errorf("%s is in %q, want %q", name, got, want)
		}
	}
	before := asked.Load()
	s.region(t.Context(), "elsewhere")
	if asked.Load() != before {
		t.Error("asked twice")
	}
	server.Close()
	if got := newS3(server.Client(), server.URL).region(t.Context(), "elsewhere"); got != "" {
		t.Errorf("nobody answered %q", got)
	}
}
