package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/client"
	"github.com/tradewind-broker/tradewind/pkg/api"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/host"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// Exit codes (DESIGN §8). Interrupted is what shells expect of a program that was stopped from the keyboard.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitBadInput    = 2
	ExitInfeasible  = 3
	ExitInterrupted = 130
)

// failure is an error with its exit code and what to do about it.
type failure struct {
	code int
	text string // empty: everything has been said already
	hint string
	err  error // cause; may be nil
}

func (f *failure) Error() string {
	if f.text == "" && f.err != nil {
		return f.err.Error()
	}
	return f.text
}

func (f *failure) Unwrap() error { return f.err }

// badInput is a failure for which the caller is to blame.
func badInput(hint, format string, args ...any) error {
	return &failure{code: ExitBadInput, text: fmt.Sprintf(format, args...), hint: hint}
}

// failed is a failure of the work itself.
func failed(hint, format string, args ...any) error {
	return &failure{code: ExitFailed, text: fmt.Sprintf(format, args...), hint: hint}
}

// silent ends with a code of which the output tells already.
func silent(code int) error { return &failure{code: code} }

// because keeps a failure's code and hint and says what caused it.
func because(cause error, code int, hint, format string, args ...any) error {
	return &failure{code: code, text: fmt.Sprintf(format, args...), hint: hint, err: cause}
}

// exitCode is the exit code for an error.
func exitCode(err error) int {
	var known *failure
	var file *dag.Error
	var model *optimizer.ModelError
	var problem *api.Problem
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &known):
		return known.code
	case errors.Is(err, catalog.ErrNoOffer):
		return ExitInfeasible
	case errors.As(err, &file), errors.As(err, &model), errors.Is(err, catalog.ErrBadQuery), errors.Is(err, catalog.ErrBadData),
		errors.Is(err, catalog.ErrBadOfferID), errors.Is(err, catalog.ErrUnknownOffer),
		errors.Is(err, fs.ErrNotExist): // a file or folder that a flag named
		return ExitBadInput
	case errors.As(err, &problem):
		if problem.File != "" || problem.Status == 404 || problem.Status == 422 {
			return ExitBadInput
		}
		return ExitFailed
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	default:
		return ExitFailed
	}
}

// report tells a person of an error: what was wrong, where, and what to do.
func report(w io.Writer, style text.Style, err error) {
	what, hint := describe(err)
	if what == "" {
		return
	}
	_, _ = fmt.Fprintf(w, "%s %s\n", style.Paint(text.Bad, "error:"), lines(what))
	if hint != "" {
		_, _ = fmt.Fprintf(w, "%s %s\n", style.Paint(text.Active, "hint:"), lines(hint))
	}
}

// lines makes a text of several lines safe to print, each line on its own.
func lines(s string) string {
	parts := strings.Split(strings.TrimSpace(s), "\n")
	for i, p := range parts {
		parts[i] = strings.TrimRight(text.Clean(p), " ")
	}
	return strings.Join(parts, "\n")
}

// describe takes an error apart into what was wrong, with its place in front, and what to do.
func describe(err error) (what, hint string) {
	var known *failure
	var file *dag.Error
	var problem *api.Problem
	switch {
	case errors.As(err, &known):
		return known.text, known.hint
	case errors.As(err, &file):
		plain := *file
		plain.Hint = ""
		hint = file.Hint
		if hint == "" && errors.Is(err, scheduler.ErrInvalid) {
			hint = "docs/scheduling.md lists actions, plugins and their settings"
		}
		return plain.Error(), hint
	case errors.As(err, &problem):
		return describeProblem(problem)
	case errors.Is(err, client.ErrUnreachable):
		return err.Error(), "`tradewind doctor` looks at the broker and its state folder"
	case errors.Is(err, host.ErrLocked):
		return err.Error(), "another tradewind starts or ends there; try again, or name another folder with --state"
	case errors.Is(err, fs.ErrPermission):
		return err.Error(), "the state folder, and all files in it, have to be the user's own"
	case errors.Is(err, context.Canceled):
		return "", "" // whoever interrupted knows
	default:
		return err.Error(), ""
	}
}

func describeProblem(p *api.Problem) (what, hint string) {
	if p.File == "" && p.Field == "" {
		what = p.Error()
		for _, e := range p.Errors {
			what += fmt.Sprintf("\n  %s: %s", e.Location, e.Message)
		}
		return what, p.Hint
	}
	e := dag.Error{File: p.File, Line: p.Line, Column: p.Column, Field: p.Field, Reason: p.Reason}
	return e.Error(), p.Hint
}
