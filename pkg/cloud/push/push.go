// Package push takes in what clouds push to the broker: that a machine of its will be taken. A push carries the cloud's
// own token, which opens nothing else, and no user's token opens a push.
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

// ErrNotice says that what a cloud has pushed is no notice.
var ErrNotice = errors.New("what was pushed is no notice")

// Read reads what a cloud has pushed, with the bearer token that came with it; ours is false for what concerns nobody
// here. It fails with identity.ErrInvalid for a token that is not the cloud's, with identity.ErrUnavailable where that
// cannot be told, and with ErrNotice for what is no notice, and would be none the next time.
type Read func(ctx context.Context, bearer string, body []byte) (n cloud.Notice, ours bool, err error)

// Handler serves the notices that clouds push, and passes all else on.
type Handler struct {
	Next   http.Handler
	Clouds map[string]Read
	// Notify passes a notice on; it comes again when that fails.
	Notify func(context.Context, cloud.Notice) error
	Log    *slog.Logger
}

// most bounds a pushed notice: an entry of an audit log has some kilobytes.
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
	notice, ours, err := read(r.Context(), bearer, body)
	if err == nil && ours {
		err = h.Notify(r.Context(), notice)
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
