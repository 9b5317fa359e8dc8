package shared

// arc is one end of an edge, seen from the other.
type arc struct {
	task int32
	gib  float64
}

// fan holds the arcs of each task in one array.
type fan struct {
	first []int32
	arcs  []arc
}

// newFan groups the edges by the task that ends returns first; the second is the arc's task.
func newFan(n int, edges []link, ends func(*link) (int32, int32)) fan {
	f := fan{first: make([]int32, n+1), arcs: make([]arc, len(edges))}
	for i := range edges {
		at, _ := ends(&edges[i])
		f.first[at+1]++
	}
	for t := range n {
		f.first[t+1] += f.first[t]
	}
	next := append([]int32(nil), f.first[:n]...)
	for i := range edges {
		at, other := ends(&edges[i])
		f.arcs[next[at]] = arc{other, edges[i].gib}
		next[at]++
	}
	return f
}

func (f *fan) of(t int32) []arc { return f.arcs[f.first[t]:f.first[t+1]] }
