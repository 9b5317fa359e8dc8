package host

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/identity"
)

// pushed reads what a cloud has pushed: cloudkit.Opened.Pushed.
type pushed func(ctx context.Context, bearer string, body []byte) (cloud.Notice, bool, error)

// pushes serves the notices that clouds push, and passes all else on. The user's token opens nothing here, and a
// cloud's token nothing else.
type pushes struct {
	next   http.Handler
	clouds map[string]pushed
	notify func(context.Context, cloud.Notice)
	log    *slog.Logger
}

// maxPush bounds a pushed notice: an entry of an audit log has some kilobytes.
const maxPush = 256 << 10

// ServeHTTP implements http.Handler. What is no notice is answered with success, or it would be pushed for days.
func (p pushes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, ok := strings.CutPrefix(r.URL.Path, cloudkit.PushPath)
	read := p.clouds[name]
	if !ok || read == nil || r.Method != http.MethodPost {
		p.next.ServeHTTP(w, r)
		return
	}
	bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPush))
	if err != nil {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	notice, ours, err := read(r.Context(), bearer, body)
	switch {
	case errors.Is(err, identity.ErrInvalid):
		p.log.Warn("a push is refused", "cloud", name, "err", err)
		w.WriteHeader(http.StatusUnauthorized)
		return
	case errors.Is(err, cloudkit.ErrPush):
		p.log.Warn("what was pushed is left", "cloud", name, "err", err)
	case err != nil: // it is pushed again
		p.log.Warn("a push cannot be looked into", "cloud", name, "err", err)
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case ours:
		p.notify(r.Context(), notice)
	}
	w.WriteHeader(http.StatusNoContent)
}
