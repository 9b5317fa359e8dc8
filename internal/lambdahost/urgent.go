package lambdahost

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// urgentWithin bounds telling what is urgent: it is told anyway, by the relay.
const urgentWithin = 2 * time.Second

// hurry has what was committed told at once where a task waits for it that a cloud has refused or lost, instead of
// when the table's stream has brought it to the relay. The relay tells it again, which changes nothing: the events are
// committed beside the records as all are, and a delivery may always come twice. So a failure here is none.
func (s *Sandbox) hurry(ctx context.Context, committed []store.Event) {
	if s.urgent == nil {
		return
	}
	var urgent []bus.Message
	for _, emitted := range committed {
		if e, err := events.Parse(emitted.Body); err == nil && isUrgent(e.Data) {
			urgent = append(urgent, bus.Message{ID: emitted.ID, Type: e.Type(), Group: e.Data.Group(),
				Body: emitted.Body})
		}
	}
	if len(urgent) == 0 {
		return
	}
	within, cancel := context.WithTimeout(ctx, urgentWithin)
	defer cancel()
	if err := s.urgent.Publish(within, urgent...); err != nil {
		s.Log.DebugContext(ctx, "what is urgent goes by the relay alone", "events", len(urgent), "err", err)
	}
}

// isUrgent says that work which could run stands still until an event is handled: a plan that something went wrong
// with, and the one that was made instead. What buys is not among them, although it is waited for as well: two that buy
// the same at once are kept apart by the cluster's name, but not every cloud does so before it has launched.
func isUrgent(data events.Data) bool {
	switch data := data.(type) {
	case events.DAGReplan:
		return true
	case events.DAGPlanned:
		return data.Plan > 1
	default:
		return false
	}
}
