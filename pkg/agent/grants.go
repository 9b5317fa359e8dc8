package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/agent/stage"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// grants asks the broker for what an attempt reads and writes. A broker that says that the attempt is over ends it.
type grants struct{ *attempt }

// Sign implements stage.Grants.
func (t grants) Sign(ctx context.Context, wants ...grant.Want) ([]grant.Grant, error) {
	var answer wire.Granted
	err := t.ask(ctx, wire.PathGrants, wire.Wants{Attempt: t.work.Attempt, Wants: wants}, &answer)
	for i := range answer.Grants { // what the broker serves itself is where the broker is
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
	var answer wire.Begun
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

// prune has the broker remove the checkpoints that newer ones have replaced. It may come after the attempt's end.
func (t grants) prune(ctx context.Context) error {
	return t.client.ask(ctx, wire.PathPrune, wire.Pruning{Attempt: t.work.Attempt}, nil)
}

func (t grants) ask(ctx context.Context, path string, question, answer any) error {
	err := t.client.ask(ctx, path, question, answer)
	if errors.Is(err, ErrOver) || errors.Is(err, ErrRefused) || errors.Is(err, ErrUnreachable) {
		t.over(err)
		return fmt.Errorf("%w: %w", stage.ErrRefused, err)
	}
	return err
}

// denial is the broker's answer to what it does not grant, in its own words.
func denial(code int, answer []byte) error {
	var said struct{ Detail string }
	_ = json.Unmarshal(answer, &said) // or nobody said why
	what := stage.ErrRefused
	switch code {
	case http.StatusNotFound:
		what = grant.ErrNoBucket
	case http.StatusConflict:
		what = grant.ErrUpload
	}
	return &deniedError{what: what, words: said.Detail}
}

// deniedError is a denial: its words, for people, and what kind of one it is.
type deniedError struct {
	what  error
	words string
}

func (e *deniedError) Error() string { return e.words }
func (e *deniedError) Unwrap() error { return e.what }
