package planner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// Options tune a Planner.
type Options struct {
	// Clouds limits plans to these, empty is all of the catalogue.
	Clouds []string
	// Regions limits the tasks whose author named none to these, CLOUD:REGION; empty is all.
	Regions []string
	// Without leaves out machines that the deployment does not buy: CLOUD/TYPE, where what a type's name begins with is
	// enough.
	Without []string
	// LeastCarbon plans for the least emissions, CarbonCapKg bounds them, in kg CO2eq. Either leaves out the regions
	// whose grid is not known.
	LeastCarbon bool
	CarbonCapKg *float64
	// Stores are where tasks keep what they leave, by place: it moves there from where a task runs, and from there to
	// those that read it.
	Stores record.Stores
	// Now is for the time a plan took; nil reports none, so that the plan follows from its input alone.
	Now func() time.Time
}

// DefaultOptions plan on all of the catalogue.
func DefaultOptions() Options { return Options{Now: time.Now} }

// What a planner reckons with. restart is what an interruption costs beside lost work: another machine found, booted
// and staged. tickEvery is how often the broker looks at the spot machines in use, and leaves what the deadline needs
// it to. Both are as in record.DefaultConfig.
const (
	restart   = 10 * time.Minute
	tickEvery = 10 * time.Minute
)

// runnersFor is the largest job whose plans keep the runners-up of each task.
const runnersFor = 200

// WorkLimit is what the search for a job of so many tasks may take, in the optimizer's steps: bounded so that the same
// input gives the same plan on any machine.
func WorkLimit(tasks int) int64 { return 200_000_000 * (2 + int64(tasks+99)/100) }

// Planner plans jobs on a catalogue. It is safe for concurrent use.
type Planner struct {
	catalog atomic.Pointer[catalog.Catalog]
	known   atomic.Pointer[market] // nil, or that of a catalogue
	moves   *egress.Prices
	opt     Options
}

// New makes a planner.
func New(c *catalog.Catalog, moves *egress.Prices, opt Options) *Planner {
	p := &Planner{moves: moves, opt: opt}
	p.catalog.Store(c)
	return p
}

// SetCatalog replaces the catalogue for the plans to come.
func (p *Planner) SetCatalog(c *catalog.Catalog) { p.catalog.Store(c) }

// Plan implements broker.Planner.
//
// The optimizer knows offers without end. Where the account has capacity already, of which there is some, a plan that
// puts more on it than there is has the tasks that save the least there planned anew without it, until it fits; what
// was proven of the first holds for all of them, as each is allowed less.
func (p *Planner) Plan(ctx context.Context, in record.PlanInput) (*record.Plan, error) {
	own := p.reservations(in)
	var first *record.Plan
	for {
		plan, b, sol, err := p.once(ctx, in, own)
		if err != nil || sol == nil {
			return plan, err
		}
		if first == nil || first.Late != plan.Late { // then it is of something else
			first = plan
		}
		if !own.fits(b, sol) {
			continue
		}
		if plan.Bound = first.Bound; plan.Status == string(optimizer.Optimal) && !proven(plan) {
			plan.Status = string(optimizer.Feasible)
		}
		return plan, b.addRunners(plan, sol)
	}
}

// once plans with what of the account's own capacity is allowed. Without a solution the plan says why there is none.
func (p *Planner) once(ctx context.Context, in record.PlanInput,
	own *reservations) (*record.Plan, *builder, *optimizer.Solution, error) {
	b, err := p.build(in, own)
	if err != nil {
		return nil, nil, nil, err
	}
	if b.message != "" {
		return &record.Plan{Status: record.PlanInfeasible, Message: b.message}, b, nil, nil
	}
	sol, err := p.solve(ctx, b.model, b.previous())
	if err != nil {
		return nil, nil, nil, err
	}
	if sol.Status == optimizer.Infeasible && b.apart() {
		if sol, err = p.solve(ctx, b.model, b.previous()); err != nil {
			return nil, nil, nil, err
		}
	}
	late := false
	if sol.Status == optimizer.Infeasible && in.Previous != nil && in.DeadlineHours != nil {
		// It has started and cannot be on time any more: then as fast as the budget allows.
		late = true
		b.model.Objective, b.model.DeadlineHours = optimizer.Makespan, nil
		if sol, err = p.solve(ctx, b.model, b.previous()); err != nil {
			return nil, nil, nil, err
		}
	}
	if sol.Status == optimizer.Infeasible {
		return &record.Plan{Status: record.PlanInfeasible, Message: b.explain(sol)}, b, nil, nil
	}
	plan := b.plan(sol)
	plan.Late = late
	return plan, b, sol, nil
}

