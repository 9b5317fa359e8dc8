package planner

import (
	"container/heap"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// minHeldBack is the minimum delay by the limit that a plan mentions, in hours.
const minHeldBack = 1.0 / 3600

// underLimit changes a plan that needs more machines at the same time than the broker may buy: it increases the
// plan's time and adds a note. The optimizer assumes that all ready tasks run at once. So the choices stay the same,
// and the time is that of a schedule of them under the limit (list scheduling: Graham, "Bounds on multiprocessing
// timing anomalies", 1969), as if no other job ran.
func (p *Planner) underLimit(in planinput.Input, plan *record.Plan) {
	limit := p.opt.Limit
	if limit.None() || plan.Status == record.PlanInfeasible {
		return
	}
	more := hoursWithin(limit, holdings(in.Spec, plan)) - hoursWithin(config.Limit{}, holdings(in.Spec, plan))
	if more < minHeldBack {
		return
	}
	span := func(hours float64) time.Duration { return readable.Rounded(record.Duration(hours)) }
	note := fmt.Sprintf("the broker may only have %s at the same time, so the job is expected to take %s instead of "+
		"%s, or longer if other jobs run", limit, span(plan.Hours+more), span(plan.Hours))
	if plan.Hours += more; in.DeadlineHours != nil && plan.Hours > *in.DeadlineHours {
		note += "; it misses its deadline"
	}
	if hour := hourWeight(in.Spec); hour > 0 && !plan.Late {
		plan.Objective += hour * more
		if plan.Status == string(optimizer.Optimal) {
			plan.Status = string(optimizer.Feasible)
		}
	}
	plan.Notes = append(plan.Notes, note)
}

// holding is what one task of a plan holds, and for how long. A task on a shared machine holds nothing, because the
// worker task holds the machine.
type holding struct {
	hours   float64
	bought  apitypes.Bought // at the planned price
	waits   int             // number of unfinished tasks that it waits for
	next    []int           // tasks that wait for it
	started bool
}

// holdings returns the holding of each task. A task's dependencies on a task with a shared machine are dependencies
// on the worker task.
func holdings(spec *dag.Job, plan *record.Plan) []holding {
	all := make([]holding, len(spec.Tasks))
	at := func(task int) int {
		if plan.IsShared(task) {
			return int(plan.On[task])
		}
		return task
	}
	link := func(from, to int) {
		if from, to = at(from), at(to); from != to {
			all[from].next = append(all[from].next, to)
			all[to].waits++
		}
	}
	for i := range all {
		if c := plan.Of(i); c != nil && at(i) == i {
			n := record.NodesOn(&spec.Tasks[i], c)
			all[i].hours = plan.TaskHours[i]
			all[i].bought = apitypes.Bought{Machines: n, USDPerHour: c.Offer.USDPerHour * float64(n)}
		}
	}
	for _, e := range spec.Edges {
		link(e.From, e.To)
	}
	for i := range spec.Arrays {
		a := &spec.Arrays[i]
		for k := a.MaxParallel; k < a.Size && a.MaxParallel > 0; k++ {
			link(a.First+k-a.MaxParallel, a.First+k)
		}
	}
	return all
}

// hoursWithin returns the hours until all tasks have ended, if they start in the order in which they become ready,
// each as soon as the limit allows. A task that needs more than the limit starts when no other runs.
func hoursWithin(limit config.Limit, all []holding) (now float64) {
	var ready []int
	for i := range all {
		if all[i].waits == 0 {
			ready = append(ready, i)
		}
	}
	var used apitypes.Bought
	var running ends
	for first := 0; ; {
		for len(ready) > 0 && (len(running) == 0 || limit.Excess(all[ready[0]].bought, used) == "") {
			i := ready[0]
			ready = ready[1:]
			if !all[i].started {
				all[i].started, used = true, used.Plus(all[i].bought)
				heap.Push(&running, end{now + all[i].hours, i})
			}
		}
		if len(running) == 0 {
			for first < len(all) && all[first].started {
				first++
			}
			if first == len(all) {
				return now
			}
			// two shared machines may wait for each other's tasks, so either may start first
			ready = append(ready, first)
			continue
		}
		ended := heap.Pop(&running).(end)
		now, used = ended.at, used.Minus(all[ended.task].bought)
		for _, i := range all[ended.task].next {
			if all[i].waits--; all[i].waits == 0 {
				ready = append(ready, i)
			}
		}
	}
}

// end is the time at which a task ends, in hours.
type end struct {
	at   float64
	task int
}

// ends is a heap of running tasks, ordered by their end.
type ends []end

func (e ends) Len() int { return len(e) }
func (e ends) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].task < e[j].task
}
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)   { *e = append(*e, x.(end)) }
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// hourWeight returns the amount that one hour of the makespan adds to the objective of a job.
func hourWeight(spec *dag.Job) float64 {
	switch {
	case spec.Objective == dag.MinimizeMakespan:
		return 1
	case spec.Weights != nil:
		return spec.Weights.Time
	}
	return 0
}
