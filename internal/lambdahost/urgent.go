package lambdahost

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/bus"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// urgentWithin limits the time for urgent publishing; the relay publishes the events anyway.
const urgentWithin = 2 * time.Second

// publishUrgent publishes committed events at once if a task that a cloud refused or lost waits for them, instead of
// waiting for the table's stream and the relay. The relay publishes them again, which changes nothing: deliveries may
// always be repeated. So a failure here is harmless.
func (s *Sandbox) publishUrgent(ctx context.Context, committed []store.Event) {
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
		s.Log.DebugContext(ctx, "urgent events are left to the relay", "events", len(urgent), "err", err)
	}
}

// isUrgent reports whether runnable work waits for an event: a plan with which something went wrong, and its
// replacement. Events that buy machines are not urgent, although work waits for them as well: the cluster's name keeps
// two concurrent buyers apart, but not every cloud checks it before launching.
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