// previous is the plan in force as the search's start, one candidate a row, -1 where it has none that is left: what a
// blocked zone or a new price leaves of it is nearly always part of the best plan, and of plans as good it is the one
// to keep.
func (b *builder) previous() []int {
	if b.in.Previous == nil {
		return nil
	}
	hint := make([]int, len(b.rows))
	for r, row := range b.rows {
		if row.options == nil {
			continue // it has one candidate
		}
		hint[r] = -1
		if c := b.in.Previous.Of(row.task); c != nil {
			hint[r] = slices.IndexFunc(row.options, func(o option) bool { return o.ID == c.ID })
		}
	}
	return hint
}

func (p *Planner) solve(ctx context.Context, m *optimizer.Model, hint []int) (*optimizer.Solution, error) {
	now := p.opt.Now
	if now == nil {
		now = func() time.Time { return time.Time{} }
	}
	sol, err := optimizer.Solve(ctx, m, optimizer.Options{WorkLimit: WorkLimit(len(m.Tasks)), Hint: hint, Now: now})
	if errors.Is(err, optimizer.ErrUndecided) {
		return &optimizer.Solution{Status: optimizer.Infeasible,
			Message: "no plan that keeps the deadline and the budget was found"}, nil
	}
	return sol, err
}

// Model returns the optimizer's model of a job, for `tradewind plan --model-out`. It fails with ErrInfeasible when a
// task has no candidate.
func (p *Planner) Model(in record.PlanInput) (*optimizer.Model, error) {
	b, err := p.build(in, nil)
	if err == nil && b.message != "" {
		err = fmt.Errorf("%w: %s", ErrInfeasible, b.message)
	}
	if err != nil {
		return nil, err
	}
	return b.model, nil
}

// Frontier finds the Pareto front of a job's plans: what it costs to be done by when. Times are those that a deadline
// counts with, a spot run's guaranteed ones, so that a deadline at a point gives a plan at that point's cost. It fails
// with ErrInfeasible when a task has no candidate.
func (p *Planner) Frontier(ctx context.Context, in record.PlanInput,
	o optimizer.FrontierOptions) (*optimizer.Front, error) {
	given := in.DeadlineHours
	if given == nil {
		distant := float64(optimizer.MaxValue)
		in.DeadlineHours = &distant
	}
	m, err := p.Model(in)
	if err != nil {
		return nil, err
	}
	m.DeadlineHours, o.Now = given, p.opt.Now
	return optimizer.Frontier(ctx, m, o)
}

// builder makes one model.
type builder struct {
	p       *Planner
	*market // as it was when the plan was begun
	data    data
	known   known
	in      record.PlanInput
	model   *optimizer.Model
	classes map[string]*class
	rows    []row
	near    map[int]dag.Within // of tasks that are placed together with others, how close
	groups  []dag.PlacementGroup
	spread  map[int]bool   // tasks that are spread over regions or zones
	index   map[string]int // of the row of a task of the model, by its ID
	byTask  []int          // task of the job -> row, -1 for none
	// reserved is what of the account's own capacity a task may be planned on; nil is none.
	reserved *reservations
	message  string
	scratch  []option // of the task at hand
}

// row is one task of the model.
type row struct {
	task    int // of the job, -1 for an input
	options []option
	class   *class // nil where the past leaves no choice
}

// option is what one candidate of a row stands for.
type option struct {
	optimizer.Candidate
	match    *match
	expected float64 // hours
	work     float64 // hours, without interruptions
	movesUSD float64 // of its cost: moving what it leaves to its store
	elseUSD  float64 // of a spot offer: what an hour of its work costs on demand where that is cheapest, per machine
}

