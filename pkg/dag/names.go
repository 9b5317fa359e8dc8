package dag

import "strconv"

// namer gives imported tasks and outputs names that are valid and unlike each other, as near to
// what the file calls them as can be.
type namer struct {
	taken map[string]bool
	next  map[string]int // by name: the number to try after it when it is taken
}

func newNamer(size int) *namer {
	return &namer{taken: make(map[string]bool, size), next: map[string]int{}}
}

// name returns a name like s, or like otherwise if s has nothing that a name can have.
func (n *namer) name(s, otherwise string) string {
	base := toName(s, otherwise)
	if !n.taken[base] {
		n.taken[base] = true
		return base
	}
	for k := max(2, n.next[base]); ; k++ {
		suffix := "-" + strconv.Itoa(k)
		name := base[:min(len(base), maxNameBytes-len(suffix))] + suffix
		if !n.taken[name] {
			n.taken[name] = true
			n.next[base] = k + 1
			return name
		}
	}
}
