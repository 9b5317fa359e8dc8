package sim

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// entry is one line of a history.
type entry struct {
	step   int
	at     time.Duration // since the beginning
	who    string
	what   string
	detail string
}

func (e entry) String() string {
	return fmt.Sprintf("%7d %14s  %-18s %s %s", e.step, e.at.Round(time.Millisecond), e.who, e.what, e.detail)
}

// history keeps the last entries, and writes all of them where it is asked to.
type history struct {
	ring  []entry
	count int
	w     io.Writer
	err   error
	told  func(entry) // may be nil
}

func newHistory(keep int, w io.Writer) *history {
	return &history{ring: make([]entry, 0, max(keep, 1)), w: w}
}

func (h *history) add(e entry) {
	if len(h.ring) < cap(h.ring) {
		h.ring = append(h.ring, e)
	} else {
		h.ring[h.count%len(h.ring)] = e
	}
	h.count++
	if h.told != nil {
		h.told(e)
	}
	if h.w != nil && h.err == nil {
		_, h.err = fmt.Fprintln(h.w, e)
	}
}

// lines returns what is kept, oldest first.
func (h *history) lines() []string {
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