func (p *Planner) build(in record.PlanInput, own *reservations) (*builder, error) {
	m, err := p.market()
	if err != nil {
		return nil, err
	}
	b := &builder{
		p: p, market: m, in: in, reserved: own, classes: map[string]*class{}, index: map[string]int{},
		byTask: make([]int, len(in.Spec.Tasks)),
		model: &optimizer.Model{
			Objective: optimizer.Cost, DeadlineHours: in.DeadlineHours, BudgetUSD: in.BudgetUSD,
		},
	}
	var ok bool
	if b.data, ok = b.whereDataLies(); !ok {
		b.message = "no store of this deployment lies where the job allows its data to be (regions)"
		return b, nil
	}
	b.model.Places, b.model.USDPerGiB, b.model.HoursPerGiB = b.data.places, b.data.usd, b.data.hours
	if in.Spec.Objective == dag.MinimizeMakespan {
		b.model.Objective = optimizer.Makespan
	}
	if p.opt.LeastCarbon {
		b.model.Objective = optimizer.Carbon
	}
	b.model.CarbonCapKg = p.opt.CarbonCapKg
	b.known = b.whatIsKnown()
	if len(in.Tasks) == 0 {
		b.in.Tasks = make([]*record.TaskFacts, len(in.Spec.Tasks))
	}
	b.groups = in.Spec.Groups()
	b.near, b.spread = b.whoIsTogether(), b.whoIsSpread()
	weight := b.edgeWeights()
	for i := range in.Spec.Tasks {
		b.byTask[i] = -1
		if err := b.addTask(i, weight[i]); err != nil || b.message != "" {
			return b, err
		}
	}
	b.addEdges()
	b.addInputs()
	b.addTogether()
	return b, nil
}

// edgeWeights is the data that moves in and out of each task, GiB.
func (b *builder) edgeWeights() []float64 {
	w := make([]float64, len(b.in.Spec.Tasks))
	for _, e := range b.in.Spec.Edges {
		w[e.From] += float64(e.Data)
		w[e.To] += float64(e.Data)
	}
	for i := range b.in.Spec.Tasks {
		for _, in := range b.in.Spec.Tasks[i].Inputs {
			w[i] += float64(in.Size)
		}
	}
	return w
}

// addTask adds a task of the job with its candidates, as far as the past leaves it a choice.
func (b *builder) addTask(i int, gib float64) error {
	facts, id := b.in.Tasks[i], b.in.Spec.Tasks[i].Name
	if b.settled(i) {
		place, ok := b.number[facts.Place]
		if !ok {
			return nil // a place the catalogue has forgotten: it constrains nothing
		}
		hours := 0.0
		if facts.Fixed {
			hours = facts.Hours
		}
		b.addRow(row{task: i}, id, optimizer.Candidate{ID: facts.Place, Place: place, Hours: hours,
			Site: b.siteOfFixed(i), Zone: b.zoneOfFixed(i)})
		return nil
	}
	cl, err := b.classOf(i)
	if err != nil {
		return err
	}
	if len(cl.matches) == 0 {
		b.message = b.in.Spec.ErrorAt(i, -1, "", cl.reason, "").Error()
		return nil
	}
	options := b.candidates(i, cl, gib)
	switch at := b.in.Spec.ErrorAt; {
	case len(options) == 0 && b.countsCarbon():
		b.message = at(i, -1, "", "no region that offers it has a grid whose carbon is known",
			"allow other regions, or plan without counting carbon").Error()
		return nil
	case len(options) == 0:
		b.message = at(i, -1, "",
			"spot machines are interrupted too often for the task to finish, and on-demand is not allowed",
			"keep checkpoints, or allow on-demand").Error()
		return nil
	}
	if !slices.Equal(options, cl.options) { // of tasks that are alike there is one list
		cl.options, cl.candidates = options, make([]optimizer.Candidate, len(options))
		for k := range options {
			cl.candidates[k] = options[k].Candidate
		}
	}
	b.addRow(row{task: i, options: cl.options, class: cl}, id, cl.candidates...)
	return nil
}

// addRow adds a task to the model.
func (b *builder) addRow(r row, id string, candidates ...optimizer.Candidate) {
	b.index[id] = len(b.rows)
	if r.task >= 0 {
		b.byTask[r.task] = len(b.rows)
	}
	b.rows = append(b.rows, r)
	b.model.Tasks = append(b.model.Tasks, optimizer.Task{ID: id, Candidates: candidates})
}

// addEdges adds the dependencies among the tasks of the model. What moved to a task that is done, or holds its machines
// already, has moved.
func (b *builder) addEdges() {
	for _, e := range b.in.Spec.Edges {
		from, to := b.byTask[e.From], b.byTask[e.To]
		if from < 0 || to < 0 || b.settled(e.To) {
			continue
		}
		b.model.Edges = append(b.model.Edges, optimizer.Edge{
			From: b.model.Tasks[from].ID, To: b.model.Tasks[to].ID, GiB: float64(e.Data),
		})
	}
}

func (b *builder) settled(i int) bool {
	f := b.in.Tasks[i]
	return f != nil && (f.Done || f.Fixed)
}

