package planner

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// The rules of placement as this planner keeps to them: task after task, each where it is cheapest beside those before
// it. Where a rule leaves a task nothing it is planned as if there were none: that it does not hold is the broker's
// care.

// site is where an option, or a task that stands somewhere, is on a level.
func site(region, zone string, level dag.Level) string {
	if level == dag.LevelRegion {
		return region
	}
	return region + "/" + zone
}

func (c choice) site(level dag.Level) string { return site(c.Cloud+":"+c.Region, c.Zone, level) }

// stands is where a task of the job stands; empty where it does not.
func (g *planning) stands(task int, level dag.Level) string {
	for _, p := range g.in.Stood {
		if p.Job == g.in.Job && p.Task == task && !g.facts(task).Done {
			return site(p.Spots[0].Region, p.Spots[0].Zone, level)
		}
	}
	return ""
}

// only leaves a task the options that pass a test, if there are any.
func (g *planning) only(task int, test func(choice) bool) {
	kept := slices.DeleteFunc(slices.Clone(g.options[task]), func(c choice) bool { return !test(c) })
	if len(kept) > 0 {
		g.options[task] = kept
	}
}

// keepRules leaves tasks the options that rules of placement allow.
func (g *planning) keepRules() {
	if !record.IsPlaced(g.in.Spec) {
		return
	}
	for i := range g.options {
		g.keepApart(i)
		if at := g.stands(i, dag.LevelZone); at != "" {
			g.only(i, func(c choice) bool { return c.site(dag.LevelZone) == at })
		}
	}
	for _, rule := range g.in.Spec.Groups() {
		level := dag.LevelZone
		if rule.Level() == dag.LevelRegion {
			level = dag.LevelRegion
		}
		switch {
		case rule.Pack != "":
			g.keepPacked(rule.Tasks, level)
		case rule.Spread.Far():
			g.keepSpread(rule.Tasks, level, rule.Most())
		}
	}
}

// keepApart leaves out where others are that the task, or they, keep apart from.
func (g *planning) keepApart(task int) {
	t := &g.in.Spec.Tasks[task]
	g.only(task, func(c choice) bool {
		spot := record.Spot{Region: c.Cloud + ":" + c.Region, Zone: c.Zone, Count: 1}
		mine := record.StandOf(t, []record.Spot{spot}, g.in.Now)
		return len(record.Clashes(nil, g.in.Job, task, mine, g.in.Stood)) == 0
	})
}

func (g *planning) keepSpread(tasks []int, level dag.Level, most int) {
	used := map[string]int{}
	for _, i := range tasks {
		if at := g.stands(i, level); at != "" {
			used[at] += g.in.Spec.Tasks[i].Nodes
		}
	}
	for _, i := range tasks {
		if len(g.options[i]) == 0 || g.stands(i, level) != "" {
			continue
		}
		nodes := g.in.Spec.Tasks[i].Nodes
		g.only(i, func(c choice) bool { return used[c.site(level)]+nodes <= most })
		at := g.options[i][0].site(level)
		g.only(i, func(c choice) bool { return c.site(level) == at })
		used[at] += nodes
	}
}

func (g *planning) keepPacked(tasks []int, level dag.Level) {
	at := ""
	for _, i := range tasks {
		if s := g.stands(i, level); s != "" {
			at = s
		}
	}
	if at == "" {
		at = g.common(tasks, level)
	}
	for _, i := range tasks {
		g.only(i, func(c choice) bool { return c.site(level) == at })
	}
}

// common is the first site at which each of some tasks has an option, the cheapest of the first that is to be planned;
// empty is none.
func (g *planning) common(tasks []int, level dag.Level) string {
	first := slices.IndexFunc(tasks, func(i int) bool { return len(g.options[i]) > 0 })
	if first < 0 {
		return ""
	}
	for _, c := range g.options[tasks[first]] {
		at := c.site(level)
		if !slices.ContainsFunc(tasks, func(i int) bool {
			return len(g.options[i]) > 0 &&
				!slices.ContainsFunc(g.options[i], func(o choice) bool { return o.site(level) == at })
		}) {
			return at
		}
	}
	return ""
}
