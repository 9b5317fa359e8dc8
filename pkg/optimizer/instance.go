package optimizer

import "slices"

// instance is a model in canonical form: tasks in the order of their ids, the
// places that some candidate uses in the order of their names, and each task's
// candidates folded to the options that can matter. Everything after compile
// works on it alone, and so gives the same plan whatever order a model lists
// its tasks, places, candidates and edges in.
type instance struct {
	links
	// nPlace is the number of places; usd and hrs are nPlace×nPlace row-major
	// matrices per GiB, from the row's place to the column's; usdT
	// and hrsT their transposes; hrsT is nil where the cost is all that counts.
	nPlace               int
	usd, usdT, hrs, hrsT []float64
	// opts holds task t's options at opts[first[t]:first[t+1]], by place and
	// within a place by rising cost.
	opts  []option
	first []int32
	// spans groups task t's options by place: spans[spanFirst[t]:spanFirst[t+1]].
	spans     []span
	spanFirst []int32
	// in and out are the indices into edges of the edges that end and start
	// at a task: in.of(t), out.of(t).
	in, out adjacency
}

// option is a candidate that survived folding.
type option struct {
	place int32 // canonical
	cand  int32 // index into the task's candidates
	usd   float64
	hours float64
}

// span is the options opts[lo:hi] of one task at one place, from the cheapest
// and slowest to the dearest and fastest.
type span struct {
	place, lo, hi int32
}

func (inst *instance) nTask() int { return len(inst.order) }

// options returns the options of task t.
func (inst *instance) options(t int32) []option {
	return inst.opts[inst.first[t]:inst.first[t+1]]
}

func (inst *instance) span() {
	inst.spanFirst = make([]int32, len(inst.order)+1)
	inst.spans = make([]span, 0, len(inst.opts))
	for t := range inst.order {
		for o := inst.first[t]; o < inst.first[t+1]; o++ {
			if n := len(inst.spans); o > inst.first[t] && inst.spans[n-1].place == inst.opts[o].place {
				inst.spans[n-1].hi++
				continue
			}
			inst.spans = append(inst.spans, span{place: inst.opts[o].place, lo: o, hi: o + 1})
		}
		inst.spanFirst[t+1] = int32(len(inst.spans)) // #nosec G115 -- at most MaxCandidates
	}
}

// spansOf returns the options of task t by place.
func (inst *instance) spansOf(t int32) []span {
	return inst.spans[inst.spanFirst[t]:inst.spanFirst[t+1]]
}

// adjacency lists edge indices by task, in compressed rows.
type adjacency struct {
	start []int32
	list  []int32
}

func (a *adjacency) of(t int32) []int32 { return a.list[a.start[t]:a.start[t+1]] }

func adjacent(n int, edges []link, end func(*link) int32) adjacency {
	a := adjacency{start: make([]int32, n+1), list: make([]int32, len(edges))}
	for i := range edges {
		a.start[end(&edges[i])+1]++
	}
	for t := range n {
		a.start[t+1] += a.start[t]
	}
	next := slices.Clone(a.start[:n])
	for i := range edges {
		t := end(&edges[i])
		a.list[next[t]] = int32(i) // #nosec G115 -- at most MaxEdges
		next[t]++
	}
	return a
}

// plan is one option for each task, as an index into the task's options.
type plan []int32

// cost is the plan's total in USD (equation 1).
func (inst *instance) cost(p plan) float64 { return inst.costOf(p, inst.topo) }

// costOf is the part of the plan's cost that the given tasks and the transfers
// from them make up.
func (inst *instance) costOf(p plan, tasks []int32) float64 {
	total := 0.0
	for _, t := range tasks {
		total += inst.opts[inst.first[t]+p[t]].usd
		from := inst.placeOf(p, t) * inst.nPlace
		for _, i := range inst.out.of(t) {
			e := &inst.edges[i]
			total += e.sumGiB * inst.usd[from+inst.placeOf(p, e.to)]
		}
	}
	return total
}

// makespan is the hour at which the plan's last task finishes (equation 3).
func (inst *instance) makespan(p plan) float64 {
	finish := make([]float64, len(p))
	last := 0.0
	for _, t := range inst.topo {
		start := 0.0
		to := inst.placeOf(p, t)
		for _, i := range inst.in.of(t) {
			e := &inst.edges[i]
			start = max(start, finish[e.from]+e.maxGiB*inst.hrs[inst.placeOf(p, e.from)*inst.nPlace+to])
		}
		finish[t] = start + inst.opts[inst.first[t]+p[t]].hours
		last = max(last, finish[t])
	}
	return last
}

func (inst *instance) placeOf(p plan, t int32) int {
	return int(inst.opts[inst.first[t]+p[t]].place)
}

// picks translates a plan into candidate indices by model task.
func (inst *instance) picks(p plan) []int {
	out := make([]int, len(p))
	for t, i := range inst.order {
		out[i] = int(inst.opts[inst.first[t]+p[t]].cand)
	}
	return out
}

// localCosts writes what each option of t would cost with the rest of p fixed:
// its own cost and that of the transfers from and to its neighbours.
func (inst *instance) localCosts(dst []float64, p plan, t int32) {
	opts := inst.options(t)
	for k := range opts {
		dst[k] = opts[k].usd
	}
	for _, e := range inst.out.of(t) {
		l := &inst.edges[e]
		if l.sumGiB == 0 {
			continue
		}
		prices := inst.usdT[inst.placeOf(p, l.to)*inst.nPlace:][:inst.nPlace]
		for k := range opts {
			dst[k] += l.sumGiB * prices[opts[k].place]
		}
	}
	for _, e := range inst.in.of(t) {
		l := &inst.edges[e]
		if l.sumGiB == 0 {
			continue
		}
		prices := inst.usd[inst.placeOf(p, l.from)*inst.nPlace:][:inst.nPlace]
		for k := range opts {
			dst[k] += l.sumGiB * prices[opts[k].place]
		}
	}
}
