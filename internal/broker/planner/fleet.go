package planner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// A fleet is the set of machines for the tasks of one share group. Fleets are planned before the other tasks, with
// the shared form of the optimizer (pkg/optimizer/shared). The exact form then plans the other tasks. In its model,
// the members of the groups are tasks with fixed places and times.
//
// The model of a fleet has the cheapest offer for each machine type, market and rate of interruptions. If the tasks
// move data, the fleet is in one region, the best of fleetPlaces regions.

// fleets are the planned fleets of a job.
type fleets struct {
	all []*fleet
	at  map[int]stop // by task: the members that are planned now
	// mixed is true if the job has a deadline or a budget that its fleets and other tasks must keep together. In the
	// model of the other tasks, no member of a fleet then starts before the end of all outside tasks that any member
	// needs, and times are the guaranteed ones.
	mixed bool
}

// stop is the place of a task on a shared machine. hours is the time until its end in the model of the other tasks:
// from the end of its last parent or, if the job is mixed, from the start of its fleet. expected is the same with
// expected times.
type stop struct {
	fleet           *fleet
	place           int
	hours, expected float64
}

// stopOf returns the place of a task that shares a machine, or nil for other tasks.
func (f *fleets) stopOf(task int) *stop {
	if f == nil {
		return nil
	}
	if s, ok := f.at[task]; ok {
		return &s
	}
	return nil
}

// inside reports whether an edge is between tasks of one fleet. The cost and times of the fleet then include the
// edge's data.
func (f *fleets) inside(e dag.Edge) bool {
	from, to := f.stopOf(e.From), f.stopOf(e.To)
	return from != nil && to != nil && from.fleet == to.fleet
}

// layers returns the number of passes over the tasks, in the order of the job, that give all tasks their times. One
// pass is not enough, because fleets do not start in this order. Each pass calculates the times of tasks whose
// parents' times are known.
func (f *fleets) layers() int {
	if f == nil || !f.mixed {
		return 1
	}
	return 1 + len(f.all)
}

// addStarts adds the start of each fleet to the model of the other tasks, if the job is mixed.
func (f *fleets) addStarts(b *builder) {
	if f == nil || !f.mixed {
		return
	}
	for _, fleet := range f.all {
		parents := map[int]bool{}
		for _, e := range b.in.Spec.Edges {
			if _, to := fleet.index[e.To]; to && !f.inside(e) && b.byTask[e.From] >= 0 && !b.settled(e.From) {
				parents[e.From] = true
			}
		}
		if len(parents) == 0 {
			continue
		}
		id := fmt.Sprintf("fleet:%d", fleet.group)
		place := f.at[fleet.members[0]].place
		b.addRow(row{task: -1}, id, optimizer.Candidate{ID: b.places[place], Place: place})
		for _, i := range slices.Sorted(maps.Keys(parents)) {
			b.model.Edges = append(b.model.Edges, optimizer.Edge{From: b.in.Spec.Tasks[i].Name, To: id})
		}
		for _, i := range fleet.members {
			b.model.Edges = append(b.model.Edges, optimizer.Edge{From: id, To: b.in.Spec.Tasks[i].Name})
		}
	}
}

// withoutWorkers returns the input without the job's worker tasks.
func withoutWorkers(in planinput.Input) planinput.Input {
	n := in.Spec.Work()
	if n == len(in.Spec.Tasks) {
		return in
	}
	spec := *in.Spec
	spec.Tasks = spec.Tasks[:n:n]
	in.Spec, in.Tasks = &spec, in.Tasks[:min(n, len(in.Tasks))]
	return in
}

// Notes in plans in which no tasks share machines although the job asks for it.
const (
	notShared       = "no tasks share machines: "
	becauseCarbon   = notShared + "plans that count carbon give each task its own machine"
	becauseWeights  = notShared + "with weights, plans give each task its own machine"
	becauseMixed    = notShared + "with a deadline or a budget, tasks that share must not wait for tasks between them"
	becauseCheaper  = notShared + "machines of their own are better within the deadline"
	becauseNoFleet  = notShared + "no shared machines keep the deadline and the budget"
	becauseNoWorker = notShared + "all machines of the job have been used"
)

