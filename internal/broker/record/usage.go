package record

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// AdvancePast returns past use at a later time, if held was held in between.
func AdvancePast(p apitypes.Past, now time.Time, held apitypes.Held, halfLife time.Duration) apitypes.Past {
	if p.At.IsZero() || halfLife <= 0 {
		return apitypes.Past{At: now} // nothing is known of earlier times
	}
	if !now.After(p.At) {
		return p
	}
	keep := math.Exp2(-float64(now.Sub(p.At)) / float64(halfLife))
	mean := func(past, held float64) float64 { return past*keep + held*(1-keep) }
	out := apitypes.Past{At: now, Held: apitypes.Held{Tasks: mean(p.Tasks, held.Tasks), VCPU: mean(p.VCPU, held.VCPU)}}
	for name := range p.Use.Plus(held.Use) {
		if v := mean(p.Use[name], held.Use[name]); v > leastHeld {
			out.Use = out.Use.Plus(apitypes.Amounts{name: v})
		}
	}
	return out
}

// MaxSpaces is the maximum number of namespaces that a queue counts at a time. The use of further namespaces is not
// counted.
const MaxSpaces = 64

// leastHeld is the tolerance for amounts of resources.
const leastHeld = 1e-6

// negligibleUse is a past use of tasks or vCPUs that is too small to keep.
const negligibleUse = 1e-3

// Remember adds the use of a queue and its namespaces until now to their past use. It must be called before the use
// changes. With a half-life of 0, past use is dropped.
func Remember(q *apitypes.Queue, now time.Time, halfLife time.Duration) {
	past := func(p apitypes.Past, held apitypes.Held) apitypes.Past {
		if halfLife <= 0 {
			return apitypes.Past{}
		}
		return AdvancePast(p, now, held, halfLife)
	}
	q.Past = past(q.Past, apitypes.Held{Tasks: float64(q.Running), VCPU: q.VCPU, Use: q.Use})
	var kept []apitypes.Space
	for _, s := range q.Spaces {
		s.Past = past(s.Past, s.Held)
		if s.Tasks > 0 || s.Past.Tasks > negligibleUse || s.Past.VCPU > negligibleUse {
			kept = append(kept, s)
		}
	}
	q.Spaces = kept
}

// CountSpace adds amounts to the use of a queue by a namespace's jobs. Negative amounts subtract.
func CountSpace(q *apitypes.Queue, namespace string, by apitypes.Held) {
	i, known := slices.BinarySearchFunc(q.Spaces, namespace, func(s apitypes.Space, name string) int {
		return strings.Compare(s.Name, name)
	})
	switch {
	case namespace == "" || !known && (by.Tasks <= 0 || len(q.Spaces) >= MaxSpaces):
		return
	case !known:
		q.Spaces = slices.Insert(slices.Clone(q.Spaces), i, apitypes.Space{Name: namespace})
	default:
		q.Spaces = slices.Clone(q.Spaces)
	}
	q.Spaces[i].Held = plusHeld(q.Spaces[i].Held, by)
}

// plusHeld adds amounts; results below zero become zero.
func plusHeld(h, by apitypes.Held) apitypes.Held {
	out := apitypes.Held{Tasks: max(0, h.Tasks+by.Tasks), VCPU: max(0, h.VCPU+by.VCPU), Use: h.Use}
	if out.Tasks == 0 {
		return apitypes.Held{} // remove rounding errors
	}
	more, less := apitypes.Amounts{}, apitypes.Amounts{}
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
