package timeline

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Entry is one line of a history.
type Entry struct {
	step   int
	At     time.Duration // since the beginning
	Who    string
	What   string
	Detail string
}

func (e Entry) String() string {
	return fmt.Sprintf("%7d %14s  %-18s %s %s", e.step, e.At.Round(time.Millisecond), e.Who, e.What, e.Detail)
}

// history keeps the last entries, and writes all of them to w if set.
type history struct {
	ring    []Entry
	count   int
	w       io.Writer
	err     error
	OnEntry func(Entry) // may be nil
}

func newHistory(keep int, w io.Writer) *history {
	return &history{ring: make([]Entry, 0, max(keep, 1)), w: w}
}

func (h *history) add(e Entry) {
	if len(h.ring) < cap(h.ring) {
		h.ring = append(h.ring, e)
	} else {
		h.ring[h.count%len(h.ring)] = e
	}
	h.count++
	if h.OnEntry != nil {
		h.OnEntry(e)
	}
	if h.w != nil && h.err == nil {
		_, h.err = fmt.Fprintln(h.w, e)
	}
}

// Lines returns the kept lines, oldest first.
func (h *history) Lines() []string {
	oldest := 0
	if h.count > len(h.ring) {
		oldest = h.count % len(h.ring)
	}
	lines := make([]string, 0, len(h.ring))
	for _, e := range slices.Concat(h.ring[oldest:], h.ring[:oldest]) {
		lines = append(lines, e.String())
	}
	return lines
}
