package planner

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// changeTask changes nothing, or one property of a task on which its options may depend.
func changeTask(t *rapid.T, task *dag.Task) {
	switch rapid.IntRange(0, 7).Draw(t, "change") {
	case 0:
		task.Nodes = 2
	case 1:
		task.Time.Default = time.Minute
	case 2:
		task.Time.Speed = 1.5
	case 3:
		task.Time.On = map[string]time.Duration{"m5.2xlarge": time.Duration(rapid.IntRange(1, 2).Draw(t, "on")) * time.Minute}
	case 4:
		task.Resources = []dag.Resources{{CPUs: dag.Range{Min: 8}, Cloud: "aws"}}
	case 5:
		task.Checkpoint = &dag.Checkpoint{Every: time.Minute}
	case 6:
		task.Outputs = []dag.Output{{Size: 100}}
	}
}

func drawTask(t *rapid.T) dag.Task {
	task := dag.Task{
		Nodes: 1, Time: dag.TimeEstimate{Default: time.Hour},
		Resources: []dag.Resources{{CPUs: dag.Range{Min: 2}, Cloud: "aws"}},
	}
	for range rapid.IntRange(0, 2).Draw(t, "changes") {
		changeTask(t, &task)
	}
	return task
}

// TestTasksShareOptionsOnlyIfEqual: equal tasks share one list of options. It must equal the options that are
// computed for each task alone.
func TestTasksShareOptionsOnlyIfEqual(t *testing.T) {
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	opt := DefaultOptions()
	opt.Stores = config.Stores{URLs: map[string]string{"aws:us-east-1": "s3://bucket"}, Moves: moves}
	p := New(c, moves, opt)
	sharing := 0
	rapid.Check(t, func(t *rapid.T) {
		spec := &dag.Job{Name: "drawn", Objective: dag.MinimizeCost,
			Tasks: rapid.SliceOfN(rapid.Custom(drawTask), 2, 20).Draw(t, "tasks")}
		for i := range spec.Tasks {
			spec.Tasks[i].Name = string(rune('a' + i))
		}
		in := planinput.Input{Spec: spec, Tasks: make([]*planinput.Facts, len(spec.Tasks))}
		if rapid.Bool().Draw(t, "deadline") {
			in.DeadlineHours = new(float64)
			*in.DeadlineHours = 100
		}
		if rapid.Bool().Draw(t, "started") {
			in.Tasks[0] = &planinput.Facts{Progress: 0.5}
		}
		b, err := p.build(in, nil, nil)
		if err != nil || b.message != "" {
			t.Fatal(err, b.message)
		}
		weight := b.edgeWeights()
		for _, row := range b.rows {
			if want := b.candidates(row.task, row.class, weight[row.task]); !slices.Equal(row.options, want) {
				t.Fatalf("task %d has the options of another task", row.task)
			}
			for _, same := range []bool{false, true} {
				as := stay{row.options[0].Place, row.options[0].expected, row.options[0].USD}
				for range 2 {
					if got, want := b.onDemand(row.task, as, same), b.findOnDemand(row.task, as, same); got != want {
						t.Fatalf("task %d costs %+v on demand, not %+v", row.task, want, got)
					}
				}
			}
		}
		if len(b.lists) < len(b.rows)-1 {
			sharing++
		}
	})
	if sharing == 0 && !testing.Short() {
		t.Error("no job had tasks with equal options")
	}
}
