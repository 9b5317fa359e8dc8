package native_test

import (
	"slices"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

func parse(t *testing.T, text string) *dag.Job {
	t.Helper()
	j, err := native.Parse("job.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestPlacementRulesApplyToTheirTasks: a rule of a task applies to the task's machines. A rule of a gang applies to
// the machines of all roles and joining tasks. A rule of the job applies to the tasks that it names, or to all.
// Labels of the job apply to each task.
func TestPlacementRulesApplyToTheirTasks(t *testing.T) {
	j := parse(t, `
apiVersion: tradewind/v1
labels: {team: red, app: all}
placement:
  - {spread: zone, of: [web, train]}
  - {apart: {app: db}, by: zone, of: [web]}
  - {pack: region}
tasks:
  web: {run: x, labels: {app: web}, placement: {spread: rack}, nodes: 1}
  train:
    labels: {kind: training}
    gang:
      placement: [{spread: rack, max: 2}, {apart: {app: web}}]
      roles:
        master: {run: x}
        worker: {run: x, min: 1, max: 2}
`)
	if got := jobtext.LabelsText(j.Tasks[0].Labels); got != "app: web, team: red" {
		t.Errorf("web has labels %s", got)
	}
	if got := jobtext.LabelsText(j.Tasks[3].Labels); got != "app: all, kind: training, team: red" {
		t.Errorf("train.worker.1 has labels %s", got)
	}
	want := []string{
		"spread: rack, max: 2 [train.master train.worker train.worker.1]",
		"spread: zone [web train.master train.worker train.worker.1]",
		"pack: region [web train.master train.worker train.worker.1]",
		"spread: rack [web]",
	}
	var got []string
	for _, g := range j.Groups() {
		line := g.String() + " ["
		for k, i := range g.Tasks {
			if k > 0 {
				line += " "
			}
			line += j.Tasks[i].Name
		}
		got = append(got, line+"]")
	}
	if !slices.Equal(got, want) {
		t.Errorf("rules are\n%q, not\n%q", got, want)
	}
	if a := j.Tasks[0].ApartRules(); len(a) != 1 || a[0].String() != "apart: {app: db} by zone" {
		t.Errorf("web keeps apart by %v", a)
	}
	for i := 1; i < 4; i++ {
		if a := j.Tasks[i].ApartRules(); len(a) != 1 || a[0].String() != "apart: {app: web} by machine" {
			t.Errorf("%s keeps apart by %v", j.Tasks[i].Name, a)
		}
	}
}

// TestPackOfGangSetsWithin: `pack: zone` of a gang means `within: zone`, and `pack: rack` also means one zone.
func TestPackOfGangSetsWithin(t *testing.T) {
	for level, rules := range map[string]int{"zone": 0, "rack": 1} {
		j := parse(t, `
apiVersion: tradewind/v1
tasks:
  t:
    gang:
      placement: {pack: `+level+`}
      roles: {a: {run: x}, b: {run: x}}
`)
		if j.Tasks[0].Within != dag.WithinZone || j.Tasks[1].Within != dag.WithinZone || len(j.Placement) != rules {
			t.Errorf("%s: within %q and %q, rules %v", level, j.Tasks[0].Within, j.Tasks[1].Within, j.Placement)
		}
	}
}
