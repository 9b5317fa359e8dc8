package planner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// Options configure a Planner.
type Options struct {
	// Clouds limits plans to these clouds; empty means all of the catalogue.
	Clouds []string
	// Regions limits tasks that name no region to these regions, as CLOUD:REGION; empty means all.
	Regions []string
	// Without excludes machine types, as CLOUD/TYPE or as a prefix of that.
	Without []string
	// Archs are the architectures for which the broker has an agent, by cloud. A cloud that is missing here has an
	// agent for all. Machines of other architectures are not planned, because they could not work.
	Archs map[string][]string
	// Services are the managed services that the deployment buys. Other services that a task allows are ignored.
	Services map[string]bool
	// Limit limits the bought machines that the broker may have at a time.
	Limit config.Limit
	// LeastCarbon minimises emissions. CarbonCapKg limits them, in kg CO2eq. Either excludes regions whose grid has
	// unknown emissions.
	LeastCarbon bool
	CarbonCapKg *float64
	// Stores are the output stores by place. Data move from a task to its store, and from there to the tasks that
	// read them.
	Stores config.Stores
	// Restart is the time that an interruption costs in addition to lost work: to find, boot and stage another
	// machine. TickEvery is the interval at which the broker checks the spot machines in use, and leaves those that
	// would miss a deadline.
	Restart, TickEvery time.Duration
	// Handling is the time for which a task holds its share of a shared machine in addition to its run time.
	Handling time.Duration
	// Now is used to measure planning time. If it is nil, no time is reported, and a plan depends only on its input.
	Now func() time.Time
}

// DefaultOptions plan on the whole catalogue, with the broker's own times.
func DefaultOptions() Options {
	c := config.Default()
	return Options{Now: time.Now, Restart: c.Restart, TickEvery: c.TickEvery, Handling: c.Handling}
}

// runnersFor is the maximum number of tasks of jobs whose plans keep the runners-up of each task.
const runnersFor = 200

// WorkLimit returns the maximum effort of the search for a job with a number of tasks, in optimizer steps. Steps are
// limited instead of time, so that the same input gives the same plan on any machine.
func WorkLimit(tasks int) int64 { return 200_000_000 * (2 + int64(tasks+99)/100) }

// Planner plans jobs on a catalogue. It is safe for concurrent use.
type Planner struct {
	catalog atomic.Pointer[catalog.Catalog]
	known   atomic.Pointer[market] // nil, or the market of the last catalogue in use
	moves   *egress.Prices
	opt     Options
	effort  float64 // of a search for a fleet
	crowd   bool    // keeps all machines of a fleet in one zone, for tests
}

// New makes a planner.
func New(c *catalog.Catalog, moves *egress.Prices, opt Options) *Planner {
	p := &Planner{moves: moves, opt: opt, effort: fleetEffort}
	p.catalog.Store(c)
	return p
}

// SetCatalog replaces the catalogue for future plans.
func (p *Planner) SetCatalog(c *catalog.Catalog) { p.catalog.Store(c) }

// Plan implements broker.Planner.
//
// The optimizer assumes that offers are unlimited, but reserved capacity is not. If a plan exceeds a reservation, the
// tasks that save the least on it are excluded from it, and the job is planned again until the plan fits. The bound
// proven for the first plan holds for all of them, because each later plan has fewer choices.
//
// Tasks that share machines are planned first: see fleets.
func (p *Planner) Plan(ctx context.Context, in planinput.Input) (plan *record.Plan, err error) {
	if in.Spec.HasWorkers() {
		plan, err = p.planShared(ctx, in)
	} else {
		plan, err = p.planRest(ctx, in, nil)
	}
	if err == nil {
		p.underLimit(in, plan)
	}
	return plan, err
}

// planRest plans the tasks that share no machines. Tasks that share machines are at their places in fl, which may be
// nil.
func (p *Planner) planRest(ctx context.Context, in planinput.Input, fl *fleets) (*record.Plan, error) {
	own := p.reservations(in)
	var first *record.Plan
	for {
		plan, b, sol, err := p.planOnce(ctx, in, own, fl)
		if err != nil || sol == nil {
			return plan, err
		}
		if first == nil || first.Late != plan.Late { // a late plan has another objective
			first = plan
		}
		if !own.fits(b, sol) {
			continue
		}
		fl.addTo(plan, b, sol)
		if plan.Bound = first.Bound; plan.Status == string(optimizer.Optimal) && !proven(plan) {
			plan.Status = string(optimizer.Feasible)
		}
		return plan, b.addRunners(plan, sol)
	}
}

