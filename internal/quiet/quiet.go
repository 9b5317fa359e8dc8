// Package quiet is a store that does not keep events for which nobody is
// listening, where each event costs: of a task that starts, say, or a location that
// is blocked. The records have it all.
package quiet

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Store drops the events of a transaction that are routed to no function. What cannot be read is kept: it belongs to
// the dead letters.
type Store struct {
	store.Store
	routes map[string][]string
	heard  []string
}

// New wraps a store. Types of events that somebody else hears, though no function does, are kept.
func New(s store.Store, heard ...string) Store {
	return Store{Store: s, routes: events.Routes(), heard: heard}
}

// Commit implements store.Store.
func (s Store) Commit(ctx context.Context, tx store.Tx) error {
	if slices.ContainsFunc(tx.Events, s.unheard) {
		tx.Events = slices.DeleteFunc(slices.Clone(tx.Events), s.unheard)
		if len(tx.Events)+len(tx.Writes) == 0 {
			return ctx.Err()
		}
	}
	return s.Store.Commit(ctx, tx)
}

// unheard says that nobody reacts to an event.
func (s Store) unheard(e store.Event) bool {
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(e.Body, &head); err != nil {
		return false
	}
	to, known := s.routes[head.Type]
	return known && len(to) == 0 && !slices.Contains(s.heard, head.Type)
}
