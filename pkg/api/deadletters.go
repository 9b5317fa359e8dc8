package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

func (a *API) deadLetterRoutes() {
	userRoute(a, huma.Operation{
		OperationID: "list-dead-letters", Method: http.MethodGet, Path: "/v1/deadletters", Tags: []string{"operations"},
		Summary: "List events that were given up, the oldest first",
	}, a.listDeadLetters)
	userRoute(a, huma.Operation{
		OperationID: "redrive", Method: http.MethodPost, Path: "/v1/deadletters/redrive", Tags: []string{"operations"},
		Summary: "Deliver events again that were given up",
	}, a.redrive)
}

type deadLettersInput struct {
	Queue string `query:"queue" maxLength:"128" doc:"The function's queue; empty is all"`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"The most events to list"`
}

// DeadLetter is an event that was given up.
type DeadLetter struct {
	ID       string          `json:"id" doc:"ID of the event"`
	Type     string          `json:"type" doc:"Type of the event"`
	Group    string          `json:"group,omitempty" doc:"Job it belongs to"`
	Queue    string          `json:"queue" doc:"Function that could not handle it; empty when none is for its type"`
	Reason   string          `json:"reason" doc:"Why it was given up"`
	Attempts int             `json:"attempts" doc:"Times it was delivered"`
	At       time.Time       `json:"at" doc:"When it was given up"`
	Event    json.RawMessage `json:"event,omitempty" doc:"The CloudEvents envelope, where it is JSON"`
}

// DeadLetterList is a list of events that were given up.
type DeadLetterList struct {
	DeadLetters []DeadLetter `json:"deadLetters" nullable:"false" doc:"The events, the oldest first"`
}

func (a *API) listDeadLetters(ctx context.Context, in *deadLettersInput) (*body[DeadLetterList], error) {
	if a.cfg.Dead == nil {
		return nil, noDeadLetters()
	}
	letters, err := a.cfg.Dead.DeadLetters(ctx, in.Queue, in.Limit)
	if err != nil {
		return nil, err
	}
	out := &body[DeadLetterList]{Body: DeadLetterList{DeadLetters: make([]DeadLetter, 0, len(letters))}}
	for _, l := range letters {
		out.Body.DeadLetters = append(out.Body.DeadLetters, viewLetter(l))
	}
	return out, nil
}

func noDeadLetters() error {
	return problem(http.StatusNotImplemented, "this broker's bus keeps its dead letters elsewhere")
}

func viewLetter(l bus.DeadLetter) DeadLetter {
	v := DeadLetter{ID: l.ID, Type: l.Type, Group: l.Group, Queue: l.Queue, Reason: l.Reason,
		Attempts: l.Attempts, At: l.At}
	if json.Valid(l.Body) {
		v.Event = l.Body
	}
	return v
}

// Redrive says which events to deliver again.
type Redrive struct {
	_     struct{} `additionalProperties:"false"`
	Queue string   `json:"queue,omitempty" maxLength:"128" doc:"The function's queue; empty is all"`
	IDs   []string `json:"ids,omitempty" maxItems:"1000" nullable:"false" doc:"IDs of events; none is all of the queue"`
}

type redriveInput struct{ Body Redrive }

// Redriven is the answer to Redrive.
type Redriven struct {
	Redriven int `json:"redriven" doc:"Events that are delivered again"`
}

func (a *API) redrive(ctx context.Context, in *redriveInput) (*body[Redriven], error) {
	if a.cfg.Dead == nil {
		return nil, noDeadLetters()
	}
	n, err := a.cfg.Dead.Redrive(ctx, in.Body.Queue, in.Body.IDs...)
	if err != nil {
		return nil, err
	}
	return &body[Redriven]{Body: Redriven{Redriven: n}}, nil
}
