package optimizer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/topk"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// Alternative is an alternative to the candidate that a plan chose for one task.
type Alternative struct {
	// Candidate is the index of the candidate in the task's list; ID is its id.
	Candidate int    `json:"-"`
	ID        string `json:"id"`
	// USD and Hours are the plan's totals with this candidate instead of the chosen one. AddUSD and AddHours are the
	// differences to the plan; negative values are savings.
	USD      float64 `json:"usd"`
	Hours    float64 `json:"hours"`
	AddUSD   float64 `json:"addUSD"`
	AddHours float64 `json:"addHours"`
	// AddKgCO2 is the difference in emissions, from the model's values.
	AddKgCO2 float64 `json:"addKgCO2,omitempty"`
	// Breaks is the limit that the plan would exceed, if any.
	Breaks Constraint `json:"breaks,omitempty"`
}

// ErrNoPlan is returned for a solution without a plan for the model.
var ErrNoPlan = errors.New("optimizer: the solution has no plan for this model")

// Explainer answers questions about one plan. It holds the shared data.
type Explainer struct {
	model *Model
	picks []int // by canonical task, like the slices below
	links *problem.Links
	rank  map[string]int32
	in    problem.Adjacency
	out   problem.Adjacency
	start []float64
	after []float64
	usd   float64
	hours float64
	kg    float64
}

// NewExplainer returns an explainer for solution s of model m. It returns a *[ModelError] for a malformed model and
// [ErrNoPlan] if s is infeasible or does not belong to this model.
func NewExplainer(m *Model, s *Solution) (*Explainer, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	l, err := linkTasks(m)
	if err != nil {
		return nil, err
	}
	if s == nil || len(s.Picks) != len(m.Tasks) {
		return nil, ErrNoPlan
	}
	n := len(m.Tasks)
	e := &Explainer{
		model: m, links: l, rank: make(map[string]int32, n), picks: make([]int, n),
		start: make([]float64, n), after: make([]float64, n),
	}
	for t, i := range l.Order {
		e.rank[m.Tasks[i].ID] = int32(t) // #nosec G115 -- at most MaxTasks
		e.picks[t] = s.Picks[i]
		if k := s.Picks[i]; k < 0 || k >= len(m.Tasks[i].Candidates) {
			return nil, ErrNoPlan
		}
	}
	e.in = problem.Adjacent(n, l.Edges, func(e *problem.Link) int32 { return e.To })
	e.out = problem.Adjacent(n, l.Edges, func(e *problem.Link) int32 { return e.From })
	e.measure()
	return e, nil
}

func (e *Explainer) measure() {
	for _, t := range e.links.Topo {
		c := e.chosen(t)
		e.start[t] = e.startAt(t, c.Place)
		e.hours = max(e.hours, e.start[t]+c.Hours)
		e.usd += c.USD + e.transfers(e.out.Of(t), t, c.Place)
		e.kg += c.KgCO2
	}
	for _, t := range slices.Backward(e.links.Topo) {
		e.after[t] = e.afterAt(t, e.chosen(t).Place)
	}
}

func (e *Explainer) candidates(t int32) []Candidate {
	return e.model.Tasks[e.links.Order[t]].Candidates
}

func (e *Explainer) chosen(t int32) *Candidate { return &e.candidates(t)[e.picks[t]] }

// transfers returns the cost of moving data along the given links of task t if t were at place p.
func (e *Explainer) transfers(links []int32, t int32, p int) float64 {
	total := 0.0
	for _, i := range links {
		if l := &e.links.Edges[i]; l.From == t {
			total += l.SumGiB * e.model.USDPerGiB[p][e.chosen(l.To).Place]
		} else {
			total += l.SumGiB * e.model.USDPerGiB[e.chosen(l.From).Place][p]
		}
	}
	return total
}

func (e *Explainer) startAt(t int32, p int) float64 {
	at := 0.0
	for _, i := range e.in.Of(t) {
		l := &e.links.Edges[i]
		u := e.chosen(l.From)
		at = max(at, e.start[l.From]+u.Hours+l.MaxGiB*e.model.HoursPerGiB[u.Place][p])
	}
	return at
}

func (e *Explainer) afterAt(t int32, p int) float64 {
	at := 0.0
	for _, i := range e.out.Of(t) {
		l := &e.links.Edges[i]
		w := e.chosen(l.To)
		at = max(at, l.MaxGiB*e.model.HoursPerGiB[p][w.Place]+w.Hours+e.after[l.To])
	}
	return at
}