// planShared plans a job with worker tasks.
func (p *Planner) planShared(ctx context.Context, in planinput.Input) (*record.Plan, error) {
	b, err := p.prepare(in, nil)
	if err != nil {
		return nil, err
	}
	if b.message != "" {
		return &record.Plan{Status: record.PlanInfeasible, Message: b.message}, nil
	}
	fl, why := b.groupFleets()
	if b.model.Objective == optimizer.Weighted {
		why = becauseWeights
	}
	if why != "" {
		return p.planUnshared(ctx, in, why)
	}
	began := p.clock()
	plan, err := p.planBoth(ctx, in, fl)
	if none := (*noFleetError)(nil); errors.As(err, &none) {
		return p.planInstead(ctx, in, none)
	}
	if err != nil || plan.Status == record.PlanInfeasible {
		return plan, err
	}
	plan.Millis = math.Round(1e6*p.clock().Sub(began).Seconds()) / 1000
	b.addWorkers(plan)
	fl.write(plan)
	b.addBootNotes(plan)
	return p.cheaperUnshared(ctx, in, plan)
}

// cheaperUnshared returns the plan without shared machines if it is better than plan. This is possible with a
// deadline: an interruption of a spot machine at the worst moment costs a shared machine more time.
func (p *Planner) cheaperUnshared(ctx context.Context, in planinput.Input, plan *record.Plan) (*record.Plan, error) {
	if in.DeadlineHours == nil || in.Previous != nil {
		return plan, nil
	}
	other, err := p.planUnshared(ctx, in, becauseCheaper)
	if err != nil || other.Status == record.PlanInfeasible {
		return plan, err
	}
	better := other.USD < plan.USD
	if in.Spec.Objective == dag.MinimizeMakespan {
		better = other.Hours < plan.Hours
	}
	if better {
		return other, nil
	}
	return plan, nil
}

// deadlineParts are the parts of the deadline that the fleets of a mixed job may take, in the order in which they are
// tried. The other tasks get the rest, or as much of it as they need.
var deadlineParts = [...]float64{1, 0.75, 0.5, 0.25}

// planBoth plans the fleets of a job, and then its other tasks. It fails with errNoFleet if the job cannot keep its
// limits with any fleets.
func (p *Planner) planBoth(ctx context.Context, in planinput.Input, fl *fleets) (*record.Plan, error) {
	parts := deadlineParts[:1]
	if fl.mixed && in.DeadlineHours != nil {
		parts = deadlineParts[:]
	}
	failed := error(&noFleetError{})
	for _, part := range parts {
		failed = fl.solve(ctx, part, false)
		if errors.Is(failed, errNoFleet) {
			continue
		}
		if failed != nil {
			return nil, failed
		}
		plan, err := p.planOthers(ctx, in, fl)
		if err != nil || !fl.mixed || plan.Status != record.PlanInfeasible && !plan.Late {
			return plan, err
		}
		failed = &noFleetError{message: plan.Message}
	}
	if in.Previous == nil || in.DeadlineHours == nil {
		return nil, failed
	}
	// The job has started and cannot be in time any more. It should finish as fast as the budget allows.
	if err := fl.solve(ctx, 1, true); err != nil {
		return nil, err
	}
	plan, err := p.planOthers(ctx, in, fl)
	if plan != nil {
		plan.Late = true
	}
	return plan, err
}

// planOthers plans the tasks that share no machines, with the fleets at their places and times.
func (p *Planner) planOthers(ctx context.Context, in planinput.Input, fl *fleets) (*record.Plan, error) {
	rest := withoutWorkers(in)
	if fl.mixed && in.BudgetUSD != nil {
		left := *in.BudgetUSD
		for _, f := range fl.all {
			left -= f.usd()
		}
		rest.BudgetUSD = &left
		if left < 0 {
			return nil, &noFleetError{}
		}
	}
	if !fl.mixed && len(fl.all) > 0 {
		rest.DeadlineHours, rest.BudgetUSD = nil, nil // the fleet keeps these limits
	}
	return p.planRest(ctx, rest, fl)
}

// planUnshared plans a job with one machine for each task. why is the reason, for a note in the plan.
func (p *Planner) planUnshared(ctx context.Context, in planinput.Input, why string) (*record.Plan, error) {
	plan, err := p.planRest(ctx, withoutWorkers(in), nil)
	if err != nil || plan.Status == record.PlanInfeasible {
		return plan, err
	}
	plan.Notes = append(plan.Notes, why)
	b, err := p.prepare(in, nil)
	if err == nil {
		b.addWorkers(plan)
	}
	return plan, err
}

// planInstead plans a job that cannot have shared machines with one machine for each task. If that is impossible,
// too, the answer states why there are no shared machines.
func (p *Planner) planInstead(ctx context.Context, in planinput.Input, none *noFleetError) (*record.Plan, error) {
	plan, err := p.planUnshared(ctx, in, becauseNoFleet)
	if err == nil && plan.Status == record.PlanInfeasible {
		plan.Message = none.message
	}
	return plan, err
}

