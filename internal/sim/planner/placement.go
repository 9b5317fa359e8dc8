package planner

import (
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// How this planner follows placement rules: it places one task after the other, each at its cheapest place given the
// earlier ones. If a task has no possible place, the previous task is moved to another one. A job whose own rules
// cannot be satisfied has no plan. The planner ignores the rules if some tasks of the job already run, or if only
// other jobs are in the way. The broker then enforces the rules.

// site returns the place of an option or a running task at a level.
func site(region, zone string, level dag.Level) string {
	if level == dag.LevelRegion {
		return region
	}
	return region + "/" + zone
}

func (c choice) site(level dag.Level) string { return site(c.Cloud+":"+c.Region, c.Zone, level) }

// currentSite returns the place of a running task of the job, or an empty text if the task does not run.
func (g *planning) currentSite(task int, level dag.Level) string {
	for _, p := range g.in.Stood {
		if p.Job == g.in.Job && p.Task == task && !g.facts(task).Done {
			return site(p.Spots[0].Region, p.Spots[0].Zone, level)
		}
	}
	return ""
}

// filterOptions removes a task's options that fail a test, unless all fail.
func (g *planning) filterOptions(task int, test func(choice) bool) {
	kept := slices.DeleteFunc(slices.Clone(g.options[task]), func(c choice) bool { return !test(c) })
	if len(kept) > 0 {
		g.options[task] = kept
	}
}

// keepRules removes options that placement rules forbid.
func (g *planning) keepRules() {
	if !record.IsPlaced(g.in.Spec) {
		return
	}
	rules := slices.DeleteFunc(g.in.Spec.Groups(), func(r dag.PlacementGroup) bool {
		return r.Pack == "" && !r.Spread.Plannable()
	})
	begins := !slices.ContainsFunc(rules, func(r dag.PlacementGroup) bool {
		return slices.ContainsFunc(r.Tasks, func(i int) bool {
			return g.facts(i).Fixed || g.currentSite(i, dag.LevelZone) != ""
		})
	})
	if begins && g.optionsFor(rules) == nil {
		g.message = "no places satisfy the placement rules of its tasks"
		return
	}
	for i := range g.options {
		g.keepApart(i)
		if at := g.currentSite(i, dag.LevelZone); at != "" {
			g.filterOptions(i, func(c choice) bool { return c.site(dag.LevelZone) == at })
		}
	}
	at := g.optionsFor(rules)
	for _, rule := range rules {
		for _, i := range rule.Tasks {
			if spot, is := at[i]; is {
				g.filterOptions(i, func(c choice) bool { return c.site(far(&rule)) == spot.site(far(&rule)) })
			}
		}
	}
}

// far returns the level at which this planner enforces a rule.
func far(r *dag.PlacementGroup) dag.Level {
	if r.Level() == dag.LevelRegion {
		return dag.LevelRegion
	}
	return dag.LevelZone
}

// optionsFor finds options for the tasks of the rules with which all of the rules hold, or nil.
func (g *planning) optionsFor(rules []dag.PlacementGroup) map[int]choice {
	var tasks []int
	for _, rule := range rules {
		tasks = append(tasks, rule.Tasks...)
	}
	slices.Sort(tasks)
	tasks = slices.DeleteFunc(slices.Compact(tasks), func(i int) bool {
		return len(g.options[i]) == 0 || g.currentSite(i, dag.LevelZone) != ""
	})
	at := map[int]choice{}
	var place func(rest []int) bool
	place = func(rest []int) bool {
		if len(rest) == 0 {
			return true
		}
		tried := map[string]bool{}
		for _, c := range g.options[rest[0]] {
			if zone := c.site(dag.LevelZone); tried[zone] {
				continue
			} else {
				tried[zone] = true
			}
			at[rest[0]] = c
			if !slices.ContainsFunc(rules, func(r dag.PlacementGroup) bool { return g.violates(&r, rest[0], at) }) &&
				place(rest[1:]) {
				return true
			}
		}
		delete(at, rest[0])
		return false
	}
	if !place(tasks) {
		return nil
	}
	return at
}

// violates reports whether the place of a task breaks a rule, given the tasks already placed or running.
func (g *planning) violates(rule *dag.PlacementGroup, task int, at map[int]choice) bool {
	if !rule.Has(task) {
		return false
	}
	level := far(rule)
	mine, nodes := at[task].site(level), g.in.Spec.Tasks[task].Nodes
	for _, i := range rule.Tasks {
		if i == task {
			continue
		}
		other := g.currentSite(i, level)
		if c, is := at[i]; is {
			other = c.site(level)
		}
		switch {
		case other == "":
		case rule.Pack != "" && other != mine:
			return true
		case rule.Pack == "" && other == mine:
			nodes += g.in.Spec.Tasks[i].Nodes
		}
	}
	return rule.Pack == "" && nodes > rule.MaxPerPlace()
}

// keepApart removes the options of a task at places of other tasks, if one of the two tasks must be apart from the
// other.
func (g *planning) keepApart(task int) {
	t := &g.in.Spec.Tasks[task]
	g.filterOptions(task, func(c choice) bool {
		spot := record.Spot{Region: c.Cloud + ":" + c.Region, Zone: c.Zone, Count: 1}
		mine := record.LocationOf(t, []record.Spot{spot}, g.in.Now)
		return len(record.Clashes(nil, g.in.Job, task, mine, g.in.Stood)) == 0
	})
}
