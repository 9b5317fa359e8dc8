// Package push receives messages that clouds send to the broker by themselves: a machine will be interrupted, or a
// file was put into a bucket of job files. A push has the cloud's own token, which is valid for nothing else. A
// user's token is not accepted for a push.
package push

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Path is the URL path that clouds push to; the cloud's name follows it.
const Path = "/v1/push/"

// ErrNotice means that a push is not a notification that this deployment reads.
var ErrNotice = errors.New("the push is not a notification")

// News is the content of a push: news about a machine or a file. The zero value concerns nothing of this deployment.
type News struct {
	Notice *cloud.Notice `json:"notice,omitempty"`
	Object *Object       `json:"object,omitempty"`
}

// Object is a file that was put into a bucket of job files.
type Object struct {
	Bucket string `json:"bucket"` // its URL: gs://acme-jobs
	Key    string `json:"key"`
	// ETag is a digest of the content. Version identifies one write of the object, if the store has versions.
	ETag    string `json:"etag"`
	Version string `json:"version,omitempty"`
	Size    int64  `json:"size"` // bytes
}

// ErrorSuffix ends the name of the file with the error message that is put next to a refused job file.
const ErrorSuffix = ".error.txt"

// MayBeJob reports whether a file may be a job, by its name. The marker of a folder and an error message are not jobs.
// Neither is a file whose name, or whose folder's name, begins with "_" or ".": such files belong to jobs and are never
// jobs, whatever they contain.
func MayBeJob(key string) bool {
	for part := range strings.SplitSeq(key, "/") {
		if strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") {
			return false
		}
	}
	return key != "" && !strings.HasSuffix(key, "/") && !strings.HasSuffix(key, ErrorSuffix)
}

// Read reads a push of a cloud, with the bearer token of the request. It fails with identity.ErrInvalid if the token is
// not the cloud's, with identity.ErrUnavailable if that cannot be checked, and with ErrNotice for a push that is not a
// notification, and would not be one when pushed again.
type Read func(ctx context.Context, bearer string, body []byte) (News, error)

// Deliver passes news on. If it fails, the cloud pushes the news again.
type Deliver func(context.Context, News) error

// Handler serves pushes of clouds, and passes all other requests to Next.
type Handler struct {
	Next    http.Handler
	Clouds  map[string]Read
	Deliver Deliver
	Log     *slog.Logger
}

// maxBytes is the maximum size of a push in bytes: an entry of an audit log has some kilobytes.
const maxBytes = 256 << 10

// ServeHTTP implements http.Handler. A push that is not a notification gets a successful answer, because the cloud
// would otherwise repeat it for days.
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
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBytes))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	news, err := read(r.Context(), bearer, body)
	if err == nil && news != (News{}) {
		err = h.Deliver(r.Context(), news)
	}
	switch {
	case errors.Is(err, identity.ErrInvalid):
		h.Log.Warn("push refused", "cloud", name, "err", err)
		w.WriteHeader(http.StatusUnauthorized)
		return
	case errors.Is(err, ErrNotice):
		h.Log.Warn("push ignored: it is not a notification", "cloud", name, "err", err)
	case err != nil: // the cloud pushes it again
		h.Log.Warn("push not processed", "cloud", name, "err", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