// addInputs adds a pinned task of cost 0 for each input that lies in a bucket of a known place.
func (b *builder) addInputs() {
	for i := range b.in.Spec.Tasks {
		if b.byTask[i] < 0 || b.settled(i) {
			continue
		}
		for n, in := range b.in.Spec.Tasks[i].Inputs {
			place, ok := b.number[b.p.moves.PlaceOf(in.URI)]
			if !ok || in.Size <= 0 {
				continue
			}
			place = b.data.bucketAt(place)
			id := fmt.Sprintf("input:%s/%d", b.in.Spec.Tasks[i].Name, n)
			b.addRow(row{task: -1}, id, optimizer.Candidate{ID: in.URI, Place: place})
			b.model.Edges = append(b.model.Edges,
				optimizer.Edge{From: id, To: b.in.Spec.Tasks[i].Name, GiB: float64(in.Size)})
		}
	}
}

// plan reads the solution back.
func (b *builder) plan(sol *optimizer.Solution) *record.Plan {
	n := len(b.in.Spec.Tasks)
	plan := &record.Plan{
		Status: string(sol.Status), Message: sol.Message, USD: sol.USD, Hours: sol.Hours, Objective: sol.Objective,
		Bound: sol.Bound, Choice: make([]int32, n), TaskUSD: make([]float64, n), TaskHours: make([]float64, n),
		TaskOnDemandUSD: make([]float64, n),
		Millis:          math.Round(sol.Millis*1000) / 1000,
	}
	for i := range plan.Choice {
		plan.Choice[i] = -1
	}
	index := map[string]int32{}
	for r, row := range b.rows {
		if row.task < 0 {
			continue
		}
		if row.options == nil {
			b.keepPrevious(plan, row.task)
			continue
		}
		o := row.options[sol.Picks[r]]
		k, ok := index[o.ID]
		if !ok {
			k = int32(len(plan.Offers)) //nolint:gosec // at most one offer a task
			index[o.ID] = k
			plan.Offers = append(plan.Offers, o.match.planned())
		}
		plan.Choice[row.task], plan.TaskUSD[row.task], plan.TaskHours[row.task] = k, o.USD-o.movesUSD, o.expected
		plan.TaskOnDemandUSD[row.task] = o.elseUSD
		plan.KeepUSD += b.data.keepUSD(&b.in.Spec.Tasks[row.task], &o)
	}
	stays := b.stays(sol)
	plan.Notes = b.notes(plan)
	plan.Hours = b.expectedHours(stays)
	plan.OnDemandUSD = b.onDemandUSD(stays, plan.Hours)
	return plan
}

// keepPrevious carries over the choice of a task that holds its machines: it is what it was admitted under.
func (b *builder) keepPrevious(plan *record.Plan, task int) {
	f, prev := b.in.Tasks[task], b.in.Previous
	if f == nil || !f.Fixed || prev == nil {
		return
	}
	if c := prev.Of(task); c != nil {
		plan.Choice[task] = int32(len(plan.Offers)) //nolint:gosec // at most one offer a task
		plan.Offers = append(plan.Offers, *c)
		plan.TaskUSD[task], plan.TaskHours[task] = prev.TaskUSD[task], f.Hours
		if task < len(prev.TaskOnDemandUSD) {
			plan.TaskOnDemandUSD[task] = prev.TaskOnDemandUSD[task]
		}
	}
}

// runnersKept is how many alternatives of a task a plan keeps.
const runnersKept = 3

// addRunners notes for each task the next best choices with everything else as it is.
func (b *builder) addRunners(plan *record.Plan, sol *optimizer.Solution) error {
	if len(b.in.Spec.Tasks) > runnersFor {
		return nil
	}
	explainer, err := optimizer.NewExplainer(b.model, sol)
	if err != nil {
		return err
	}
	plan.Runners = map[int][]apitypes.Runner{}
	for r, row := range b.rows {
		if row.options == nil {
			continue
		}
		alternatives, err := explainer.Runners(b.model.Tasks[r].ID, runnersKept)
		if err != nil {
			return err
		}
		for _, alt := range alternatives {
			adds := alt.AddUSD
			switch b.model.Objective {
			case optimizer.Makespan:
				adds = alt.AddHours
			case optimizer.Carbon:
				adds = alt.AddKgCO2
			case optimizer.Cost:
			}
			o := row.options[alt.Candidate]
			plan.Runners[row.task] = append(plan.Runners[row.task], apitypes.Runner{
				ID: o.ID, USD: o.USD, Hours: o.expected, Adds: adds,
			})
		}
	}
	return nil
}
