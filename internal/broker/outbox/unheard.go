package outbox

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// unheardDropper drops the events of a transaction that no function consumes. It keeps an event that cannot be
// decoded, which becomes a dead letter.
type unheardDropper struct {
	store.Store
	routes map[string][]string
	heard  []string
}

// DropUnheard wraps a store that charges for each event. It drops the events that no function consumes, because the
// records have their content. It keeps the types in heard, which other consumers read.
func DropUnheard(s store.Store, heard ...string) store.Store {
	return unheardDropper{Store: s, routes: events.Routes(), heard: heard}
}

// Commit implements store.Store.
func (s unheardDropper) Commit(ctx context.Context, tx store.Tx) error {
	if slices.ContainsFunc(tx.Events, s.unheard) {
		tx.Events = slices.DeleteFunc(slices.Clone(tx.Events), s.unheard)
		if len(tx.Events)+len(tx.Writes) == 0 {
			return ctx.Err()
		}
	}
	return s.Store.Commit(ctx, tx)
}

// unheard reports whether no function reacts to an event.
func (s unheardDropper) unheard(e store.Event) bool {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(e.Body, &head); err != nil {
		return false
	}
	to, known := s.routes[head.Type]
	return known && len(to) == 0 && !slices.Contains(s.heard, head.Type)
}
