package text

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Member splits the name of an array's member, a[17], into the name of the array and the index. ok is false for the
// name of any other task.
func Member(name string) (array string, index int, ok bool) {
	array, rest, some := strings.Cut(name, "[")
	digits, closed := strings.CutSuffix(rest, "]")
	index, err := strconv.Atoi(digits)
	return array, index, some && closed && err == nil
}

// MemberRuns returns the ranges [from, to) of names that are members of one array, at least two, in order.
func MemberRuns(names []string) (runs [][2]int) {
	for i := 0; i < len(names); {
		array, _, ok := Member(names[i])
		k := i + 1
		for ; ok && k < len(names); k++ {
			if other, _, is := Member(names[k]); !is || other != array {
				break
			}
		}
		if k > i+1 {
			runs = append(runs, [2]int{i, k})
		}
		i = k
	}
	return runs
}

// Array returns the name of an array with its first and last index, a[0-99], given the names of its members.
func Array(names []string) string {
	array, first, _ := Member(names[0])
	_, last, _ := Member(names[len(names)-1])
	return fmt.Sprintf("%s[%d-%d]", Clean(array), first, last)
}

// Tally returns how many members are in each state, those with the fewest last: 40 succeeded, 3 failed.
func Tally(states []string) string {
	count := map[string]int{}
	var order []string
	for _, s := range states {
		if count[s]++; count[s] == 1 {
			order = append(order, s)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(count[b], count[a]) })
	parts := make([]string, len(order))
	for i, s := range order {
		parts[i] = Thousands(count[s]) + " " + s
	}
	return Count(len(states), "member") + ": " + strings.Join(parts, ", ")
}

// Same returns the text that all of n things have in common, or how many different ones there are. Empty texts do not
// count.
func Same(n int, noun string, of func(i int) string) (text string) {
	seen := map[string]bool{}
	for i := range n {
		if s := of(i); s != "" {
			seen[s], text = true, s
		}
	}
	if len(seen) > 1 {
		return Count(len(seen), noun)
	}
	return text
}
