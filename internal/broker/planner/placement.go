package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/history"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// Rules that spread or pack tasks over regions and zones become rules of the optimizer's model. Rules against running
// tasks of other jobs remove candidates at their locations.

// tasksSpread returns the tasks with a rule that limits how many of them may be in one region or zone.
func (b *builder) tasksSpread() map[int]bool {
	spread := map[int]bool{}
	for _, g := range b.groups {
		if g.Spread.Plannable() && len(g.Tasks) > 1 {
			for _, i := range g.Tasks {
				spread[i] = true
			}
		}
	}
	return spread
}

// setLocation sets those parts of an option's location that placement rules need.
func (b *builder) setLocation(task int, o *option) {
	o.Site = b.site(task, o.match)
	if b.spread[task] {
		o.Zone = o.match.Zone
	}
}

// spreadPlace returns a key for the place of an option if tasks are spread, and the same key for all places
// otherwise.
func (b *builder) spreadPlace(o option) string {
	if len(b.spread) == 0 {
		return ""
	}
	return strconv.Itoa(o.Place)
}

// addSpread adds the rules that spread tasks to the model, for the unfinished tasks.
func (b *builder) addSpread() {
	for _, g := range b.groups {
		if !g.Spread.Plannable() {
			continue
		}
		of := optimizer.Spread{By: optimizer.ByZone, Most: g.MaxPerPlace()}
		if g.Spread == dag.LevelRegion {
			of.By = optimizer.ByPlace
		}
		for _, i := range b.undone(g.Tasks) {
			of.Tasks = append(of.Tasks, b.model.Tasks[b.byTask[i]].ID)
			of.Machines = append(of.Machines, b.in.Spec.Tasks[i].MostNodes())
		}
		if len(of.Tasks) > 1 {
			b.model.Spread = append(b.model.Spread, of)
		}
	}
}

// locationOf returns the current location of a task of the job, or nil if it is unknown.
func (b *builder) locationOf(task int) *record.Spot {
	for i := range b.in.Stood {
		if p := &b.in.Stood[i]; p.Job == b.in.Job && b.in.Job != "" && p.Task == task && len(p.Spots) > 0 {
			return &p.Spots[0]
		}
	}
	return nil
}

// zoneOf returns the zone of a task that holds machines, and whether it is known.
func (b *builder) zoneOf(task int) (zone string, known bool) {
	if spot := b.locationOf(task); spot != nil {
		return spot.Zone, true
	}
	if b.in.Previous != nil && b.in.Previous.Of(task) != nil {
		return b.in.Previous.Of(task).Offer.Zone, true
	}
	return "", false
}

// zoneOfFixed returns the zone of a task that holds machines, if a rule spreads the task.
func (b *builder) zoneOfFixed(task int) string {
	if !b.spread[task] {
		return ""
	}
	zone, _ := b.zoneOf(task)
	return zone
}

// withoutConflicts removes the options of a task that conflict with running tasks. If all options conflict, it keeps
// them, and the task waits until the conflict has gone. A task that is admitted but not started keeps its location.
func (b *builder) withoutConflicts(task int, options []option) []option {
	if len(b.in.Stood) == 0 {
		return options
	}
	keep := func(test func(record.Spot) bool) {
		left := slices.DeleteFunc(slices.Clone(options), func(o option) bool {
			return !test(record.Spot{Region: o.match.Place(), Zone: o.match.Zone, Count: o.nodes})
		})
		if len(left) > 0 {
			options = left
		}
	}
	if at := b.locationOf(task); at != nil && b.in.Tasks[task] != nil {
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
		mine := record.LocationOf(&b.in.Spec.Tasks[task], []record.Spot{spot}, b.in.Now)
		return len(record.Clashes(nil, b.in.Job, task, mine, others)) == 0
	})
	return options
}

