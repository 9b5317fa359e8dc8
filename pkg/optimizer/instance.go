package optimizer

import (
	"cmp"
	"slices"
	"strings"
)

// instance is a model in canonical form: tasks in the order of their ids, the
// places that some candidate uses in the order of their names, and each task's
// candidates folded to the options that can matter. Everything after compile
// works on it alone, and so gives the same plan whatever order a model lists
// its tasks, places, candidates and edges in.
type instance struct {
	model *Model
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
	rank    []int32 // by model place, its canonical index, -1 where not used
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

// folding says which of a task's candidates at one place can matter. Transfers
// depend on places alone, so candidates at one place compete by their own cost
// and time only.
type folding int

const (
	// foldCheapest keeps the cheapest, ties by hours, then by id.
	foldCheapest folding = iota
	// foldFastest keeps the fastest, ties by cost, then by id.
	foldFastest
	// foldPareto keeps those for which no other is both as cheap and as fast,
	// ties by id.
	foldPareto
)

// compile checks the model and brings it into canonical form.
func compile(m *Model, f folding) (*instance, error) {
	inst, err := frameFor(m, f)
	if err != nil {
		return nil, err
	}
	inst.setOptions(f)
	return inst, nil
}

// frameFor is frame with what a folding needs besides.
func frameFor(m *Model, f folding) (*instance, error) {
	inst, err := frame(m)
	if err == nil && f != foldCheapest {
		inst.hrsT = transposed(inst.hrs, inst.nPlace)
	}
	return inst, err
}

// frame is compile without the options: what all foldings share.
func frame(m *Model) (*instance, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	l, err := linkTasks(m)
	if err != nil {
		return nil, err
	}
	inst := &instance{model: m, links: *l}
	inst.rank = inst.compilePlaces()
	inst.in = adjacent(len(m.Tasks), inst.edges, func(e *link) int32 { return e.to })
	inst.out = adjacent(len(m.Tasks), inst.edges, func(e *link) int32 { return e.from })
	return inst, nil
}

func (inst *instance) setOptions(f folding) {
	inst.fold(f, inst.rank)
	inst.span()
}

func (inst *instance) nTask() int { return len(inst.order) }

// options returns the options of task t.
func (inst *instance) options(t int32) []option {
	return inst.opts[inst.first[t]:inst.first[t+1]]
}

// withoutOptions lists the ids of the tasks that have no candidate.
func (inst *instance) withoutOptions() []string {
	var ids []string
	for t := range inst.order {
		if inst.first[t] == inst.first[t+1] {
			ids = append(ids, inst.model.Tasks[inst.order[t]].ID)
		}
	}
	return ids
}

// compilePlaces fills the matrices with the places in use and returns each
// model place's canonical index, -1 where it is not used.
func (inst *instance) compilePlaces() []int32 {
	m := inst.model
	used := make([]bool, len(m.Places))
	for i := range m.Tasks {
		for k := range m.Tasks[i].Candidates {
			used[m.Tasks[i].Candidates[k].Place] = true
		}
	}
	var places []int32
	for p := range used {
		if used[p] {
			places = append(places, int32(p)) // #nosec G115 -- at most MaxPlaces
		}
	}
	slices.SortFunc(places, func(a, b int32) int { return strings.Compare(m.Places[a], m.Places[b]) })
	n := len(places)
	inst.nPlace = n
	inst.usd = make([]float64, n*n)
	inst.hrs = make([]float64, n*n)
	rank := make([]int32, len(m.Places))
	for p := range rank {
		rank[p] = -1
	}
	for i, p := range places {
		rank[p] = int32(i) // #nosec G115 -- at most MaxPlaces
		usd, hrs := inst.usd[i*n:][:n], inst.hrs[i*n:][:n]
		fromUSD, fromHours := m.USDPerGiB[p], m.HoursPerGiB[p]
		for j, q := range places {
			usd[j], hrs[j] = fromUSD[q], fromHours[q]
		}
	}
	inst.usdT = transposed(inst.usd, n)
	return rank
}

// transposed is an n×n matrix with rows and columns exchanged.
func transposed(matrix []float64, n int) []float64 {
	out := make([]float64, len(matrix))
	for i := range n {
		for j, x := range matrix[i*n:][:n] {
			out[j*n+i] = x
		}
	}
	return out
}

func (inst *instance) fold(f folding, rank []int32) {
	inst.first = make([]int32, len(inst.order)+1)
	best := make([]int32, inst.nPlace+1)
	for t, i := range inst.order {
		cands := inst.model.Tasks[i].Candidates
		if f == foldPareto {
			inst.foldFronts(cands, rank, best)
		} else {
			inst.foldBest(cands, rank, best[:inst.nPlace], f == foldFastest)
		}
		inst.first[t+1] = int32(len(inst.opts)) // #nosec G115 -- at most MaxCandidates
	}
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

// foldBest appends the best candidate at each place; best is scratch.
func (inst *instance) foldBest(cands []Candidate, rank, best []int32, byHours bool) {
	for p := range best {
		best[p] = -1
	}
	compare := compareCost
	if byHours {
		compare = compareTime
	}
	for k := range cands {
		p := rank[cands[k].Place]
		if best[p] < 0 || compare(&cands[k], &cands[best[p]]) < 0 {
			best[p] = int32(k) // #nosec G115 -- at most MaxCandidates
		}
	}
	for p, k := range best {
		if k >= 0 {
			c := &cands[k]
			inst.opts = append(inst.opts, option{place: int32(p), cand: k, usd: c.USD, hours: c.Hours}) // #nosec G115 -- at most MaxPlaces
		}
	}
}

// foldFronts appends the Pareto front of cost and time at each place; start is
// scratch of one more than the places.
func (inst *instance) foldFronts(cands []Candidate, rank, start []int32) {
	// sorting by place first leaves only a few candidates at a time to sort
	// by cost
	clear(start)
	for k := range cands {
		start[rank[cands[k].Place]+1]++
	}
	for p := 1; p < len(start); p++ {
		start[p] += start[p-1]
	}
	from := len(inst.opts)
	inst.opts = slices.Grow(inst.opts, len(cands))[:from+len(cands)]
	all := inst.opts[from:]
	for k := range cands {
		c := &cands[k]
		p := rank[c.Place]
		all[start[p]] = option{place: p, cand: int32(k), usd: c.USD, hours: c.Hours} // #nosec G115 -- at most MaxCandidates
		start[p]++
	}
	kept, lo := all[:0], int32(0)
	for _, hi := range start[:len(start)-1] {
		here := all[lo:hi]
		lo = hi
		slices.SortFunc(here, func(a, b option) int {
			return compareCost(&cands[a.cand], &cands[b.cand])
		})
		least := inf
		for _, o := range here {
			if o.hours < least {
				least = o.hours
				kept = append(kept, o)
			}
		}
	}
	inst.opts = inst.opts[:from+len(kept)]
}

// compareCost orders candidates at one place by cost, then hours, then id.
func compareCost(a, b *Candidate) int {
	if c := cmp.Compare(a.USD, b.USD); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Hours, b.Hours); c != 0 {
		return c
	}
	return strings.Compare(a.ID, b.ID)
}

// compareTime orders them by hours, then cost, then id.
func compareTime(a, b *Candidate) int {
	if c := cmp.Compare(a.Hours, b.Hours); c != 0 {
		return c
	}
	if c := cmp.Compare(a.USD, b.USD); c != 0 {
		return c
	}
	return strings.Compare(a.ID, b.ID)
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
