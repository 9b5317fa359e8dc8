package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api/signin"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// ServeHTTP answers a request. Before routing, it logs the request, applies limits, and rejects unknown host names.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	rec := &recorder{ResponseWriter: w}
	defer a.finish(rec, r, began)

	signin.Secure(rec.Header())
	if !a.hostKnown(r.Host) {
		writeProblem(rec, problem(http.StatusMisdirectedRequest, "this broker does not answer for that host name"))
		return
	}
	if r.ContentLength > maxFileBytes {
		writeProblem(rec, tooLarge(maxFileBytes))
		return
	}
	r.Body = http.MaxBytesReader(rec, r.Body, maxFileBytes)
	// Responses are JSON unless an operation specifies another type. There is no content negotiation.
	r.Header.Del("Accept")
	if signin.Visits(r) {
		a.user().ServeHTTP(rec, r)
		return
	}
	if h, pattern := a.mux.Handler(r); pattern == "" {
		a.unmatched(rec, r, h)
		return
	}
	a.mux.ServeHTTP(rec, r)
}

// finish logs a request. It turns a panic into an error response, or cuts the connection if the response had begun.
func (a *API) finish(rec *recorder, r *http.Request, began time.Time) {
	p := recover()
	begun := rec.status != 0
	if p != nil && !isAbort(p) && r.Context().Err() == nil {
		a.log.Error("api: panic", "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		if !begun {
			writeProblem(rec,
				problem(http.StatusInternalServerError, "internal error; the broker's log has the details"))
		}
	}
	status := rec.status
	if status == 0 {
		status = http.StatusOK
	}
	a.log.LogAttrs(context.WithoutCancel(r.Context()), level(status), "api",
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("status", status),
		slog.Duration("duration", time.Since(began)))
	if p != nil && (begun || isAbort(p)) {
		panic(http.ErrAbortHandler) // the server cuts the connection
	}
}

func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// level returns the log level of a request. Only failures of the broker are logged without --verbose.
func level(status int) slog.Level {
	if status >= http.StatusInternalServerError {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// recorder records the status of a response.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader records the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
		r.ResponseWriter.WriteHeader(status)
	}
}

// Write records the status that it implies.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// users admits requests with the user token or with a session of the dashboard.
func (a *API) users(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	token := signin.Bearer(r)
	if _, password, basic := r.BasicAuth(); basic && strings.HasPrefix(r.URL.Path, TESPath+"/") {
		token = password // TES permits both, and some TES clients support only this
	}
	if a.admit(w, r, token) {
		next(ctx)
	}
}

// admit reports whether a request has the user token or a session of the dashboard. If it has neither, admit answers
// it with an error.
func (a *API) admit(w http.ResponseWriter, r *http.Request, token string) bool {
	if user := a.user(); token != "" && user.Matches(token) || user.HasSession(r) {
		return true
	}
	unauthorized(w, "the user token is missing or wrong; send Authorization: Bearer TOKEN")
	return false
}

// user checks the credentials of users.
func (a *API) user() signin.Token { return *a.token.Load() }

// SetToken replaces the token of users. The old one, and all sessions of dashboards, end at once.
func (a *API) SetToken(token string) error {
	if len(token) < MinTokenBytes {
		return fmt.Errorf("api: the token has %d bytes, and needs at least %d", len(token), MinTokenBytes)
	}
	user := signin.New(token)
	a.token.Store(&user)
	return nil
}

func unauthorized(w http.ResponseWriter, detail string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="tradewind"`)
	writeProblem(w, problem(http.StatusUnauthorized, detail))
}

// claimsKey is the context key for the claims of a verified token.
type claimsKey struct{}

// agents admits nodes with a valid token, and attaches the token's claims.
func (a *API) agents(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	text := signin.Bearer(r)
	if text == "" {
		unauthorized(w, "the agent's token is missing")
		return
	}
	claims, err := a.cfg.Verify(text)
	if err != nil {
		a.refuse(w, err)
		return
	}
	if claims.Job == "" || record.ClusterJob(claims.Cluster) != claims.Job {
		writeProblem(w, problem(http.StatusForbidden, "the token's cluster does not belong to its job"))
		return
	}
	if claims.Boot && r.URL.Path != wire.PathHello && !strings.HasPrefix(r.URL.Path, wire.PathProgram) {
		writeProblem(w, problem(http.StatusForbidden, "the token is valid only for an agent's first hello"))
		return
	}
	next(huma.WithValue(ctx, claimsKey{}, claims))
}

// refuse answers a request whose token could not be verified. The status is 401 if the token is invalid; the agent
// then gives up. It is 503 if the key to check the token could not be read; the agent then tries again.
func (a *API) refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, token.ErrExpired) || errors.Is(err, token.ErrForged) || errors.Is(err, token.ErrMalformed) {
		a.log.Debug("api: an agent's token was refused", "err", err)
		unauthorized(w, "the token is invalid or has expired")
		return
	}
	a.log.Warn("api: an agent's token could not be checked", "err", err)
	writeProblem(w, problem(http.StatusServiceUnavailable, "the token cannot be checked now; try again"))
}

// claimed returns the claims of the token of an agent's request.
func claimed(ctx context.Context) wire.Claims {
	c, _ := ctx.Value(claimsKey{}).(wire.Claims)
	return c
}