// fleet is one share group while it is planned.
type fleet struct {
	b     *builder
	group int
	// members are the tasks to plan, which neither have finished nor run. running are those that run now.
	members, running []int
	index            map[int]int // index of each member in the model, by task
	free             []int       // worker tasks that can be bought
	kept             []kept      // machines that the group has
	bound            float64     // lower bound: in USD or, if the objective is the makespan, in hours
	// answer is the plan on the machines of model, whose times are expected ones. offers are the offers of the
	// model's machines, after the machines that the group has.
	model  *shared.Model
	offers []*match
	answer *shared.Plan
	// worst is the plan with guaranteed times. Without a deadline, it is answer.
	worst *shared.Plan
	// worker is the worker task of each instance in answer.
	worker []int
	// onDemandUSD is the cost of the same work on demand.
	onDemandUSD float64
	estimates   []estimate
}

// kept is a machine that the group has.
type kept struct {
	worker int
	on     *record.Planned
	hours  float64 // how many hours longer it was to be held
}

// groupFleets returns a fleet for each group with tasks to plan, or the reason why the tasks cannot share machines.
func (b *builder) groupFleets() (fl *fleets, why string) {
	fl = &fleets{at: map[int]stop{}}
	if b.countsCarbon() {
		return nil, becauseCarbon
	}
	inside := map[int]bool{}
	for g, members := range b.in.Spec.ShareGroups() {
		f := &fleet{b: b, group: g, index: map[int]int{}}
		for _, i := range members {
			inside[i] = true
			switch facts := b.in.Tasks[i]; {
			case facts == nil || !facts.Done && !facts.Fixed:
				f.index[i] = len(f.members)
				f.members = append(f.members, i)
			case facts.Fixed:
				f.running = append(f.running, i)
			}
		}
		f.findWorkers()
		if len(f.members) == 0 {
			continue
		}
		if len(f.free)+len(f.kept) == 0 {
			return nil, becauseNoWorker
		}
		fl.all = append(fl.all, f)
	}
	if b.in.DeadlineHours == nil && b.in.BudgetUSD == nil || len(fl.all) == 0 {
		return fl, ""
	}
	fl.mixed = len(fl.all) > 1
	for i := range b.in.Spec.Work() {
		fl.mixed = fl.mixed || !inside[i] && !b.settled(i)
	}
	if fl.mixed && (b.model.Objective == optimizer.Makespan && b.in.BudgetUSD != nil || !b.layered(fl)) {
		return nil, becauseMixed
	}
	return fl, ""
}

