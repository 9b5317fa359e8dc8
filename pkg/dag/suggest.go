package dag

import (
	"slices"
	"strings"
)

// didYouMean is the hint for a word that is not among the known ones: the nearest of them, if one
// is near enough to be a slip of the hand, else empty.
func didYouMean(word string, known []string) string {
	if best := nearest(word, known); best != "" {
		return "did you mean " + quote(best) + "?"
	}
	return ""
}

// nearest returns the known word with the fewest insertions, deletions, replacements and swaps of
// neighbours from word, without regard to case, - and _; empty if that is more than a third of it.
// Of equals it is the first.
func nearest(word string, known []string) string {
	const longest = 128
	if word == "" || len(word) > longest {
		return ""
	}
	w := fold(word)
	limit := max(1, min(3, len(w)/3))
	best := ""
	for _, k := range known {
		if len(k) > longest {
			continue
		}
		if d := editDistance(w, fold(k), limit); d <= limit {
			best, limit = k, d-1
		}
		if limit < 0 {
			break
		}
	}
	return best
}

// oneOf is the hint that lists what is known, for short lists.
func oneOf(word string, known []string) string {
	if hint := didYouMean(word, known); hint != "" {
		return hint
	}
	return "one of " + strings.Join(known, ", ")
}

func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// editDistance is the optimal string alignment distance of a and b in bytes, or limit+1 if it is
// more than limit.
func editDistance(a, b string, limit int) int {
	if d := len(a) - len(b); d > limit || -d > limit {
		return limit + 1
	}
	// Three rows of the usual table: the one being filled and the two before it.
	rows := [3][]int{}
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row := rows[(i+1)%3], rows[(i-1)%3], rows[i%3]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		if slices.Min(row) > limit {
			return limit + 1
		}
	}
	return min(rows[len(a)%3][len(b)], limit+1)
}
