package optimizer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// compiled is a model in canonical form, with the mapping back to the model.
type compiled struct {
	problem.Instance
	model *Model
	rank  []int32 // canonical index of each model place, -1 if not used
}

// folding selects which of a task's candidates at one place to keep. Transfers depend only on places, so candidates
// at one place compete only by their own cost and time.
type folding int

const (
	// foldCheapest keeps the cheapest, ties by hours, then by id.
	foldCheapest folding = iota
	// foldFastest keeps the fastest, ties by cost, then by id.
	foldFastest
	// foldPareto keeps the candidates that no other beats in both cost and time, ties by id.
	foldPareto
)

// compile checks the model and converts it to canonical form.
func compile(m *Model, f folding) (*compiled, error) {
	inst, err := frameFor(m, f)
	if err != nil {
		return nil, err
	}
	inst.setOptions(f)
	return inst, nil
}

// frameFor is frame plus the additional data that a folding needs.
func frameFor(m *Model, f folding) (*compiled, error) {
	inst, err := frame(m)
	if err == nil && f != foldCheapest {
		inst.HrsT = transposed(inst.Hrs, inst.NPlace)
	}
	return inst, err
}

// frame does the part of compile that all foldings share: everything except the options.
func frame(m *Model) (*compiled, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	l, err := linkTasks(m)
	if err != nil {
		return nil, err
	}
	inst := &compiled{model: m, Instance: problem.Instance{Links: *l}}
	inst.compilePlaces()
	inst.In = problem.Adjacent(len(m.Tasks), inst.Edges, func(e *problem.Link) int32 { return e.To })
	inst.Out = problem.Adjacent(len(m.Tasks), inst.Edges, func(e *problem.Link) int32 { return e.From })
	return inst, nil
}

func (inst *compiled) setOptions(f folding) {
	inst.fold(f)
	inst.GroupByPlace()
}

// withoutOptions returns the ids of the tasks without candidates.
func (inst *compiled) withoutOptions() []string {
	var ids []string
	for t := range inst.Order {
		if inst.First[t] == inst.First[t+1] {
			ids = append(ids, inst.model.Tasks[inst.Order[t]].ID)
		}
	}
	return ids
}

// compilePlaces fills the matrices for the places in use, and rank.
func (inst *compiled) compilePlaces() {
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
	inst.NPlace = n
	inst.USD = make([]float64, n*n)
	inst.Hrs = make([]float64, n*n)
	rank := make([]int32, len(m.Places))
	for p := range rank {
		rank[p] = -1
	}
	for i, p := range places {
		rank[p] = int32(i) // #nosec G115 -- at most MaxPlaces
		usd, hrs := inst.USD[i*n:][:n], inst.Hrs[i*n:][:n]
		fromUSD, fromHours := m.USDPerGiB[p], m.HoursPerGiB[p]
		for j, q := range places {
			usd[j], hrs[j] = fromUSD[q], fromHours[q]
		}
	}
	inst.USDT, inst.rank = transposed(inst.USD, n), rank
}

// transposed returns the transpose of an n×n matrix.
func transposed(matrix []float64, n int) []float64 {
	out := make([]float64, len(matrix))
	for i := range n {
		for j, x := range matrix[i*n:][:n] {
			out[j*n+i] = x
		}
	}
	return out
}

func (inst *compiled) fold(f folding) {
	inst.First = make([]int32, len(inst.Order)+1)
	best := make([]int32, inst.NPlace+1)
	for t, i := range inst.Order {
		cands := inst.model.Tasks[i].Candidates
		if f == foldPareto {
			inst.foldFronts(cands, best)
		} else {
			inst.foldBest(cands, best[:inst.NPlace], f == foldFastest)
		}
		inst.First[t+1] = int32(len(inst.Opts)) // #nosec G115 -- at most MaxCandidates
	}
}

// foldBest appends the best candidate at each place. best is scratch space.
func (inst *compiled) foldBest(cands []Candidate, best []int32, byHours bool) {
	rank := inst.rank
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
			place := int32(p) // #nosec G115 -- at most MaxPlaces
			inst.Opts = append(inst.Opts, problem.Option{Place: place, Cand: k, USD: c.USD, Hours: c.Hours})
		}
	}
}

// foldFronts appends the Pareto front of cost and time at each place. start is scratch space with one element more
// than there are places.
func (inst *compiled) foldFronts(cands []Candidate, start []int32) {
	rank := inst.rank
	// Sorting by place first leaves only a few candidates at a time to sort by cost.
	clear(start)
	for k := range cands {
		start[rank[cands[k].Place]+1]++
	}
	for p := 1; p < len(start); p++ {
		start[p] += start[p-1]
	}
	from := len(inst.Opts)
	inst.Opts = slices.Grow(inst.Opts, len(cands))[:from+len(cands)]
	all := inst.Opts[from:]
	for k := range cands {
		c := &cands[k]
		p := rank[c.Place]
		cand := int32(k) // #nosec G115 -- at most MaxCandidates
		all[start[p]] = problem.Option{Place: p, Cand: cand, USD: c.USD, Hours: c.Hours}
		start[p]++
	}
	kept, lo := all[:0], int32(0)
	for _, hi := range start[:len(start)-1] {
		here := all[lo:hi]
		lo = hi
		slices.SortFunc(here, func(a, b problem.Option) int {
			return compareCost(&cands[a.Cand], &cands[b.Cand])
		})
		least := search.Inf
		for _, o := range here {
			if o.Hours < least {
				least = o.Hours
				kept = append(kept, o)
			}
		}
	}
	inst.Opts = inst.Opts[:from+len(kept)]
}

// compareCost orders candidates at one place by cost, then hours, then id.
func compareCost(a, b *Candidate) int {
	return cmp.Or(cmp.Compare(a.USD, b.USD), cmp.Compare(a.Hours, b.Hours), strings.Compare(a.ID, b.ID))
}

// compareTime orders candidates at one place by hours, then cost, then id.
func compareTime(a, b *Candidate) int {
	return cmp.Or(cmp.Compare(a.Hours, b.Hours), cmp.Compare(a.USD, b.USD), strings.Compare(a.ID, b.ID))
}

// planOf converts picks (candidate indices by model task) to a plan. For each task it uses the option of the
// candidate itself, otherwise the option at the candidate's place, otherwise the first option. It returns nil if
// picks is nil or a task has no options.
func (inst *compiled) planOf(picks []int) problem.Plan {
	if len(picks) != inst.NTask() || len(inst.withoutOptions()) > 0 {
		return nil
	}
	p := make(problem.Plan, len(picks))
	for t, i := range inst.Order {
		if k := picks[i]; k >= 0 && k < len(inst.model.Tasks[i].Candidates) {
			p[t] = inst.nearest(int32(t), k) // #nosec G115 -- at most MaxTasks
		}
	}
	return p
}

func (inst *compiled) nearest(t int32, cand int) int32 {
	want := &inst.model.Tasks[inst.Order[t]].Candidates[cand]
	near := int32(0)
	for k, o := range inst.Options(t) {
		have := &inst.model.Tasks[inst.Order[t]].Candidates[o.Cand]
		if int(o.Cand) == cand {
			return int32(k) // #nosec G115 -- at most MaxCandidates
		}
		if have.Place == want.Place {
			near = int32(k) // #nosec G115 -- at most MaxCandidates
		}
	}
	return near
}
