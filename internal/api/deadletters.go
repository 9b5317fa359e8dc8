package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

func (a *API) deadLetterRoutes() {
	userRoute(a, huma.Operation{
		OperationID: "list-dead-letters", Method: http.MethodGet, Path: "/v1/deadletters", Tags: []string{"operations"},
		Summary: "List dead letters: events that the broker stopped delivering, the oldest first",
	}, a.listDeadLetters)
	userRoute(a, huma.Operation{
		OperationID: "redrive", Method: http.MethodPost, Path: "/v1/deadletters/redrive", Tags: []string{"operations"},
		Summary: "Deliver dead letters again",
	}, a.redrive)
}

type deadLettersInput struct {
	Queue string `query:"queue" maxLength:"128" doc:"The function's queue; empty for all"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of events"`
}

func (a *API) listDeadLetters(ctx context.Context, in *deadLettersInput) (*body[apitypes.DeadLetterList], error) {
	if a.cfg.Dead == nil {
		return nil, noDeadLetters()
	}
	letters, err := a.cfg.Dead.DeadLetters(ctx, in.Queue, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &body[apitypes.DeadLetterList]{
		Body: apitypes.DeadLetterList{DeadLetters: make([]apitypes.DeadLetter, 0, len(letters))},
	}
	for _, l := range letters {
		out.Body.DeadLetters = append(out.Body.DeadLetters, viewLetter(l))
	}
	return out, nil
}

func noDeadLetters() error {
	return problem(http.StatusNotImplemented, "this broker has no access to the dead letters of its bus")
}

func viewLetter(l bus.DeadLetter) apitypes.DeadLetter {
	v := apitypes.DeadLetter{ID: l.ID, Type: l.Type, Group: l.Group, Queue: l.Queue, Reason: l.Reason,
		Attempts: l.Attempts, At: l.At}
	if json.Valid(l.Body) {
		v.Event = l.Body
	}
	return v
}

type redriveInput struct{ Body apitypes.Redrive }

func (a *API) redrive(ctx context.Context, in *redriveInput) (*body[apitypes.Redriven], error) {
	if a.cfg.Dead == nil {
		return nil, noDeadLetters()
	}
	n, err := a.cfg.Dead.Redrive(ctx, in.Body.Queue, in.Body.IDs...)
	if err != nil {
		return nil, err
	}
	return &body[apitypes.Redriven]{Body: apitypes.Redriven{Redriven: n}}, nil
}
