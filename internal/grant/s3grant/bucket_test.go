package s3grant_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/grant/s3grant"
)

// A bucket has more uploads than a page of a list. All must be ended before the bucket is removed. S3 lists at most
// 1,000 uploads, and says where the next page begins (S3 API, ListMultipartUploads: IsTruncated, NextKeyMarker,
// NextUploadIdMarker).
func TestRemoveBucketEndsUploadsOfAllPages(t *testing.T) {
	ended := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		switch {
		case r.Method == http.MethodGet && q.Has("uploads"):
			key, more := "a", "<IsTruncated>true</IsTruncated><NextKeyMarker>a</NextKeyMarker><NextUploadIdMarker>1</NextUploadIdMarker>"
			if q.Get("key-marker") == "a" && q.Get("upload-id-marker") == "1" {
				key, more = "b", "<IsTruncated>false</IsTruncated>"
			}
			_, _ = fmt.Fprintf(w, "<ListMultipartUploadsResult>%s<Upload><Key>%s</Key><UploadId>1</UploadId></Upload></ListMultipartUploadsResult>", more, key)
		case r.Method == http.MethodGet:
			_, _ = fmt.Fprint(w, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
		default:
			if q.Get("uploadId") == "1" {
				ended[r.URL.Path] = true
			}
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	t.Cleanup(server.Close)
	s := s3grant.New(s3.NewFromConfig(emulator.Config(server.URL), func(o *s3.Options) { o.UsePathStyle = true }), s3grant.Options{})
	if err := s.RemoveBucket(t.Context(), "s3://work"); err != nil {
		t.Fatal(err)
	}
	if !ended["/work/a"] || !ended["/work/b"] || len(ended) != 2 {
		t.Errorf("ended %v", ended)
	}
}
