package planner

import (
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// tasksTogether returns how close together the machines of tasks must be, for tasks of gangs and of rules that pack
// several tasks.
func (b *builder) tasksTogether() map[int]dag.Within {
	near := map[int]dag.Within{}
	for _, members := range b.in.Spec.Together() {
		for _, i := range members {
			if near[i] = b.in.Spec.Tasks[i].Within; near[i] == "" {
				near[i] = dag.WithinRegion
			}
		}
	}
	for _, g := range b.groups {
		if g.Pack != "" && len(g.Tasks) > 1 {
			for _, i := range g.Tasks {
				near[i] = g.Plan()
			}
		}
	}
	return near
}

// site returns a key that is equal for offers that are close enough for the task's gang. It is empty if the task has
// no such requirement.
func (b *builder) site(task int, m *match) string {
	switch b.near[task] {
	case dag.WithinRegion:
		return m.Place()
	case dag.WithinZone:
		return m.Place() + "/" + m.Zone
	case dag.WithinAnywhere:
	}
	return ""
}

// siteOfFixed returns the site of a task that holds machines.
func (b *builder) siteOfFixed(task int) string {
	f := b.in.Tasks[task]
	switch near := b.near[task]; near {
	case dag.WithinRegion:
		return f.Place
	case dag.WithinZone:
		if zone, known := b.zoneOf(task); known {
			return f.Place + "/" + zone
		}
	case dag.WithinAnywhere:
	}
	return ""
}

// addTogether adds to the model the sets of unfinished tasks that must be placed together. Tasks that hold machines
// determine the place.
func (b *builder) addTogether() {
	together := b.in.Spec.Together()
	var sets [][]int
	for _, name := range slices.Sorted(maps.Keys(together)) {
		sets = append(sets, b.undone(together[name]))
	}
	for _, g := range b.groups {
		if g.Pack != "" {
			sets = append(sets, b.undone(g.Tasks))
		}
	}
	for _, set := range joined(sets) {
		var ids []string
		for _, i := range set {
			ids = append(ids, b.model.Tasks[b.byTask[i]].ID)
		}
		if len(ids) > 1 {
			b.model.Together = append(b.model.Together, ids)
		}
	}
	b.addSpread()
}

// undone returns those of the tasks that are in the model and not finished.
func (b *builder) undone(tasks []int) (out []int) {
	for _, i := range tasks {
		if f := b.in.Tasks[i]; b.byTask[i] >= 0 && (f == nil || !f.Done) {
			out = append(out, i)
		}
	}
	return out
}

// joined merges sets with common members. If two tasks must each share a place with a third task, all three share it.
func joined(sets [][]int) (out [][]int) {
	for _, set := range sets {
		for k := 0; k < len(out); k++ {
			if slices.ContainsFunc(set, func(i int) bool { return slices.Contains(out[k], i) }) {
				set = append(slices.Clone(out[k]), set...)
				out = slices.Delete(out, k, k+1)
				k--
			}
		}
		slices.Sort(set)
		out = append(out, slices.Compact(set))
	}
	return out
}

// guaranteedTimes explains the times in a message about a deadline. They are longer than the expected times in plans.
const guaranteedTimes = " (guaranteed times: with slow boots, and time for interruptions of spot machines)"

// explain returns the reason why there is no plan.
func (b *builder) explain(sol *optimizer.Solution) string {
	switch {
	case sol.Reason == nil:
		return sol.Message
	case sol.Reason.Constraint == optimizer.Deadline || sol.Reason.Constraint == optimizer.DeadlineAndBudget:
		return sol.Message + guaranteedTimes
	case sol.Reason.Constraint != optimizer.NoCandidates || len(b.model.Together) == 0:
		return sol.Message
	}
	return sol.Message + " (the machines of a gang are in one region, or zone, unless it says within: anywhere)"
}

// dropTogether drops requirements to place tasks together or to spread them, if some of these tasks already hold
// machines. It reports whether there were any. There may be no room left for the other tasks, and a running job must
// not fail for that reason. Tasks that would violate a placement rule then wait in their queue.
func (b *builder) dropTogether() bool {
	holds := func(ids []string) bool {
		return slices.ContainsFunc(ids, func(id string) bool {
			task := b.rows[b.index[id]].task
			return b.in.Tasks[task] != nil && b.in.Tasks[task].Fixed
		})
	}
	n := len(b.model.Together) + len(b.model.Spread)
	b.model.Together = slices.DeleteFunc(b.model.Together, holds)
	b.model.Spread = slices.DeleteFunc(b.model.Spread, func(g optimizer.Spread) bool { return holds(g.Tasks) })
	return len(b.model.Together)+len(b.model.Spread) < n
}

// pruneTogether is prune for a task that is placed together with others, or spread. An offer that is worse than one
// of another site may be the best of its own site, and is kept.
func (b *builder) pruneTogether(options []option, gib float64) (kept []option) {
	bySite := map[string][]option{}
	for _, o := range options {
		key := o.Site + "\x00" + b.spreadPlace(o) + "\x00" + o.Zone
		bySite[key] = append(bySite[key], o)
	}
	for _, site := range slices.Sorted(maps.Keys(bySite)) {
		kept = append(kept, b.prune(bySite[site], gib)...)
	}
	return kept
}
