package planner

import (
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// whoIsTogether are the tasks of gangs whose machines have to be close to each other, and how close.
func (b *builder) whoIsTogether() map[int]dag.Within {
	near := map[int]dag.Within{}
	for _, members := range b.in.Spec.Together() {
		for _, i := range members {
			if near[i] = b.in.Spec.Tasks[i].Within; near[i] == "" {
				near[i] = dag.WithinRegion
			}
		}
	}
	return near
}

// site is what an offer has in common with those that are as close to it as a task wants the others of its gang; empty
// where it wants none.
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

// siteOfFixed is the site of a task that holds its machines.
func (b *builder) siteOfFixed(task int) string {
	f := b.in.Tasks[task]
	switch near := b.near[task]; {
	case near == dag.WithinRegion:
		return f.Place
	case near == dag.WithinZone && b.in.Previous != nil && b.in.Previous.Of(task) != nil:
		return f.Place + "/" + b.in.Previous.Of(task).Offer.Zone
	}
	return ""
}

// addTogether has the tasks of a gang that are not done placed together. Those that hold machines say where.
func (b *builder) addTogether() {
	together := b.in.Spec.Together()
	for _, name := range slices.Sorted(maps.Keys(together)) {
		var ids []string
		for _, i := range together[name] {
			if f := b.in.Tasks[i]; b.byTask[i] >= 0 && (f == nil || !f.Done) {
				ids = append(ids, b.model.Tasks[b.byTask[i]].ID)
			}
		}
		if len(ids) > 1 {
			b.model.Together = append(b.model.Together, ids)
		}
	}
}

// explain says why there is no plan.
func (b *builder) explain(sol *optimizer.Solution) string {
	if sol.Reason == nil || sol.Reason.Constraint != optimizer.NoCandidates || len(b.model.Together) == 0 {
		return sol.Message
	}
	return sol.Message + " (the machines of a gang are in one region, or zone, unless it says within: anywhere)"
}

// apart gives up that gangs are placed together of which some hold machines already, and says whether there are any:
// where these are there may be no room for the others any more, and a job that runs does not fail for that.
func (b *builder) apart() bool {
	holds := func(ids []string) bool {
		return slices.ContainsFunc(ids, func(id string) bool {
			task := b.rows[b.index[id]].task
			return b.in.Tasks[task] != nil && b.in.Tasks[task].Fixed
		})
	}
	n := len(b.model.Together)
	b.model.Together = slices.DeleteFunc(b.model.Together, holds)
	return len(b.model.Together) < n
}

// pruneTogether is prune of a task that is placed together with others: what is beaten by another site's offer may be
// the best at its own.
func (b *builder) pruneTogether(options []option, gib float64) (kept []option) {
	bySite := map[string][]option{}
	for _, o := range options {
		bySite[o.Site] = append(bySite[o.Site], o)
	}
	for _, site := range slices.Sorted(maps.Keys(bySite)) {
		kept = append(kept, b.prune(bySite[site], gib)...)
	}
	return kept
}
