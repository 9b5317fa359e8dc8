package driver

import (
	"context"
	"errors"

	"github.com/tradewind-broker/tradewind/events"
)

// ErrNoAnnouncer means that no cloud of the broker has topics.
var ErrNoAnnouncer = errors.New("announce: no Google Cloud account is added, so nothing can be published: " +
	"tradewind cloud add gcp --project PROJECT")

// AnnounceFinished publishes the end of a job on the topic that the job names, in structured mode, with attributes for
// filters (Google Cloud Pub/Sub Protocol Binding for CloudEvents 1.0, section 3.2). It does nothing if the job names
// no topic.
func AnnounceFinished(ctx context.Context, a Announcer, e events.Event, d events.DAGFinished) error {
	if d.Announce == "" {
		return nil
	}
	if a == nil {
		return ErrNoAnnouncer
	}
	body, err := e.MarshalJSON()
	if err != nil {
		return err
	}
	return a.Announce(ctx, d.Announce, body, map[string]string{
		"content-type": "application/cloudevents+json; charset=utf-8", "ce-type": e.Type(), "ce-id": e.ID,
		"ce-subject": d.Job, "outcome": d.Outcome,
	})
}
