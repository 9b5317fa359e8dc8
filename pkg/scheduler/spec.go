package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PerDevice returns the share needed on each device, in thousandths.
func (s *Spec) PerDevice() int64 {
	if s.Devices > 0 && s.Share == 0 {
		return Whole
	}
	return s.Share
}

// Key returns the same string for equivalent specs.
func (s *Spec) Key() string {
	var b strings.Builder
	fmt.Fprint(&b, s.Request, s.Devices, s.PerDevice(), s.Role, s.Priority)
	labels := func(m map[string]string) {
		b.WriteByte('|')
		for _, k := range slices.Sorted(maps.Keys(m)) {
			fmt.Fprintf(&b, "%q=%q,", k, m[k])
		}
	}
	labels(s.Selector)
	labels(s.Labels)
	for _, t := range s.Affinity {
		fmt.Fprintf(&b, "|a%q%d%q%d", t.Key, t.Op, t.Values, t.Weight)
	}
	for _, t := range s.Tolerates {
		fmt.Fprintf(&b, "|t%q%q", t.Key, t.Value)
	}
	for _, p := range s.Near {
		fmt.Fprintf(&b, "|n%q%q", p.Key, p.Value)
	}
	for _, p := range s.Apart {
		fmt.Fprintf(&b, "|x%q%q", p.Key, p.Value)
	}
	return b.String()
}

// ToleratesTaint reports whether the task tolerates a taint.
func (s *Spec) ToleratesTaint(t Taint) bool {
	return slices.ContainsFunc(s.Tolerates, func(x Toleration) bool {
		return x.Key == "" || x.Key == t.Key && (x.Value == "" || x.Value == t.Value)
	})
}

// Holds reports whether the labels satisfy the term.
func (t *Term) Holds(labels map[string]string) bool {
	v, ok := labels[t.Key]
	switch t.Op {
	case In:
		return ok && slices.Contains(t.Values, v)
	case NotIn:
		return !slices.Contains(t.Values, v)
	case Exists:
		return ok
	case Missing:
		return !ok
	}
	return false
}