// layered reports whether the fleets and the other unfinished tasks can run one after the other: none of them is both
// before and after another.
func (b *builder) layered(fl *fleets) bool {
	n := len(b.in.Spec.Tasks)
	node := make([]int, n)
	for i := range node {
		node[i] = i
	}
	for k, f := range fl.all {
		for _, i := range f.members {
			node[i] = n + k
		}
	}
	waits, next := make([]int, n+len(fl.all)), make([][]int, n+len(fl.all))
	for _, e := range b.in.Spec.Edges {
		if from, to := node[e.From], node[e.To]; from != to && !b.settled(e.From) {
			waits[to]++
			next[from] = append(next[from], to)
		}
	}
	var ready []int
	for i, w := range waits {
		if w == 0 {
			ready = append(ready, i)
		}
	}
	for k := 0; k < len(ready); k++ {
		for _, to := range next[ready[k]] {
			if waits[to]--; waits[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
	return len(ready) == len(waits)
}

// findWorkers finds the group's worker tasks that can be bought, and those that have machines.
func (f *fleet) findWorkers() {
	in := &f.b.in
	for w := in.Spec.Work(); w < len(in.Spec.Tasks); w++ {
		if in.Spec.Tasks[w].Worker.Group != f.group {
			continue
		}
		switch facts := in.Tasks[w]; {
		case facts == nil || !facts.Done && !facts.Fixed:
			f.free = append(f.free, w)
		case facts.Fixed && in.Previous != nil && in.Previous.Of(w) != nil:
			if _, known := f.b.number[facts.Place]; known {
				f.kept = append(f.kept, kept{w, in.Previous.Of(w), facts.Hours})
			}
		}
	}
}

// solve plans the fleets within a part of the deadline. If late is true, it plans them as fast as possible.
func (fl *fleets) solve(ctx context.Context, part float64, late bool) error {
	for _, f := range fl.all {
		if err := f.solve(ctx, part, late); err != nil {
			return err
		}
	}
	fl.place()
	return nil
}

// place sets the place and time of each member in the model of the other tasks.
func (fl *fleets) place() {
	for _, f := range fl.all {
		expected, guaranteed := f.after(fl, f.answer), f.after(fl, f.worst)
		for n, i := range f.members {
			place := f.model.Machines[f.answer.Instances[f.answer.Tasks[n].On].Machine].Place
			fl.at[i] = stop{f, place, guaranteed[n], expected[n]}
		}
	}
}

// after returns the time of each member in a plan of the fleet: from the end of its last parent in the fleet or, if
// the job is mixed, from the start of the fleet.
func (f *fleet) after(fl *fleets, p *shared.Plan) []float64 {
	ready := make([]float64, len(f.members))
	if !fl.mixed {
		for _, e := range f.b.in.Spec.Edges {
			from, inside := f.index[e.From]
			if to, also := f.index[e.To]; inside && also {
				ready[to] = max(ready[to], p.Tasks[from].To)
			}
		}
	}
	for n := range ready {
		ready[n] = max(p.Tasks[n].To-ready[n], 0)
	}
	return ready
}

// addTo adds the cost, the bound and the outputs of the fleets to a plan of the other tasks.
func (fl *fleets) addTo(plan *record.Plan, b *builder, sol *optimizer.Solution) {
	if fl == nil || len(fl.all) == 0 {
		return
	}
	makespan := b.model.Objective == optimizer.Makespan
	bound := fl.restBound(plan, b, sol)
	for _, f := range fl.all {
		stored := 0.0
		for _, i := range f.members {
			at := option{Candidate: optimizer.Candidate{Place: fl.at[i].place}}
			b.addOutputCost(&b.in.Spec.Tasks[i], &at)
			stored += at.movesUSD
			plan.KeepUSD += b.data.keepUSD(&b.in.Spec.Tasks[i], &at)
		}
		plan.USD += f.usd() + stored
		plan.OnDemandUSD += f.onDemandUSD + stored
		if makespan {
			bound = max(bound, f.bound)
		} else {
			bound += f.bound
		}
	}
	plan.Objective, plan.Bound = plan.USD, min(bound, plan.USD)
	if makespan {
		plan.Objective, plan.Bound = plan.Hours, min(bound, plan.Hours)
	}
	plan.Status = string(optimizer.Feasible)
	if plan.Objective <= plan.Bound*(1+2e-9) {
		plan.Status = string(optimizer.Optimal)
	}
}

// restBound returns the part of the bound for the other tasks. Their cost of data to and from the members depends on
// the places of the fleets, which are not proven to be the best. So with such data, the bound is 0.
func (fl *fleets) restBound(plan *record.Plan, b *builder, sol *optimizer.Solution) float64 {
	if fl.mixed || b.model.Objective == optimizer.Makespan {
		return 0 // the times of the members are not proven, and the other tasks depend on them
	}
	bound := plan.Bound
	for _, e := range b.model.Edges {
		from, to := b.index[e.From], b.index[e.To]
		if fl.stopOf(b.rows[from].task) == nil && fl.stopOf(b.rows[to].task) == nil || e.GiB == 0 {
			continue
		}
		if b.rows[from].class != nil || b.rows[to].class != nil {
			return 0
		}
		place := func(r int) int { return b.model.Tasks[r].Candidates[sol.Picks[r]].Place }
		bound -= e.GiB * b.model.USDPerGiB[place(from)][place(to)]
	}
	return max(bound, 0)
}

// addWorkers adds entries for the worker tasks to a plan. Workers that have machines keep them.
func (b *builder) addWorkers(plan *record.Plan) {
	for len(plan.Choice) < len(b.in.Spec.Tasks) {
		plan.Choice = append(plan.Choice, -1)
		plan.TaskUSD, plan.TaskHours = append(plan.TaskUSD, 0), append(plan.TaskHours, 0)
		plan.TaskOnDemandUSD = append(plan.TaskOnDemandUSD, 0)
		b.keepPrevious(plan, len(plan.Choice)-1)
	}
	plan.On = make([]int32, len(plan.Choice))
	for i := range plan.On {
		plan.On[i] = -1
		if facts := b.in.Tasks[i]; facts != nil && facts.Fixed && b.in.Previous != nil && b.in.Previous.IsShared(i) {
			plan.On[i] = b.in.Previous.On[i]
		}
	}
}

// write adds the machines of the fleets and the tasks on them to a plan.
func (fl *fleets) write(plan *record.Plan) {
	for _, f := range fl.all {
		f.write(plan)
	}
}

// offer returns the index of an offer in a plan. It adds the offer if it is missing.
func offer(plan *record.Plan, of record.Planned) int32 {
	k := slices.IndexFunc(plan.Offers, func(o record.Planned) bool { return o.ID == of.ID })
	if k < 0 {
		k = len(plan.Offers)
		plan.Offers = append(plan.Offers, of)
	}
	return int32(k) //nolint:gosec // at most one offer a task
}
