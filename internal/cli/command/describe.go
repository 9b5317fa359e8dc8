package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// ExitCode returns the exit code for an error of either program.
func ExitCode(err error) int {
	var known *Failure
	var file *dag.Error
	var model *optimizer.ModelError
	var problem *apitypes.Problem
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &known):
		return known.Code
	case errors.Is(err, catalog.ErrNoOffer):
		return ExitInfeasible
	case errors.As(err, &file), errors.As(err, &model), errors.Is(err, catalog.ErrBadQuery),
		errors.Is(err, catalog.ErrBadData), errors.Is(err, local.ErrScenario),
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

// Describe splits an error into its text, preceded by its position, and a hint.
func Describe(err error) (what, hint string) {
	var known *Failure
	var file *dag.Error
	var problem *apitypes.Problem
	switch {
	case errors.As(err, &known):
		return known.Text, known.Hint
	case errors.As(err, &file):
		if len(file.Also) > 0 {
			return file.Error(), ""
		}
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
		return err.Error(), "`tradewind doctor` checks the broker and its state folder"
	case errors.Is(err, host.ErrLocked):
		return err.Error(), "another tradewind is starting or ending there; try again, or name another folder " +
			"with --state"
	case errors.Is(err, fs.ErrPermission):
		return err.Error(), "you must own the state folder and all files in it"
	case errors.Is(err, context.Canceled):
		return "", "" // the user interrupted and needs no message
	default:
		return err.Error(), ""
	}
}

func describeProblem(p *apitypes.Problem) (what, hint string) {
	if p.File == "" && p.Field == "" {
		what = p.Error()
		for _, e := range p.Errors {
			what += fmt.Sprintf("\n  %s: %s", e.Location, e.Message)
		}
		return what, p.Hint
	}
	e := dag.Error{File: p.File, Line: p.Line, Column: p.Column, Field: p.Field, Reason: p.Reason}
	if len(p.Errors) == 0 {
		return e.Error(), p.Hint
	}
	e.Hint = p.Hint
	what = e.Error()
	for _, o := range p.Errors {
		what += fmt.Sprintf("\n%s: %s", o.Location, o.Message)
	}
	return what, ""
}
