package local

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// memory is the journal of a bus without a file: the messages are only in memory.
type memory struct {
	mu       sync.Mutex
	messages map[uint64]bus.Message
	letters  []letter // by ID
	numbers  atomic.Uint64
}

func newMemory() *memory {
	return &memory{messages: make(map[uint64]bus.Message)}
}

func (m *memory) next() uint64 { return m.numbers.Add(1) }

func (m *memory) commit(_ context.Context, c change) error { return m.later(c) }

func (m *memory) later(c change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range c.insert {
		m.messages[s.number] = cloned(s.message)
	}
	for _, b := range c.bury {
		m.bury(letter{id: b.letter, DeadLetter: bus.DeadLetter{
			Message: m.messages[b.number], Queue: b.queue, Reason: b.reason, Attempts: b.attempts,
			At: time.Unix(0, b.letter.at).UTC(),
		}})
		delete(m.messages, b.number)
	}
	for _, r := range c.remove {
		delete(m.messages, r.number)
	}
	for _, l := range c.dead {
		l.Message = cloned(&l.Message)
		m.bury(l)
	}
	if len(c.exhume) > 0 {
		m.letters = slices.DeleteFunc(m.letters, func(l letter) bool { return slices.Contains(c.exhume, l.id) })
	}
	return nil
}

func (m *memory) bury(l letter) {
	i, _ := m.find(l.id)
	m.letters = slices.Insert(m.letters, i, l)
}

func (m *memory) find(id letterID) (int, bool) {
	return slices.BinarySearchFunc(m.letters, id, func(l letter, id letterID) int { return l.id.compare(id) })
}

func (m *memory) read(_ string, taken []delivery) ([]bus.Delivery, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	deliveries := make([]bus.Delivery, 0, len(taken))
	for _, d := range taken {
		if msg, ok := m.messages[d.number]; ok {
			deliveries = append(deliveries, bus.Delivery{Message: msg, Receipt: d.receipt(), Attempt: int(d.attempts)})
		}
	}
	return deliveries, nil
}

func (m *memory) dead(_ context.Context, after letterID, yield func(letter) bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, found := m.find(after)
	if found {
		i++
	}
	for _, l := range m.letters[i:] {
		if !yield(l) {
			break
		}
	}
	return nil
}

func (m *memory) close() error { return nil }

func cloned(m *bus.Message) bus.Message {
	c := *m
	c.Body = bytes.Clone(m.Body)
	return c
}
