package drawn

import (
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// apps returns the labels of a world's tasks: few, so that tasks share them.
func apps() []string { return []string{"web", "db"} }

// Placement gives tasks of a job labels and placement rules about each other and tasks of other jobs.
func Placement(r timeline.Random, j *dag.Job) {
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if r.Chance(0.5) {
			t.Labels = map[string]string{"app": timeline.Pick(r, apps())}
		}
		if r.Chance(0.4) {
			t.Placement = append(t.Placement, dag.Placement{
				Apart: map[string]string{"app": timeline.Pick(r, apps())},
				By: timeline.Pick(r, []dag.Level{dag.LevelRegion, dag.LevelZone, dag.LevelZone, dag.LevelZone,
					dag.LevelRack,
					dag.LevelMachine, ""}),
			})
		}
		if t.Nodes > 1 && r.Chance(0.3) {
			t.Placement = append(t.Placement, timeline.Pick(r, []dag.Placement{
				{Spread: dag.LevelRack, Max: 2}, {Pack: dag.LevelRack}, {Pack: dag.LevelZone},
				{Spread: dag.LevelMachine},
			}))
		}
	}
	n := len(j.Tasks)
	if n < 2 || n > 20 || !r.Chance(0.7) {
		return
	}
	from := r.IntN(n - 1)
	to := min(n, from+2+r.IntN(4))
	rule := timeline.Pick(r, []dag.Placement{
		{Spread: dag.LevelZone}, {Spread: dag.LevelZone, Max: 2}, {Spread: dag.LevelRegion}, {Spread: dag.LevelRack},
		{Spread: dag.LevelMachine}, {Pack: dag.LevelZone}, {Pack: dag.LevelRack}, {Pack: dag.LevelRegion},
	})
	for i := from; i < to; i++ {
		rule.Of = append(rule.Of, j.Tasks[i].Name)
		if rule.Spread.Plannable() {
			rule.Max = max(rule.Max, j.Tasks[i].Nodes)
		}
	}
	j.Placement = []dag.Placement{rule}
	if _, err := j.CheckPlacement(); err != nil { // the rule contradicts a gang
		j.Placement = nil
	}
}
