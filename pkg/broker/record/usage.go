package record

import (
	"math"
	"slices"
	"strings"
	"time"
)

// Held is what is held of a queue's quota.
type Held struct {
	Tasks float64 `json:"tasks,omitempty"`
	VCPU  float64 `json:"vcpu,omitempty"`
	Use   Amounts `json:"use,omitempty"` // beside vCPUs
}

// Past is what was held over time: a mean in which what was counts half after each half-life.
type Past struct {
	At time.Time `json:"at"`
	Held
}

// AdvancePast is the past at a later time, with held in between.
func AdvancePast(p Past, now time.Time, held Held, halfLife time.Duration) Past {
	if p.At.IsZero() || halfLife <= 0 {
		return Past{At: now} // nothing is known of before
	}
	if !now.After(p.At) {
		return p
	}
	keep := math.Exp2(-float64(now.Sub(p.At)) / float64(halfLife))
	mean := func(past, held float64) float64 { return past*keep + held*(1-keep) }
	out := Past{At: now, Held: Held{Tasks: mean(p.Tasks, held.Tasks), VCPU: mean(p.VCPU, held.VCPU)}}
	for name := range p.Use.Plus(held.Use) {
		if v := mean(p.Use[name], held.Use[name]); v > amountEps {
			out.Use = out.Use.Plus(Amounts{name: v})
		}
	}
	return out
}

// Space is what the jobs of a namespace hold of a queue, and have held.
type Space struct {
	Name string `json:"name"`
	Held
	Past Past `json:"past,omitzero"`
}

// MaxSpaces is how many namespaces a queue tells apart at a time; what others hold counts for none.
const MaxSpaces = 64

// longGone is so little of a task, or of a vCPU, that it does not matter who held it.
const longGone = 1e-3

// Remember has the past of a queue, and of its namespaces, include what is held until now. It comes before what is held
// changes. With a half-life of nothing the past is forgotten.
func Remember(q *Queue, now time.Time, halfLife time.Duration) {
	past := func(p Past, held Held) Past {
		if halfLife <= 0 {
			return Past{}
		}
		return AdvancePast(p, now, held, halfLife)
	}
	q.Past = past(q.Past, Held{float64(q.Running), q.VCPU, q.Use})
	var kept []Space
	for _, s := range q.Spaces {
		s.Past = past(s.Past, s.Held)
		if s.Tasks > 0 || s.Past.Tasks > longGone || s.Past.VCPU > longGone {
			kept = append(kept, s)
		}
	}
	q.Spaces = kept
}

// CountSpace adds to what a namespace's jobs hold of a queue; with amounts below nothing it takes away.
func CountSpace(q *Queue, namespace string, by Held) {
	i, known := slices.BinarySearchFunc(q.Spaces, namespace, func(s Space, name string) int {
		return strings.Compare(s.Name, name)
	})
	switch {
	case namespace == "" || !known && (by.Tasks <= 0 || len(q.Spaces) >= MaxSpaces):
		return
	case !known:
		q.Spaces = slices.Insert(slices.Clone(q.Spaces), i, Space{Name: namespace})
	default:
		q.Spaces = slices.Clone(q.Spaces)
	}
	q.Spaces[i].Held = plusHeld(q.Spaces[i].Held, by)
}

// Plus is the sum of two amounts.
func (h Held) Plus(by Held) Held {
	return Held{Tasks: h.Tasks + by.Tasks, VCPU: h.VCPU + by.VCPU, Use: h.Use.Plus(by.Use)}
}

// plusHeld adds, to no less than nothing.
func plusHeld(h, by Held) Held {
	out := Held{Tasks: max(0, h.Tasks+by.Tasks), VCPU: max(0, h.VCPU+by.VCPU), Use: h.Use}
	if out.Tasks == 0 {
		return Held{} // what rounding left
	}
	more, less := Amounts{}, Amounts{}
	for name, v := range by.Use {
		if v > 0 {
			more[name] = v
		} else {
			less[name] = -v
		}
	}
	out.Use = out.Use.Plus(more).Minus(less)
	return out
}

// Negative is an amount with the opposite sign.
func (h Held) Negative() Held {
	out := Held{Tasks: -h.Tasks, VCPU: -h.VCPU}
	for name, v := range h.Use {
		out.Use = out.Use.Plus(Amounts{name: -v})
	}
	return out
}
