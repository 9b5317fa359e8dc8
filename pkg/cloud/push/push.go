// Package push takes in what clouds tell the broker by themselves: that a machine of its will be taken, and that a file
// was put into a bucket whose files are jobs. A push carries the cloud's own token, which opens nothing else, and no
// user's token opens a push.
package push

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/identity"
)

// Path is where a cloud pushes to: below it is the cloud's name.
const Path = "/v1/push/"

// ErrNotice says that what a cloud has told is no news that anybody here reads.
var ErrNotice = errors.New("what was pushed is no notice")

// News is what a cloud has told: about a machine or about a file. The zero value concerns nobody here.
type News struct {
	Notice *cloud.Notice `json:"notice,omitempty"`
	Object *Object       `json:"object,omitempty"`
}

// Object is a file that was put into a bucket whose files are jobs.
type Object struct {
	Bucket string `json:"bucket"` // its URL: gs://acme-jobs
	Key    string `json:"key"`
	// ETag is a digest of the content. Version tells one writing of the object from another, if the store does.
	ETag    string `json:"etag"`
	Version string `json:"version,omitempty"`
	Size    int64  `json:"size"` // bytes
}

// RemarkSuffix is what the name of a remark about a refused file ends in, which lies beside it: it is no job itself.
const RemarkSuffix = ".error.txt"

// MayBeJob says by the name of a file that it may be a job. It is none where it is the mark of a folder or a remark, or
// where it or a folder that it lies in begins with "_" or ".": those are for what jobs bring along, and no job itself
// whatever it holds.
func MayBeJob(key string) bool {
	for part := range strings.SplitSeq(key, "/") {
		if strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") {
			return false
		}
	}
	return key != "" && !strings.HasSuffix(key, "/") && !strings.HasSuffix(key, RemarkSuffix)
}

// Read reads what a cloud has pushed, with the bearer token that came with it. It fails with identity.ErrInvalid for a
// token that is not the cloud's, with identity.ErrUnavailable where that cannot be told, and with ErrNotice for what is
// no news, and would be none the next time.
type Read func(ctx context.Context, bearer string, body []byte) (News, error)

// Tell passes news on. They come again when that fails.
type Tell func(context.Context, News) error

// Handler serves what clouds push, and passes all else on.
type Handler struct {
	Next   http.Handler
	Clouds map[string]Read
	Tell   Tell
	Log    *slog.Logger
}

// most bounds what is pushed: an entry of an audit log has some kilobytes.
const most = 256 << 10

// ServeHTTP implements http.Handler. What is no notice is answered with success, or it would be pushed for days.
func (h Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, Path)
	read := h.Clouds[name]
	if !ok || read == nil || r.Method != http.MethodPost {
		h.Next.ServeHTTP(w, r)
		return
	}
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	news, err := read(r.Context(), bearer, body)
	if err == nil && news != (News{}) {
		err = h.Tell(r.Context(), news)
	}
	switch {
	case errors.Is(err, identity.ErrInvalid):
		h.Log.Warn("a push is refused", "cloud", name, "err", err)
		w.WriteHeader(http.StatusUnauthorized)
		return
	case errors.Is(err, ErrNotice):
		h.Log.Warn("what was pushed is left", "cloud", name, "err", err)
	case err != nil: // it is pushed again
		h.Log.Warn("a push cannot be looked into", "cloud", name, "err", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