// Alternatives returns the k best alternatives to the plan's candidate for a task, best first. All other tasks stay
// where they are. It returns an error if the task does not exist.
func (e *Explainer) Alternatives(task string, k int) ([]Alternative, error) {
	t, ok := e.rank[task]
	if !ok {
		return nil, fmt.Errorf("optimizer: no task has the id %q", clip(task))
	}
	if k <= 0 {
		return nil, nil
	}
	now, grouped := e.chosen(t), slices.ContainsFunc(e.model.Together, func(ids []string) bool {
		return slices.Contains(ids, task)
	})
	local := now.USD + e.transfers(e.in.Of(t), t, now.Place) + e.transfers(e.out.Of(t), t, now.Place)
	around := e.longestAround(t)
	cands := e.candidates(t)
	runners := make([]Alternative, 0, min(k, len(cands)))
	for i := range cands {
		c := &cands[i]
		if i == e.picks[t] || grouped && e.model.site(c) != e.model.site(now) || !e.keepsSpread(task, c) {
			continue
		}
		r := Alternative{Candidate: i, ID: c.ID}
		r.AddUSD = c.USD + e.transfers(e.in.Of(t), t, c.Place) + e.transfers(e.out.Of(t), t, c.Place) - local
		r.USD = e.usd + r.AddUSD
		r.Hours = max(around, e.startAt(t, c.Place)+c.Hours+e.afterAt(t, c.Place))
		r.AddHours = r.Hours - e.hours
		r.AddKgCO2 = c.KgCO2 - now.KgCO2
		r.Breaks = e.breaks(r.USD, r.Hours, e.kg+r.AddKgCO2)
		runners = topk.Insert(runners, r, k, e.compare)
	}
	return runners, nil
}

// keepsSpread reports whether a task's Spread groups are still satisfied if the task moves to c and all others stay.
func (e *Explainer) keepsSpread(task string, c *Candidate) bool {
	for n := range e.model.Spread {
		g := &e.model.Spread[n]
		k := slices.Index(g.Tasks, task)
		if k < 0 {
			continue
		}
		used, site := g.machines(k), e.model.siteBy(c, g.By)
		for j, id := range g.Tasks {
			if j != k && e.model.siteBy(e.chosen(e.rank[id]), g.By) == site {
				used += g.machines(j)
			}
		}
		if used > g.Most {
			return false
		}
	}
	return true
}

// longestAround returns the length of the longest path that avoids t.
func (e *Explainer) longestAround(t int32) float64 {
	if e.start[t]+e.chosen(t).Hours+e.after[t] < e.hours*(1-1e-9) {
		return e.hours // the longest path avoids it already
	}
	finish := make([]float64, len(e.start))
	longest := 0.0
	for _, v := range e.links.Topo {
		if v == t {
			continue
		}
		c := e.chosen(v)
		at := 0.0
		for _, i := range e.in.Of(v) {
			if l := &e.links.Edges[i]; l.From != t {
				at = max(at, finish[l.From]+l.MaxGiB*e.model.HoursPerGiB[e.chosen(l.From).Place][c.Place])
			}
		}
		finish[v] = at + c.Hours
		longest = max(longest, finish[v])
	}
	return longest
}

func (e *Explainer) breaks(usd, hours, kg float64) Constraint {
	late := e.model.DeadlineHours != nil && hours >= search.Beyond(*e.model.DeadlineHours)
	dear := e.model.BudgetUSD != nil && usd >= search.Beyond(*e.model.BudgetUSD)
	switch {
	case late && dear:
		return DeadlineAndBudget
	case late:
		return Deadline
	case dear:
		return Budget
	case e.model.CarbonCapKg != nil && kg >= search.Beyond(*e.model.CarbonCapKg):
		return CarbonCap
	}
	return ""
}

// compare orders alternatives from the best to the worst.
func (e *Explainer) compare(a, b Alternative) int {
	if (a.Breaks == "") != (b.Breaks == "") {
		if a.Breaks == "" {
			return -1
		}
		return 1
	}
	byCost, byTime := cmp.Compare(a.USD, b.USD), cmp.Compare(a.Hours, b.Hours)
	byCarbon := 0
	switch e.model.Objective {
	case Makespan:
		byCost, byTime = byTime, byCost
	case Carbon:
		byCarbon = cmp.Compare(a.AddKgCO2, b.AddKgCO2)
	case Weighted:
		byCost = cmp.Compare(e.model.Weights.of(a.USD, a.Hours), e.model.Weights.of(b.USD, b.Hours))
	case Cost:
	}
	return cmp.Or(byCarbon, byCost, byTime, strings.Compare(a.ID, b.ID))
}
