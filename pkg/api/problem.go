package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/identity"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Problem is an error as the API answers it (RFC 9457), with extension members that say where in a job file
// it is.
type Problem struct {
	Title  string `json:"title" doc:"The kind of problem, the same every time"`
	Status int    `json:"status" doc:"HTTP status code"`
	Detail string `json:"detail,omitempty" doc:"What went wrong this time"`

	File   string `json:"file,omitempty" doc:"The job file, as the request named it"`
	Line   int    `json:"line,omitempty" doc:"Line in the file, from 1"`
	Column int    `json:"column,omitempty" doc:"Column in the line, from 1, in bytes"`
	Field  string `json:"field,omitempty" doc:"Path to the value, as the file spells it"`
	Reason string `json:"reason,omitempty" doc:"What is wrong with the value"`
	Hint   string `json:"hint,omitempty" doc:"What to do about it"`

	Errors []ErrorDetail `json:"errors,omitempty" doc:"Which parts of the request are wrong"`
}

// ErrorDetail is a part of a request that is wrong.
type ErrorDetail struct {
	Message  string `json:"message,omitempty" doc:"Error message text"`
	Location string `json:"location,omitempty" doc:"Where the error occurred, e.g. 'body.items[3].tags' or 'path.thing-id'"`
	Value    any    `json:"value,omitempty" doc:"The value at the given location"`
}

// Error is the problem in a sentence.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// GetStatus is the HTTP status code.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is the media type of problem documents.
func (p *Problem) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// problem makes a Problem of a status and a sentence.
func problem(status int, detail string) *Problem {
	return &Problem{Title: http.StatusText(status), Status: status, Detail: detail}
}

// tooLarge refuses a body.
func tooLarge(limit int64) *Problem {
	return problem(http.StatusRequestEntityTooLarge, "the body has more than "+strconv.FormatInt(limit>>20, 10)+" MiB")
}

// badFile says where in a job file an error is.
func badFile(e *dag.Error) *Problem {
	p := problem(http.StatusUnprocessableEntity, e.Error())
	p.Title = "The job file is not valid"
	p.File, p.Line, p.Column, p.Field, p.Reason, p.Hint = e.File, e.Line, e.Column, e.Field, e.Reason, e.Hint
	return p
}

// fail turns an error into what the client is told. The words of errors that nobody foresaw are for the log only.
func (a *API) fail(ctx context.Context, err error) error {
	var dressed huma.HeadersError
	var known *Problem
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
		return badFile(file)
	case errors.Is(err, record.ErrNotFound), errors.Is(err, ErrNoLog), errors.Is(err, bus.ErrUnknownQueue):
		return problem(http.StatusNotFound, err.Error())
	case errors.Is(err, record.ErrQueue), errors.Is(err, record.ErrPool):
		return problem(http.StatusUnprocessableEntity, err.Error())
	case errors.Is(err, record.ErrVisit):
		return problem(http.StatusConflict, err.Error())
	case errors.Is(err, record.ErrOver), errors.Is(err, record.ErrPoolBusy):
		return problem(http.StatusConflict, err.Error())
	case errors.Is(err, record.ErrGone):
		return problem(http.StatusGone, "the attempt is over")
	case errors.Is(err, record.ErrMachine):
		return problem(http.StatusForbidden, err.Error())
	case errors.Is(err, record.ErrEarly):
		return huma.ErrorWithHeaders(problem(http.StatusServiceUnavailable, err.Error()+"; come again"),
			http.Header{"Retry-After": {"1"}})
	case errors.Is(err, identity.ErrUnavailable):
		a.log.WarnContext(ctx, "api: a machine's proof cannot be checked", "err", err)
		return huma.ErrorWithHeaders(
			problem(http.StatusServiceUnavailable, identity.ErrUnavailable.Error()+"; come again"),
			http.Header{"Retry-After": {"1"}})
	case errors.Is(err, store.ErrThrottled), errors.Is(err, store.ErrConflict),
		errors.Is(err, store.ErrClosed), errors.Is(err, bus.ErrClosed):
		a.log.WarnContext(ctx, "api: unavailable", "err", err)
		return huma.ErrorWithHeaders(problem(http.StatusServiceUnavailable,
			"the broker is busy or shutting down; try again"),
			http.Header{"Retry-After": {"1"}})
	case ctx.Err() != nil:
		return problem(http.StatusServiceUnavailable, "the request was given up")
	default:
		a.log.ErrorContext(ctx, "api: internal error", "err", err)
		return problem(http.StatusInternalServerError, "internal error; the broker's log has the details")
	}
}

// writeProblem answers a request that no operation handles.
func writeProblem(w http.ResponseWriter, p *Problem) {
	body, err := json.Marshal(p)
	if err != nil { // of strings and numbers: cannot be
		body = []byte(`{"title":"Internal Server Error","status":500}`)
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n')) // the client has gone
}

// unmatched answers for a path or method that does not exist, in the words of the mux but as a problem.
func (a *API) unmatched(w http.ResponseWriter, r *http.Request, h http.Handler) {
	probe := &probe{header: http.Header{}}
	h.ServeHTTP(probe, r)
	if allow := probe.header.Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
	}
	detail := "there is no " + r.URL.Path
	if probe.status == http.StatusMethodNotAllowed {
		detail = r.Method + " is not for " + r.URL.Path + "; allowed: " +
			strings.Join(probe.header.Values("Allow"), ", ")
	}
	writeProblem(w, problem(max(probe.status, http.StatusBadRequest), detail))
}

// probe takes the status and headers of an answer and drops its body.
type probe struct {
	header http.Header
	status int
}

func (p *probe) Header() http.Header         { return p.header }
func (p *probe) Write(b []byte) (int, error) { return len(b), nil }
func (p *probe) WriteHeader(status int)      { p.status = status }
