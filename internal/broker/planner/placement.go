package planner

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// Rules that spread tasks over regions and zones are rules of the optimizer's model, as those that pack them are.
// Where a task is not to be beside others that run, of other jobs, those places are no candidates of it.

// whoIsSpread are the tasks of which a rule says how many may be in one region or zone.
func (b *builder) whoIsSpread() map[int]bool {
	spread := map[int]bool{}
	for _, g := range b.groups {
		if g.Spread.Far() && len(g.Tasks) > 1 {
			for _, i := range g.Tasks {
				spread[i] = true
			}
		}
	}
	return spread
}

// stand says where an option is, as far as that matters to rules.
func (b *builder) stand(task int, o *option) {
	o.Site = b.site(task, o.match)
	if b.spread[task] {
		o.Zone = o.match.Zone
	}
}

// spreadPlace tells the places of options apart where tasks are spread; elsewhere all are as one.
func (b *builder) spreadPlace(o option) string {
	if len(b.spread) == 0 {
		return ""
	}
	return strconv.Itoa(o.Place)
}

// addSpread has the tasks of rules that are not done be spread.
func (b *builder) addSpread() {
	for _, g := range b.groups {
		if !g.Spread.Far() {
			continue
		}
		of := optimizer.Spread{By: optimizer.ByZone, Most: g.Most()}
		if g.Spread == dag.LevelRegion {
			of.By = optimizer.ByPlace
		}
		for _, i := range b.undone(g.Tasks) {
			of.Tasks = append(of.Tasks, b.model.Tasks[b.byTask[i]].ID)
			of.Machines = append(of.Machines, max(b.in.Spec.Tasks[i].Nodes, 1))
		}
		if len(of.Tasks) > 1 {
			b.model.Spread = append(b.model.Spread, of)
		}
	}
}

// standsOf is where a task of the job stands now; nil where that is not known.
func (b *builder) standsOf(task int) *record.Spot {
	for i := range b.in.Stood {
		if p := &b.in.Stood[i]; p.Job == b.in.Job && b.in.Job != "" && p.Task == task && len(p.Spots) > 0 {
			return &p.Spots[0]
		}
	}
	return nil
}

// zoneOf is the zone of a task that holds machines, and whether it is known.
func (b *builder) zoneOf(task int) (zone string, known bool) {
	if spot := b.standsOf(task); spot != nil {
		return spot.Zone, true
	}
	if b.in.Previous != nil && b.in.Previous.Of(task) != nil {
		return b.in.Previous.Of(task).Offer.Zone, true
	}
	return "", false
}

// zoneOfFixed is the same for rules that spread.
func (b *builder) zoneOfFixed(task int) string {
	if !b.spread[task] {
		return ""
	}
	zone, _ := b.zoneOf(task)
	return zone
}

// free leaves out the options of a task that are not to be had beside what stands there, unless that is all: then it
// waits until it is free. A task that is admitted, and has not begun yet, stays where it was admitted to.
func (b *builder) free(task int, options []option) []option {
	if len(b.in.Stood) == 0 {
		return options
	}
	t := &b.in.Spec.Tasks[task]
	keep := func(test func(record.Spot) bool) {
		left := slices.DeleteFunc(slices.Clone(options), func(o option) bool {
			return !test(record.Spot{Region: o.match.Place(), Zone: o.match.Zone, Count: max(t.Nodes, 1)})
		})
		if len(left) > 0 {
			options = left
		}
	}
	if at := b.standsOf(task); at != nil && b.in.Tasks[task] != nil {
		keep(func(spot record.Spot) bool { return spot.Region == at.Region && spot.Zone == at.Zone })
	}
	var others []record.Placed
	for _, p := range b.in.Stood {
		if p.Job != b.in.Job || b.in.Job == "" {
			others = append(others, p)
		}
	}
	if len(others) == 0 {
		return options
	}
	keep(func(spot record.Spot) bool {
		mine := record.StandOf(t, []record.Spot{spot}, b.in.Now)
		return len(record.Clashes(nil, b.in.Job, task, mine, others)) == 0
	})
	return options
}

// notes says which rules do not hold where a plan has its tasks, as nobody knows what they are about there.
func (b *builder) notes(plan *record.Plan) (notes []string) {
	say := func(task int, rule *dag.Placement, of string) {
		choice := plan.Of(task)
		if choice == nil || rule.Level() != dag.LevelRack || dag.TellsRacks(choice.Offer.Cloud) {
			return
		}
		holds := "nothing is done about it there"
		if rule.Pack != "" {
			holds = "all are in one zone"
		}
		note := fmt.Sprintf("%s: %s holds in pools and in Kubernetes: "+
			"%s does not say in which racks its machines are; %s",
			of, rule, choice.Offer.Cloud, holds)
		if !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	for _, g := range b.groups {
		for _, i := range g.Tasks {
			say(i, g.Placement, b.in.Spec.Tasks[i].Name)
		}
	}
	for i := range b.in.Spec.Tasks {
		for _, rule := range b.in.Spec.Tasks[i].Aparts() {
			say(i, rule, b.in.Spec.Tasks[i].Name)
		}
	}
	const most = 20
	return notes[:min(len(notes), most)]
}
