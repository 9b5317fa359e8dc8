package cost

import (
	"cmp"
	"maps"
	"slices"
)

// class says why something was asked for.
type class int

const (
	byEvents class = iota // a job's own transitions: it is the same however long its tasks take
	byTime                // signs of life, schedules, polling: it grows with the hours that work is open
	classes
)

// meter counts.
type meter struct {
	class  class
	off    bool // what the simulation itself looks at
	units  [lines][classes]float64
	kinds  map[string]*kind
	took   float64 // seconds that the handler under way has waited for services
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

// chunks is how many units of a size begun bytes take.
func chunks(bytes, size int) float64 { return float64(max(1, (bytes+size-1)/size)) }

// top lists the kinds of records by what their writes cost.
func (m *meter) top() []Record {
	out := make([]Record, 0, len(m.kinds))
	for _, name := range slices.Sorted(maps.Keys(m.kinds)) {
		k := m.kinds[name]
		out = append(out, Record{Kind: name, Writes: k.count, Units: k.units, USD: k.units * prices()[TableWrites].USD})
	}
	slices.SortStableFunc(out, func(a, b Record) int { return cmp.Compare(b.Units, a.Units) })
	return out
}
