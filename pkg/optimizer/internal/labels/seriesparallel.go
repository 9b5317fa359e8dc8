package labels

// A two-terminal series-parallel graph reduces to a single arc from its source to its sink by two kinds of steps.
// Series: a vertex with one arc in and one arc out is replaced by one arc. Parallel: two arcs with the same ends are
// replaced by one. After a source before all tasks and a sink after all tasks are added, such graphs are chains,
// trees with all arcs towards or away from the root, fork-joins, and nestings of these.

// reduction is one step: a vertex is removed, or, if vertex is -1, two parallel arcs are merged. Arcs are numbered in
// order of creation: first the given arcs, then one for each step.
type reduction struct {
	vertex      int32
	left, right int32 // the arcs in and out, or the two parallel ones
}

type arc struct {
	from, to int32
}

// reduceSeriesParallel returns the steps that reduce the graph to one arc from source to sink. ok is false if the
// graph is not series-parallel. Of the removable vertices it takes the one with the smallest product of its own size
// and its neighbours' sizes.
func reduceSeriesParallel(arcs []arc, size []int, source, sink int32) (steps []reduction, ok bool) {
	g := &reducer{
		arcs: append([]arc(nil), arcs...), size: size, source: source, sink: sink,
		in: make([][]int32, len(size)), out: make([][]int32, len(size)), at: make(map[arc]int32, len(arcs)),
	}
	for i := range arcs {
		g.add(int32(i)) // #nosec G115 -- at most MaxEdges
	}
	for {
		v := g.lightest()
		if v < 0 {
			break
		}
		left, right := g.in[v][0], g.out[v][0]
		g.remove(left)
		g.remove(right)
		g.step(reduction{vertex: v, left: left, right: right}, arc{g.arcs[left].from, g.arcs[right].to})
	}
	return g.steps, len(g.at) == 1 && len(g.out[source]) == 1 && g.arcs[g.out[source][0]].to == sink
}

type reducer struct {
	arcs         []arc
	size         []int
	source, sink int32
	in, out      [][]int32
	at           map[arc]int32 // the arc between two vertices, if not reduced
	steps        []reduction
}

func (g *reducer) step(r reduction, a arc) {
	g.steps = append(g.steps, r)
	g.arcs = append(g.arcs, a)
	g.add(int32(len(g.arcs) - 1)) // #nosec G115 -- at most MaxEdges
}

// add adds arc i and merges it with an arc with the same ends.
func (g *reducer) add(i int32) {
	a := g.arcs[i]
	if j, parallel := g.at[a]; parallel {
		g.remove(j)
		g.step(reduction{vertex: -1, left: j, right: i}, a)
		return
	}
	g.at[a] = i
	g.out[a.from] = append(g.out[a.from], i)
	g.in[a.to] = append(g.in[a.to], i)
}

func (g *reducer) remove(i int32) {
	a := g.arcs[i]
	delete(g.at, a)
	g.out[a.from] = without(g.out[a.from], i)
	g.in[a.to] = without(g.in[a.to], i)
}

func without(list []int32, x int32) []int32 {
	for k, y := range list {
		if y == x {
			return append(list[:k], list[k+1:]...)
		}
	}
	return list
}

func (g *reducer) lightest() int32 {
	best, least := int32(-1), 0
	for v := range int32(len(g.size)) { // #nosec G115 -- at most MaxTasks
		if v == g.source || v == g.sink || len(g.in[v]) != 1 || len(g.out[v]) != 1 {
			continue
		}
		w := g.size[v] * g.size[g.arcs[g.in[v][0]].from] * g.size[g.arcs[g.out[v][0]].to]
		if best < 0 || w < least {
			best, least = v, w
		}
	}
	return best
}
