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

// ServeHTTP answers a request: it is logged, kept within limits, and refused for a host name that is not ours, before
// anything looks at what it asks.
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
	// Answers are JSON unless an operation says otherwise; nothing is negotiated.
	r.Header.Del("Accept")
	if signin.Visits(r) {
		a.user.ServeHTTP(rec, r)
		return
	}
	if h, pattern := a.mux.Handler(r); pattern == "" {
		a.unmatched(rec, r, h)
		return
	}
	a.mux.ServeHTTP(rec, r)
}

// finish logs a request, and turns a panic into an answer, or into a cut connection where the answer had begun.
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
	a.log.LogAttrs(context.WithoutCancel(r.Context()), level(r, status), "api",
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Int("status", status),
		slog.Duration("duration", time.Since(began)))
	if p != nil && (begun || isAbort(p)) {
		panic(http.ErrAbortHandler) // the server cuts the connection without another word
	}
}

func isAbort(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// level is how much a request matters to whoever reads the log.
func level(r *http.Request, status int) slog.Level {
	switch {
	case status >= http.StatusInternalServerError:
		return slog.LevelWarn
	case r.Method == http.MethodGet || r.Method == http.MethodHead || strings.HasPrefix(r.URL.Path, "/v1/agent/"):
		return slog.LevelDebug
	default:
		return slog.LevelInfo
	}
}

// recorder notes the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader notes the status.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
		r.ResponseWriter.WriteHeader(status)
	}
}

// Write notes the status that it implies.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap gives http.ResponseController what it needs.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// users lets whoever bears the user token through; for reading, the dashboard's cookie does as well.
func (a *API) users(ctx huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(ctx)
	token := signin.Bearer(r)
	if _, password, basic := r.BasicAuth(); basic && strings.HasPrefix(r.URL.Path, TESPath+"/") {
		token = password // TES knows both, and some of its clients only this
	}
	if a.admit(w, r, token) {
		next(ctx)
	}
}

// admit says whether a request bears the user token or, for reading, the dashboard's cookie. Others it answers.
func (a *API) admit(w http.ResponseWriter, r *http.Request, token string) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case token != "" && a.user.Matches(token), token == "" && reads && a.user.HasCookie(r):
		return true
	case token == "" && !reads && a.user.HasCookie(r):
		writeProblem(w,
			problem(http.StatusForbidden,
				"the dashboard's cookie only reads; send the token in the Authorization header"))
	default:
		unauthorized(w, "the user token is missing or wrong; send Authorization: Bearer TOKEN")
	}
	return false
}

func unauthorized(w http.ResponseWriter, detail string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="tradewind"`)
	writeProblem(w, problem(http.StatusUnauthorized, detail))
}

// claimsKey is where agents leaves the claims of a verified token.
type claimsKey struct{}

// agents lets nodes through whose token is good, and attaches what it proves.
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
		writeProblem(w, problem(http.StatusForbidden, "the token's cluster is not of its job"))
		return
	}
	if claims.Boot && r.URL.Path != wire.PathHello && !strings.HasPrefix(r.URL.Path, wire.PathProgram) {
		writeProblem(w, problem(http.StatusForbidden, "the token is for an agent's first hello"))
		return
	}
	next(huma.WithValue(ctx, claimsKey{}, claims))
}

// refuse answers a token that does not verify. Whose token is not good gives up; where only the key to check it by
// could not be read, whoever bears it is to come again.
func (a *API) refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, token.ErrExpired) || errors.Is(err, token.ErrForged) || errors.Is(err, token.ErrMalformed) {
		a.log.Debug("api: an agent's token was refused", "err", err)
		unauthorized(w, "the token is not, or no longer, good")
		return
	}
	a.log.Warn("api: an agent's token could not be checked", "err", err)
	writeProblem(w, problem(http.StatusServiceUnavailable, "the token cannot be checked now; try again"))
}

// claimed returns what the token of an agent's request proves.
func claimed(ctx context.Context) wire.Claims {
	c, _ := ctx.Value(claimsKey{}).(wire.Claims)
	return c
}
