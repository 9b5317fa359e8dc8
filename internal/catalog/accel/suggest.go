package accel

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

const maxSuggestions = 3

// unknown returns the error for a spelling that is in no table.
func unknown(name string) *UnknownError {
	squeezed := squeeze(name)
	if carried, ok := families[squeezed]; ok {
		return &UnknownError{Name: name, Family: true, Suggestions: []string{carried}}
	}
	return &UnknownError{Name: name, Suggestions: suggestions(squeezed)}
}

// suggestions returns the canonical names that are nearest to a squeezed spelling.
func suggestions(squeezed string) []string {
	if squeezed == "" {
		return nil
	}
	if strings.Contains(squeezed, "tpu") {
		return []string{"tpu-v3-8", "tpu-v5litepod-4", "tpu-v6e-4"}
	}
	tolerance := max(1, len(squeezed)/3) // one edit of short names, about a third of longer ones
	best := make(map[string]int)
	for spelling, name := range spellings() {
		d := fault.Distance(squeezed, spelling, tolerance)
		if strings.HasPrefix(squeezed, spelling) && len(spelling) >= 3 {
			// h100-sxm5-foo: a known model with an unknown suffix.
			d = min(d, 1)
		}
		if old, seen := best[name]; !seen || d < old {
			best[name] = d
		}
	}
	type scored struct {
		name     string
		distance int
	}
	var near []scored
	for name, d := range best {
		if d <= tolerance {
			near = append(near, scored{name, d})
		}
	}
	slices.SortFunc(near, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	names := make([]string, 0, maxSuggestions)
	for _, s := range near[:min(len(near), maxSuggestions)] {
		names = append(names, s.name)
	}
	return names
}
