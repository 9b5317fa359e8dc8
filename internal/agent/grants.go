package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// grants requests grants from the broker for the data that an attempt reads and writes. If the broker answers that
// the attempt has finished, the attempt ends.
type grants struct{ *attempt }

// Sign implements stage.Grants.
func (t grants) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	var answer wire.Granted
	err := t.ask(ctx, wire.PathGrants, wire.Wants{Attempt: t.work.Attempt, Wants: wants}, &answer)
	for i := range answer.Grants { // a relative URL is relative to the broker's endpoint
		if g := &answer.Grants[i]; strings.HasPrefix(g.URL, "/") {
			g.URL = t.client.endpoint + g.URL
		}
	}
	return answer.Grants, err
}

// List implements stage.Grants.
func (t grants) List(ctx context.Context, prefix, after string) (page grant.Page, err error) {
	err = t.ask(ctx, wire.PathList, wire.Listing{Attempt: t.work.Attempt, Prefix: prefix, After: after}, &page)
	return page, err
}

// Begin implements stage.Grants.
func (t grants) Begin(ctx context.Context, uri string) (upload string, err error) {
	var answer wire.UploadID
	err = t.ask(ctx, wire.PathUploads,
		wire.Upload{Attempt: t.work.Attempt, Step: wire.UploadBegin, URI: uri}, &answer)
	return answer.Upload, err
}

// Complete implements stage.Grants.
func (t grants) Complete(ctx context.Context, uri, upload string, parts []grant.Uploaded) error {
	return t.ask(ctx, wire.PathUploads, wire.Upload{
		Attempt: t.work.Attempt, Step: wire.UploadComplete, URI: uri, Upload: upload, Parts: parts,
	}, nil)
}

// Abort implements stage.Grants.
func (t grants) Abort(ctx context.Context, uri, upload string) error {
	return t.ask(ctx, wire.PathUploads, wire.Upload{
		Attempt: t.work.Attempt, Step: wire.UploadAbort, URI: uri, Upload: upload,
	}, nil)
}

// prune requests the removal of checkpoints that newer ones have replaced. It may be called after the attempt's end.
func (t grants) prune(ctx context.Context) error {
	return t.client.ask(ctx, wire.PathPrune, wire.Pruning{Attempt: t.work.Attempt}, nil)
}

func (t grants) ask(ctx context.Context, path string, question, answer any) error {
	err := t.client.ask(ctx, path, question, answer)
	if errors.Is(err, ErrFinished) || errors.Is(err, ErrRefused) || errors.Is(err, ErrUnreachable) {
		t.endAgent(err)
		return fmt.Errorf("%w: %w", stage.ErrRefused, err)
	}
	return err
}

// denial returns the error for a request that the broker refused, with the broker's explanation.
func denial(code int, answer []byte) error {
	var said struct{ Detail string }
	_ = json.Unmarshal(answer, &said) // the answer may contain no explanation
	what := stage.ErrRefused
	switch code {
	case http.StatusNotFound:
		what = grant.ErrNoBucket
	case http.StatusConflict:
		what = grant.ErrUpload
	}
	return &deniedError{what: what, words: said.Detail}
}

// deniedError is a refused request: the broker's explanation for users, and the kind of refusal.
type deniedError struct {
	what  error
	words string
}

func (e *deniedError) Error() string { return e.words }
func (e *deniedError) Unwrap() error { return e.what }