// planOnce makes one plan with the reservations that are still allowed. If there is no solution, the plan has the
// reason.
func (p *Planner) planOnce(ctx context.Context, in planinput.Input, own *reservations,
	fl *fleets) (*record.Plan, *builder, *optimizer.Solution, error) {
	b, err := p.build(in, own, fl)
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
	if sol.Status == optimizer.Infeasible && b.dropTogether() {
		if sol, err = p.solve(ctx, b.model, b.previous()); err != nil {
			return nil, nil, nil, err
		}
	}
	late := false
	if sol.Status == optimizer.Infeasible && in.Previous != nil && in.DeadlineHours != nil {
		// The job has started and cannot be in time any more. It should finish as fast as the budget allows.
		late = true
		b.model.Objective, b.model.Weights, b.model.DeadlineHours = optimizer.Makespan, nil, nil
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

// previous returns the current plan as the start of the search: a candidate for each row, or -1 if the planned one is
// not available any more. The part that remains after a block or a price change is nearly always in the best plan. Of
// equally good plans, the current one is kept.
func (b *builder) previous() []int {
	if b.in.Previous == nil {
		return nil
	}
	hint := make([]int, len(b.rows))
	for r, row := range b.rows {
		if row.options == nil {
			continue // it has only one candidate
		}
		hint[r] = -1
		if c := b.in.Previous.Of(row.task); c != nil {
			hint[r] = slices.IndexFunc(row.options, func(o option) bool { return o.is(c) })
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
func (p *Planner) Model(in planinput.Input) (*optimizer.Model, error) {
	b, err := p.build(withoutWorkers(in), nil, nil)
	if err == nil && b.message != "" {
		err = fmt.Errorf("%w: %s", ErrInfeasible, b.message)
	}
	if err != nil {
		return nil, err
	}
	return b.model, nil
}

// Frontier returns the Pareto front of a job's plans, by cost and finishing time. Times are those to which a deadline
// is compared (for spot runs the guaranteed ones), so a plan with a point's time as its deadline has the point's
// cost. It fails with ErrInfeasible if a task has no candidate.
func (p *Planner) Frontier(ctx context.Context, in planinput.Input,
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
	if m.Objective == optimizer.Weighted {
		m.Objective, m.Weights = optimizer.Cost, nil
	}
	return optimizer.Frontier(ctx, m, o)
}

// builder makes one model.
type builder struct {
	p       *Planner
	*market // the market when planning started
	data    data
	known   known
	in      planinput.Input
	model   *optimizer.Model
	classes map[string]*class
	lists   map[requirements]*listing
	rows    []row
	near    map[int]dag.Within // how close together the machines of a task must be to those of others
	groups  []dag.PlacementGroup
	spread  map[int]bool   // tasks that are spread over regions or zones
	index   map[string]int // row by ID of the model's task
	byTask  []int          // task of the job -> row, -1 for none
	// reserved is the reserved capacity that tasks may be planned on; nil for none.
	reserved *reservations
	message  string
	scratch  []option              // buffer for the current task
	noAgent  map[catalog.Arch]bool // architectures of offers that were excluded because they have no agent
	fleets   *fleets               // the planned tasks that share machines; may be nil
}

// row is one task of the model.
type row struct {
	task    int // of the job, -1 for an input
	options []option
	class   *class // nil if the task is finished or its machines are fixed
	list    *listing
}

// option is the choice that one candidate of a row stands for.
type option struct {
	optimizer.Candidate
	match    *match
	nodes    int     // machines
	expected float64 // hours
	work     float64 // hours, without interruptions
	movesUSD float64 // part of the cost: moving the task's outputs to the store
	elseUSD  float64 // for a spot offer: on-demand cost per machine of an hour of its work at the cheapest place
}

// is reports whether an option is a planned choice.
func (o *option) is(c *record.Planned) bool {
	return o.match.id == c.ID && (c.Offer.Nodes == 0 || c.Offer.Nodes == o.nodes)
}

// chosen returns the number of machines of a task if the plan chose it, and 0 otherwise.
func (b *builder) chosen(task, nodes int) int {
	if b.in.Spec.Tasks[task].MaxNodes == 0 {
		return 0
	}
	return nodes
}

func (p *Planner) build(in planinput.Input, own *reservations, fl *fleets) (*builder, error) {
	b, err := p.prepare(in, own)
	if err != nil || b.message != "" {
		return b, err
	}
	b.fleets = fl
	b.groups = in.Spec.Groups()
	b.near, b.spread = b.tasksTogether(), b.tasksSpread()
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

// prepare makes a builder with a model that has no tasks yet.
func (p *Planner) prepare(in planinput.Input, own *reservations) (*builder, error) {
	m, err := p.market()
	if err == nil {
		m, err = m.with(p.moves, p.dataPlaces(in))
	}
	if err != nil {
		return nil, err
	}
	b := &builder{
		p: p, market: m, in: in, reserved: own, classes: map[string]*class{}, lists: map[requirements]*listing{},
		index: map[string]int{}, noAgent: map[catalog.Arch]bool{}, byTask: make([]int, len(in.Spec.Tasks)),
		model: &optimizer.Model{
			Objective: optimizer.Cost, DeadlineHours: in.DeadlineHours, BudgetUSD: in.BudgetUSD,
		},
	}
	var ok bool
	if b.data, ok = b.placeData(); !ok {
		b.message = "no store of this deployment is in a region that the job allows for its data (regions)"
		return b, nil
	}
	b.model.Places, b.model.USDPerGiB, b.model.HoursPerGiB = b.data.places, b.data.usd, b.data.hours
	switch w := in.Spec.Weights; {
	case p.opt.LeastCarbon:
		b.model.Objective = optimizer.Carbon
	case in.Spec.Objective == dag.MinimizeMakespan:
		b.model.Objective = optimizer.Makespan
	case w != nil:
		b.model.Objective, b.model.Weights = optimizer.Weighted, &optimizer.Weights{USD: w.Cost, Hours: w.Time}
	}
	b.model.CarbonCapKg = p.opt.CarbonCapKg
	b.known = b.knownOffers()
	if n := len(in.Spec.Tasks) - len(in.Tasks); n > 0 {
		b.in.Tasks = append(slices.Clip(in.Tasks), make([]*planinput.Facts, n)...)
	}
	return b, nil
}

// dataPlaces returns the places in which the job's data are or will be stored. The catalogue may not have them.
func (p *Planner) dataPlaces(in planinput.Input) (places []string) {
	for i := range in.Spec.Tasks {
		for _, input := range in.Spec.Tasks[i].Inputs {
			places = append(places, p.placeOf(input.URI))
		}
	}
	for _, facts := range in.Tasks {
		if facts != nil {
			places = append(places, facts.Place)
		}
	}
	return slices.AppendSeq(places, maps.Keys(p.opt.Stores.URLs))
}

// placeOf returns the place of an input. For a store of the broker, the settings state it. For other buckets it is in
// the URL, or else the place where their cloud creates buckets by default.
func (p *Planner) placeOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || len(p.opt.Stores.URLs) == 0 || u.Query().Has("region") {
		return p.moves.PlaceOf(uri)
	}
	return p.opt.Stores.PlaceOf(u.Scheme + "://" + u.Host)
}

// edgeWeights returns the data that move to and from each task, in GiB.
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

// addTask adds a task of the job with its candidates. A task that is finished or holds machines has only one.
func (b *builder) addTask(i int, gib float64) error {
	facts, id, reference := b.in.Tasks[i], b.in.Spec.Tasks[i].Name, b.in.Spec.Tasks[i].Reference
	if b.settled(i) {
		place, ok := b.number[facts.Place]
		if !ok {
			return nil // without a recorded place, the task constrains nothing
		}
		hours := 0.0
		if facts.Fixed {
			hours = facts.Hours
		}
		b.addRow(row{task: i}, id, optimizer.Candidate{ID: facts.Place, Place: place, Hours: hours,
			Site: b.siteOfFixed(i), Zone: b.zoneOfFixed(i)})
		return nil
	}
	if at := b.fleets.stopOf(i); at != nil {
		b.addRow(row{task: i}, id, optimizer.Candidate{ID: b.places[at.place], Place: at.place, Hours: at.hours})
		return nil
	}
	if _, known := hardware.SpeedOf(reference); reference != "" && !known {
		e := b.in.Spec.ErrorAt(i, -1, "reference", fmt.Sprintf("%q is no machine type with a known speed", reference),
			"tradewind catalog search --instance-type TYPE shows the speed of a type")
		b.message = e.Error()
		return nil
	}
	cl, err := b.classOf(i)
	if err != nil {
		return err
	}
	if len(cl.matches) == 0 {
		b.message = b.in.Spec.ErrorAtResources(i, cl.reason, "").Error()
		return nil
	}
	l := b.list(i, cl, gib)
	switch at := b.in.Spec.ErrorAt; {
	case len(l.options) == 0 && b.countsCarbon():
		b.message = at(i, -1, "", "no region that offers it has a grid whose carbon is known",
			"allow other regions, or plan without counting carbon").Error()
		return nil
	case len(l.options) == 0:
		b.message = at(i, -1, "",
			"spot machines are interrupted too often for the task to finish, and on-demand is not allowed",
			"keep checkpoints, or allow on-demand").Error()
		return nil
	}
	b.addRow(row{task: i, options: l.options, class: cl, list: l}, id, l.candidates...)
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

// addEdges adds the dependencies among the tasks of the model. The inputs of a task that is finished or holds
// machines have already been moved, so its edges are omitted.
func (b *builder) addEdges() {
	for _, e := range b.in.Spec.Edges {
		from, to := b.byTask[e.From], b.byTask[e.To]
		if from < 0 || to < 0 || b.settled(e.To) {
			continue
		}
		gib := float64(e.Data)
		if b.fleets.inside(e) {
			if b.fleets.mixed {
				continue // the times of the members count from the start of the fleet
			}
			gib = 0
		}
		b.model.Edges = append(b.model.Edges, optimizer.Edge{
			From: b.model.Tasks[from].ID, To: b.model.Tasks[to].ID, GiB: gib,
		})
	}
	b.fleets.addStarts(b)
	b.addWaves()
}

// addWaves makes each member of an array wait for the member that is maxParallel before it. So the expected time
// takes into account that only some members run at the same time.
func (b *builder) addWaves() {
	for i := range b.in.Spec.Arrays {
		a := &b.in.Spec.Arrays[i]
		for k := a.MaxParallel; k < a.Size && a.MaxParallel > 0; k++ {
			from, to := b.byTask[a.First+k-a.MaxParallel], b.byTask[a.First+k]
			if from >= 0 && to >= 0 && !b.settled(a.First+k) {
				b.model.Edges = append(b.model.Edges,
					optimizer.Edge{From: b.model.Tasks[from].ID, To: b.model.Tasks[to].ID})
			}
		}
	}
}

func (b *builder) settled(i int) bool {
	f := b.in.Tasks[i]
	return f != nil && (f.Done || f.Fixed)
}

// addInputs adds a pinned task of cost 0 for each input in a bucket whose place is known.
func (b *builder) addInputs() {
	for i := range b.in.Spec.Tasks {
		if b.byTask[i] < 0 || b.settled(i) {
			continue
		}
		for n, in := range b.in.Spec.Tasks[i].Inputs {
			place, ok := b.number[b.p.placeOf(in.URI)]
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

// plan returns the plan of a solution.
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
			plan.Offers = append(plan.Offers, o.match.planned(b.chosen(row.task, o.nodes)))
		}
		plan.Choice[row.task], plan.TaskUSD[row.task], plan.TaskHours[row.task] = k, o.USD-o.movesUSD, o.expected
		plan.TaskOnDemandUSD[row.task] = o.elseUSD
		plan.KeepUSD += b.data.keepUSD(&b.in.Spec.Tasks[row.task], &o)
	}
	stays := b.stays(sol)
	plan.Notes = b.notes(plan)
	b.addBootNotes(plan)
	plan.Hours = b.expectedHours(stays)
	if share := b.timeWeight(); share > 0 {
		// With a deadline, the proof is about guaranteed times. Users see expected times.
		sooner := share * math.Max(sol.Hours-plan.Hours, 0)
		plan.Objective, plan.Bound = sol.Objective-sooner, math.Max(sol.Bound-sooner, 0)
	}
	plan.OnDemandUSD = b.onDemandUSD(stays, plan.Hours)
	return plan
}

// keepPrevious copies the choice of a task that holds machines from the previous plan.
func (b *builder) keepPrevious(plan *record.Plan, task int) {
	f, prev := b.in.Tasks[task], b.in.Previous
	if f == nil || !f.Fixed || prev == nil {
		return
	}
	if c := prev.Of(task); c != nil {
		if prev.IsShared(task) || b.in.Spec.Tasks[task].Worker != nil {
			plan.Choice[task] = offer(plan, *c) // many tasks have the same
		} else {
			plan.Choice[task] = int32(len(plan.Offers)) //nolint:gosec // at most one offer a task
			plan.Offers = append(plan.Offers, *c)
		}
		plan.TaskUSD[task], plan.TaskHours[task] = prev.TaskUSD[task], f.Hours
		if task < len(prev.TaskOnDemandUSD) {
			plan.TaskOnDemandUSD[task] = prev.TaskOnDemandUSD[task]
		}
	}
}

// runnersKept is the number of runners-up that a plan keeps for each task.
const runnersKept = 3

// addRunners adds the next best choices of each task, for unchanged choices of all other tasks.
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
		alternatives, err := explainer.Alternatives(b.model.Tasks[r].ID, runnersKept)
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
			case optimizer.Weighted:
				w := b.model.Weights
				adds = w.USD*alt.AddUSD + w.Hours*alt.AddHours
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