// notes returns the plan's notes: placement rules that cannot be enforced at the planned locations because racks are
// unknown there, architectures whose offers were excluded, and tasks that their timeout would end.
func (b *builder) notes(plan *record.Plan) (notes []string) {
	say := func(task int, rule *dag.Placement, of string) {
		choice := plan.Of(task)
		if choice == nil || rule.Level() != dag.LevelRack || dag.CanHaveRacks(choice.Offer.Cloud) {
			return
		}
		holds := "it is not enforced there"
		if rule.Pack != "" {
			holds = "all are in one zone"
		}
		note := fmt.Sprintf("%s: %s is enforced in pools and in Kubernetes only: "+
			"%s does not say which racks its machines are in; %s",
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
		for _, rule := range b.in.Spec.Tasks[i].ApartRules() {
			say(i, rule, b.in.Spec.Tasks[i].Name)
		}
	}
	for i := range b.in.Spec.Tasks {
		for _, note := range b.leftOut(&b.in.Spec.Tasks[i]) {
			if !slices.Contains(notes, note) {
				notes = append(notes, note)
			}
		}
		if note := b.tooLong(i, plan); note != "" {
			notes = append(notes, note)
		}
	}
	const most = 20
	notes = notes[:min(len(notes), most)]
	if why := b.withoutAgent(); why != "" {
		notes = append(notes, why)
	}
	return notes
}

// tooLong returns a note if a task is expected to take longer on its planned machine than its timeout allows. It
// returns none if the expected time is the timeout itself, as in a Slurm script, because that says nothing about the
// real run time.
func (b *builder) tooLong(i int, plan *record.Plan) string {
	t, choice := &b.in.Spec.Tasks[i], plan.Of(i)
	if t.Timeout <= 0 || choice == nil || t.Time.Default == t.Timeout {
		return ""
	}
	f := history.FigureOf(t, choice.Offer)
	if f.From == apitypes.FromNothing || f.Hours <= t.Timeout.Hours() {
		return ""
	}
	return fmt.Sprintf("%s: is expected to run for %s on %s, and its timeout ends it after %s", t.Name,
		dag.FormatDuration(record.Duration(f.Hours).Round(time.Minute)), choice.Offer.InstanceType,
		dag.FormatDuration(t.Timeout))
}

// nonEmpty returns a list of the name, or an empty list if the name is empty.
func nonEmpty(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

// leftOut returns notes about the alternatives of a task that no offer can match, because they name an accelerator, a
// machine type or a place that the catalogue does not have. (Without other alternatives, this is an error.)
func (b *builder) leftOut(t *dag.Task) (notes []string) {
	if len(t.Resources) < 2 {
		return nil
	}
	leave := func(what, why string) {
		notes = append(notes, fmt.Sprintf("%s: the alternative %s is left out: %s", t.Name, what, why))
	}
	for k := range t.Resources {
		r := &t.Resources[k]
		if r.Cloud != "" && !slices.Contains(b.catalog.Clouds(), r.Cloud) {
			leave(r.Cloud, "the plan has no offers of this cloud")
			continue
		}
		if r.InstanceType == "" && !t.Time.Only && !t.Time.Fits("", r.Accelerator, r.AcceleratorCount) {
			leave(cmp.Or(r.Accelerator, "without accelerators"), "its rating, which time.flops needs, is unknown")
			continue
		}
		q := catalog.Query{Accelerator: r.Accelerator, InstanceType: r.InstanceType, Family: r.Family}
		if ofTES := b.in.Spec.Format == dag.TES; !ofTES { // a zone of TES may be a region, so each is two alternatives
			q.Regions, q.Zones = nonEmpty(r.Region), nonEmpty(r.Zone)
		}
		for _, name := range b.catalog.Missing(q) {
			if sold, is := strings.CutPrefix(name, "accelerator "); is {
				leave(sold, "no cloud in the catalogue sells it")
			} else {
				leave(name, "no cloud in the catalogue has it")
			}
		}
	}
	return notes
}
