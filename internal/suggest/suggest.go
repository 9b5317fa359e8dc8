// Package suggest finds the word that a misspelt one was meant as.
package suggest

import (
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// longest is the longest word that is compared, in bytes. Longer ones are never slips of the hand.
const longest = 128

// DidYouMean is the hint for a word that is not among the known ones: the nearest of them, if one
// is near enough to be a slip of the hand, else empty.
func DidYouMean(word string, known []string) string {
	if best := Nearest(word, known); best != "" {
		return "did you mean " + strconv.Quote(best) + "?"
	}
	return ""
}

// OneOf is the hint that lists what is known, for short lists, unless one of them is near.
func OneOf(word string, known []string) string {
	if hint := DidYouMean(word, known); hint != "" {
		return hint
	}
	return "one of " + strings.Join(known, ", ")
}

// Nearest returns the known word with the fewest edits from word, without regard to case, - and _; empty
// if that is more than a third of it or more than three. Of equals it is the first.
func Nearest(word string, known []string) string {
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
		if d := Distance(w, fold(k), limit); d <= limit {
			best, limit = k, d-1
		}
		if limit < 0 {
			break
		}
	}
	return best
}

// Check refuses a word that is none of the choices. what says of what they are the choices.
func Check[T ~string](what string, word T, choices ...T) error {
	if slices.Contains(choices, word) {
		return nil
	}
	words := make([]string, len(choices))
	for i, c := range choices {
		words[i] = string(c)
	}
	return fault.New("unknown "+what+" "+fault.Quote(string(word)), OneOf(string(word), words))
}

func fold(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || r == '_' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// Distance is the fewest insertions, deletions, replacements and swaps of neighbours that turn a into b, in
// bytes (the optimal string alignment distance), or limit+1 if it is more than limit.
func Distance(a, b string, limit int) int {
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
