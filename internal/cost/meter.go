package cost

import (
	"cmp"
	"maps"
	"slices"
)

// class is the reason for a request.
type class int

const (
	byEvents class = iota // a job's own transitions: independent of the duration of its tasks
	byTime                // heartbeats, schedules, polling: grows with the hours during which work is open
	classes
)

// meter counts units, calls and waiting times.
type meter struct {
	class  class
	off    bool // true while the simulation itself reads
	units  [lines][classes]float64
	kinds  map[string]*kind
	took   float64 // seconds that the current handler has waited for services
	calls  map[string]int
	batchN map[string]int // messages by function
}

type kind struct {
	count int
	units float64
}

func newMeter() *meter {
	return &meter{kinds: map[string]*kind{}, calls: map[string]int{}, batchN: map[string]int{}}
}

func (m *meter) add(l Line, n float64) {
	if !m.off {
		m.units[l][m.class] += n
	}
}

// wrote counts a write of a kind of record.
func (m *meter) wrote(name string, units float64) {
	if m.off {
		return
	}
	m.add(TableWrites, units)
	k := m.kinds[name]
	if k == nil {
		k = &kind{}
		m.kinds[name] = k
	}
	k.count++
	k.units += units
}

// wait counts time that a handler waits for a service.
func (m *meter) wait(seconds float64) {
	if !m.off {
		m.took += seconds
	}
}

// chunks returns the number of started units of a size in bytes.
func chunks(bytes, size int) float64 { return float64(max(1, (bytes+size-1)/size)) }

// top lists the kinds of records by the cost of their writes.
func (m *meter) top() []Record {
	out := make([]Record, 0, len(m.kinds))
	for _, name := range slices.Sorted(maps.Keys(m.kinds)) {
		k := m.kinds[name]
		out = append(out, Record{Kind: name, Writes: k.count, Units: k.units, USD: k.units * prices()[TableWrites].USD})
	}
	slices.SortStableFunc(out, func(a, b Record) int { return cmp.Compare(b.Units, a.Units) })
	return out
}
