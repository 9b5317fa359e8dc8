package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/base/files"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// problem makes a Problem from a status and a sentence.
func problem(status int, detail string) *apitypes.Problem {
	return &apitypes.Problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

// tooLarge is the response to a body that exceeds the limit.
func tooLarge(limit int64) *apitypes.Problem {
	return problem(http.StatusRequestEntityTooLarge, "the body has more than "+strconv.FormatInt(limit>>20, 10)+" MiB")
}

// invalidFile is the response to an invalid job file, with the position of the error.
func invalidFile(e *dag.Error) *apitypes.Problem {
	p := problem(http.StatusUnprocessableEntity, e.Error())
	p.Title = "The job file is not valid"
	p.File, p.Line, p.Column, p.Field, p.Reason, p.Hint = e.File, e.Line, e.Column, e.Field, e.Reason, e.Hint
	for _, o := range e.Also {
		where := fmt.Sprintf("%s:%d:%d", o.File, o.Line, o.Column)
		p.Errors = append(p.Errors, apitypes.ErrorDetail{
			Location: where, Message: strings.TrimPrefix(o.Error(), where+": "), Value: o.Field,
		})
	}
	return p
}

// toProblem converts an error to a response. The text of unexpected errors is only logged.
func (a *API) toProblem(ctx context.Context, err error) error {
	var dressed huma.HeadersError
	var known *apitypes.Problem
	var file *dag.Error
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &dressed):
		return err
	case errors.As(err, &known):
		return known
	case errors.As(err, &big):
		return tooLarge(big.Limit)
	case errors.As(err, &file):
		return invalidFile(file)
	case errors.Is(err, record.ErrNotFound), errors.Is(err, ErrNoLog), errors.Is(err, bus.ErrUnknownQueue):
		return problem(http.StatusNotFound, err.Error())
	case errors.Is(err, record.ErrQueue), errors.Is(err, record.ErrPool):
		return problem(http.StatusUnprocessableEntity, err.Error())
	case errors.Is(err, record.ErrVisit):
		return problem(http.StatusConflict, err.Error())
	case errors.Is(err, record.ErrFinished), errors.Is(err, record.ErrPoolBusy), errors.Is(err, record.ErrUnfinished),
		errors.Is(err, record.ErrNoFailure):
		return problem(http.StatusConflict, err.Error())
	case errors.Is(err, record.ErrGone):
		return problem(http.StatusGone, "the attempt has ended")
	case errors.Is(err, record.ErrMachine):
		return problem(http.StatusForbidden, err.Error())
	case errors.Is(err, record.ErrEarly):
		return huma.ErrorWithHeaders(problem(http.StatusServiceUnavailable, err.Error()+"; try again"),
			http.Header{"Retry-After": {"1"}})
	case errors.Is(err, identity.ErrUnavailable):
		a.log.WarnContext(ctx, "api: cannot check a machine's proof of identity", "err", err)
		return huma.ErrorWithHeaders(
			problem(http.StatusServiceUnavailable, identity.ErrUnavailable.Error()+"; try again"),
			http.Header{"Retry-After": {"1"}})
	case errors.Is(err, store.ErrThrottled), errors.Is(err, store.ErrConflict),
		errors.Is(err, store.ErrClosed), errors.Is(err, bus.ErrClosed):
		a.log.WarnContext(ctx, "api: unavailable", "err", err)
		return huma.ErrorWithHeaders(problem(http.StatusServiceUnavailable,
			"the broker is busy or shutting down; try again"),
			http.Header{"Retry-After": {"1"}})
	case a.cfg.FullDisk != nil && files.NoSpace(err):
		a.log.ErrorContext(ctx, "api: no space", "err", err)
		p := problem(http.StatusInsufficientStorage, "")
		p.Detail, p.Hint = a.cfg.FullDisk()
		return p
	case ctx.Err() != nil:
		return problem(http.StatusServiceUnavailable, "the request was cancelled")
	default:
		a.log.ErrorContext(ctx, "api: internal error", "err", err)
		return problem(http.StatusInternalServerError, "internal error; the broker's log has the details")
	}
}

// writeProblem writes a problem outside of an operation.
func writeProblem(w http.ResponseWriter, p *apitypes.Problem) {
	body, err := json.Marshal(p)
	if err != nil { // cannot happen for strings and numbers
		body = []byte(`{"title":"Internal Server Error","status":500}`)
	}
	w.Header().Set("Content-Type", apitypes.ProblemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // an error means that the client has gone
}

// unmatched answers requests with an unknown path or method, with the mux's status but as a problem.
func (a *API) unmatched(w http.ResponseWriter, r *http.Request, h http.Handler) {
	probe := &probe{header: http.Header{}}
	h.ServeHTTP(probe, r)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
	}
	detail := "unknown path " + r.URL.Path
	if probe.status == http.StatusMethodNotAllowed {
		detail = r.Method + " is not supported for " + r.URL.Path + "; allowed: " +
			strings.Join(probe.header.Values("Allow"), ", ")
	}
	writeProblem(w, problem(max(probe.status, http.StatusBadRequest), detail))
}

// probe records the status and headers of a response and drops its body.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(status int)      { p.status = status }
