package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

type followInput struct {
	ID    string `path:"id" doc:"Job ID" maxLength:"256"`
	Last  string `header:"Last-Event-ID" maxLength:"128" doc:"ID of the last event that arrived"`
	After string `query:"after" maxLength:"128" doc:"The same, for clients that cannot set headers"`
}

func (a *API) eventRoutes() {
	userRoute(a, huma.Operation{
		OperationID: "follow-job",
		Method:      http.MethodGet,
		Path:        "/v1/jobs/{id}/events",
		Tags:        []string{"jobs"},
		Summary:     "Follow a job",
		Description: "Server-sent events: first `job` with everything (several events for a large job), then " +
			"`job` with " +
			"what changed after every change, then `end`. A broken stream can be reopened at any time. With the " +
			"ID of " +
			"the last event that arrived, it begins with the changes since then if possible, otherwise with " +
			"everything. " +
			"Comments keep a silent stream alive.",
		Responses: answers("The events, with one schema for each name", "text/event-stream", a.eventSchema()),
	}, a.followJob)
}

// eventSchema describes the events of a job's stream as objects.
func (a *API) eventSchema() *huma.Schema {
	one := func(name string, data any) *huma.Schema {
		return &huma.Schema{
			Type: huma.TypeObject, Title: name, Required: []string{"event", "data"},
			Properties: map[string]*huma.Schema{
				"event": {Type: huma.TypeString, Enum: []any{name}},
				"data":  a.schema(data),
			},
		}
	}
	return &huma.Schema{
		Type: huma.TypeArray,
		Items: &huma.Schema{
			OneOf: []*huma.Schema{
				one(apitypes.EventJob, apitypes.JobUpdate{}),
				one(apitypes.EventEnd, apitypes.JobView{}),
			},
		},
	}
}

func (a *API) followJob(ctx context.Context, in *followInput) (*huma.StreamResponse, error) {
	feed, done := a.feeds.Follow(in.ID)
	first, err := feed.Next(ctx, 0)
	if err != nil {
		done()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer done()
		s := Open(hc, "text/event-stream")
		defer s.Close()
		a.sendEvents(hc.Context(), s, feed, first, cmp.Or(in.Last, in.After))
	}}, nil
}

// sendEvents sends updates to a follower, from its place in the stream on, until the job has finished, the follower
// has disconnected or the host stops.
func (a *API) sendEvents(ctx context.Context, s *Stream, f *Feed, now Moment, place string) {
	for {
		updates, places := f.Since(now, place, a.cfg.Now().UTC())
		for i := range updates {
			place = places[i]
			if err := s.Event(apitypes.EventJob, place, updates[i]); err != nil {
				return
			}
		}
		if now.Detail.State.Finished() {
			_ = s.Event(apitypes.EventEnd, "", now.Detail.JobView) // an error means that the follower has gone
			return
		}
		var err error
		if now, err = a.nextOrAlive(ctx, s, f, now); err != nil {
			return
		}
	}
}

// nextOrAlive waits for the next moment and sends heartbeats until then.
func (a *API) nextOrAlive(ctx context.Context, s *Stream, f *Feed, now Moment) (
	Moment, error) {
	for {
		wait, stop := context.WithTimeout(ctx, heartbeat)
		next, err := f.Next(wait, now.N)
		stop()
		if err == nil || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			return next, err
		}
		if err := s.Alive(); err != nil {
			return now, err
		}
	}
}
