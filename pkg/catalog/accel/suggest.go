package accel

import (
	"cmp"
	"slices"
	"strings"
)

const maxSuggestions = 3

// unknown builds the error for a spelling that no table knows.
func unknown(name string) *UnknownError {
	squeezed := squeeze(name)
	if carried, ok := families[squeezed]; ok {
		return &UnknownError{Name: name, Family: true, Suggestions: []string{carried}}
	}
	return &UnknownError{Name: name, Suggestions: suggestions(squeezed)}
}

// suggestions are the canonical names nearest to a squeezed spelling.
func suggestions(squeezed string) []string {
	if squeezed == "" {
		return nil
	}
	if strings.Contains(squeezed, "tpu") {
		return []string{"tpu-v3-8", "tpu-v5litepod-4", "tpu-v6e-4"}
	}
	best := make(map[string]int)
	for spelling, name := range spellings() {
		d := Distance(squeezed, spelling)
		if strings.HasPrefix(squeezed, spelling) && len(spelling) >= 3 {
			// h100-sxm5-foo: the model is there, with a suffix nobody knows.
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
		if d <= Tolerance(squeezed) {
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

// Tolerance is the edit distance up to which another name is worth suggesting
// for name: one edit for short names, about a third of longer ones.
func Tolerance(name string) int { return max(1, len(name)/3) }

// Distance is the optimal string alignment distance of a and b in bytes: the
// fewest insertions, deletions, replacements and swaps of neighbours that turn
// one into the other.
func Distance(a, b string) int {
	previous2 := make([]int, len(b)+1)
	previous := make([]int, len(b)+1)
	current := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			replace := previous[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			current[j] = min(previous[j]+1, current[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], previous2[j-2]+1)
			}
		}
		previous2, previous, current = previous, current, previous2
	}
	return previous[len(b)]
}
