package mem

import (
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// outbox keeps pending events in the order in which they were first committed.
// Publishing an event leaves an empty place in the order. The places are compacted
// when most are empty, so that every operation takes constant time on average.
type outbox struct {
	order []place
	live  map[string]pending
	next  uint64
}

type place struct {
	id     string
	number uint64
}

type pending struct {
	body   []byte
	number uint64 // the number of its place
}

func (o *outbox) put(id string, body []byte) {
	if e, replaces := o.live[id]; replaces {
		o.live[id] = pending{body: body, number: e.number}
		return
	}
	if o.live == nil {
		o.live = make(map[string]pending)
	}
	o.next++
	o.live[id] = pending{body: body, number: o.next}
	o.order = append(o.order, place{id: id, number: o.next})
}

func (o *outbox) first(limit int) []store.Event {
	var events []store.Event
	for _, p := range o.order {
		if len(events) >= limit {
			break
		}
		if e, ok := o.live[p.id]; ok && e.number == p.number {
			events = append(events, store.Event{ID: p.id, Body: e.body})
		}
	}
	return events
}

func (o *outbox) remove(ids []string) {
	for _, id := range ids {
		delete(o.live, id)
	}
	if len(o.order) > 2*len(o.live)+64 {
		o.order = slices.DeleteFunc(o.order, func(p place) bool {
			e, ok := o.live[p.id]
			return !ok || e.number != p.number
		})
	}
}

func (o *outbox) clone() outbox {
	return outbox{order: slices.Clone(o.order), live: maps.Clone(o.live), next: o.next}
}
