package planner

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// A fleet is the machines that the tasks of one share group run on. Fleets are planned before the other tasks, with
// the shared form of the optimizer (pkg/optimizer/shared). The exact form then plans the other tasks, and the members
// of the groups are tasks with fixed places and times in its model.
//
// The model of a fleet has for each machine type, market and rate of interruptions the cheapest offer. If the tasks
// move data, a fleet is in one region, the best of fleetPlaces regions.

// fleets are the planned fleets of a job.
type fleets struct {
	all []*fleet
	at  map[int]stop // the members that are planned now, by task
}

// stop is the place of a task on a shared machine, and how long after its last parent it ends.
type stop struct {
	fleet *fleet
	place int
	hours float64
}

// of returns the place of a task that shares a machine, nil for other tasks.
func (f *fleets) of(task int) *stop {
	if f == nil {
		return nil
	}
	if s, ok := f.at[task]; ok {
		return &s
	}
	return nil
}

// outside is the data of an edge that the model of the other tasks moves, in GiB: the data between tasks of one fleet
// is part of the fleet's cost and times.
func (f *fleets) outside(e dag.Edge) float64 {
	if from, to := f.of(e.From), f.of(e.To); from != nil && to != nil && from.fleet == to.fleet {
		return 0
	}
	return float64(e.Data)
}

// withoutWorkers is the input without the worker tasks of the job.
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

// Notes of plans in which no tasks share machines, although the job asks for it.
const (
	notShared       = "no tasks share machines: "
	becauseCarbon   = notShared + "plans that count carbon give each task its own machine"
	becauseMixed    = notShared + "with a deadline or a budget, either all tasks share the same machines or none"
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
	if why != "" {
		return p.planUnshared(ctx, in, why)
	}
	began := p.clock()
	late, err := fl.solve(ctx)
	if none := (*noFleetError)(nil); errors.As(err, &none) {
		return p.planInstead(ctx, in, none)
	}
	if err != nil {
		return nil, err
	}
	millis := 1000 * p.clock().Sub(began).Seconds()
	rest := withoutWorkers(in)
	rest.DeadlineHours, rest.BudgetUSD = nil, nil // the fleets keep them
	if len(fl.all) == 0 {
		rest.DeadlineHours, rest.BudgetUSD = in.DeadlineHours, in.BudgetUSD
	}
	plan, err := p.planRest(ctx, rest, fl)
	if err != nil || plan.Status == record.PlanInfeasible {
		return plan, err
	}
	plan.Late = plan.Late || late
	plan.Millis += math.Round(millis*1000) / 1000
	b.addWorkers(plan)
	fl.write(plan)
	return plan, nil
}

// planUnshared plans a job with a machine for each task, and a note that says why.
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

// planInstead plans a job whose tasks have no shared machines with a machine for each task. If that is impossible too,
// the answer says why there are no shared machines.
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
	// members are the tasks to plan: neither finished nor running. running are those that run now.
	members, running []int
	index            map[int]int // of the members in the model, by task
	free             []int       // worker tasks that can be bought
	kept             []kept      // machines that the group has
	bound            float64     // in the unit of the objective
	// answer is the plan on the machines of model, whose times are expected ones. offers are the offers of the
	// machines of the model, after those that the group has.
	model  *shared.Model
	offers []*match
	answer *shared.Plan
	// worker is the worker task of each instance of the answer.
	worker []int
	// onDemandUSD is the cost of the same work on demand.
	onDemandUSD float64
	estimates   []estimate
}

// kept is a machine that the group has.
type kept struct {
	worker int
	on     *record.Planned
	hours  float64 // how much longer it was to be held
}

// groupFleets makes a fleet for each group with tasks to plan, or returns why the tasks cannot share.
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
	if b.in.DeadlineHours == nil && b.in.BudgetUSD == nil {
		return fl, ""
	}
	for i := range b.in.Spec.Work() {
		if !inside[i] && (b.in.Tasks[i] == nil || !b.in.Tasks[i].Done) || len(fl.all) > 1 {
			return nil, becauseMixed
		}
	}
	return fl, ""
}

// findWorkers finds the worker tasks of the group that can be bought, and those with machines.
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

// solve plans the fleets. late is true if one can no longer be on time.
func (fl *fleets) solve(ctx context.Context) (late bool, err error) {
	for _, f := range fl.all {
		err := f.solve(ctx, false)
		if errors.Is(err, errNoFleet) && f.b.in.Previous != nil && f.b.in.DeadlineHours != nil {
			// The job has started and can no longer be on time: finish it as fast as the budget allows.
			late = true
			err = f.solve(ctx, true)
		}
		if err != nil {
			return late, err
		}
	}
	fl.place()
	return late, nil
}

// place sets where each member is in the model of the other tasks, and how long after its parents it ends.
func (fl *fleets) place() {
	for _, f := range fl.all {
		ready := make([]float64, len(f.members))
		for _, e := range f.b.in.Spec.Edges {
			from, inside := f.index[e.From]
			if to, also := f.index[e.To]; inside && also {
				ready[to] = max(ready[to], f.answer.Tasks[from].To)
			}
		}
		for n, i := range f.members {
			run := f.answer.Tasks[n]
			fl.at[i] = stop{f, f.model.Machines[f.answer.Instances[run.On].Machine].Place, max(run.To-ready[n], 0)}
		}
	}
}

// settle adds the cost, the bound and the outputs of the fleets to a plan of the other tasks.
func (fl *fleets) settle(plan *record.Plan, b *builder, sol *optimizer.Solution) {
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

// restBound is the part of the bound for the other tasks. What they pay for data to and from the members depends on
// the places of the fleets, which are not proven to be the best, so with such data there is no bound.
func (fl *fleets) restBound(plan *record.Plan, b *builder, sol *optimizer.Solution) float64 {
	if b.model.Objective == optimizer.Makespan {
		return 0 // the times of the members are not proven
	}
	bound := plan.Bound
	for _, e := range b.model.Edges {
		from, to := b.index[e.From], b.index[e.To]
		if fl.of(b.rows[from].task) == nil && fl.of(b.rows[to].task) == nil || e.GiB == 0 {
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

// addWorkers adds entries for the worker tasks to a plan. Those with machines keep them.
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

// offer returns the index of an offer in a plan, and adds it if it is missing.
func offer(plan *record.Plan, of record.Planned) int32 {
	k := slices.IndexFunc(plan.Offers, func(o record.Planned) bool { return o.ID == of.ID })
	if k < 0 {
		k = len(plan.Offers)
		plan.Offers = append(plan.Offers, of)
	}
	return int32(k) //nolint:gosec // at most one offer a task
}
