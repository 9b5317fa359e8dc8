// Package drawn generates jobs from a seed's random numbers: their tasks and edges, requirements, and limits.
package drawn

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Shape draws the tasks and edges of a job.
func Shape(r timeline.Random, j *dag.Job) {
	edge := func(from, to int) { j.Edges = append(j.Edges, dag.Edge{From: from, To: to, Data: dag.GiB(r.IntN(20))}) }
	tasks := func(n int) {
		for i := range n {
			j.Tasks = append(j.Tasks, dag.Task{Name: fmt.Sprintf("t%d", i), Nodes: 1})
		}
	}
	switch shape := r.IntN(100); {
	case shape < 15: // one task
		tasks(1)
	case shape < 40: // a chain
		tasks(2 + r.IntN(4))
		for i := 1; i < len(j.Tasks); i++ {
			edge(i-1, i)
		}
	case shape < 65: // fork and join
		tasks(3 + r.IntN(6))
		for i := 1; i < len(j.Tasks)-1; i++ {
			edge(0, i)
			edge(i, len(j.Tasks)-1)
		}
	case shape < 99: // layers
		tasks(4 + r.IntN(7))
		for i := 1; i < len(j.Tasks); i++ {
			for p := max(0, i-4); p < i; p++ {
				if r.Chance(0.35) {
					edge(p, i)
				}
			}
		}
	default: // wider than one transaction
		tasks(64 + r.IntN(16))
		for i := 1; i < len(j.Tasks); i += 9 {
			edge(0, i)
		}
	}
	j.MergeEdges()
}

// Task draws the requirements, duration and outputs of a task.
func Task(r timeline.Random, t *dag.Task) {
	span := r.Spread(2*time.Minute, 90*time.Minute)
	if r.Chance(0.2) {
		t.Nodes = 2 + r.IntN(3)
	}
	res := dag.Resources{}
	switch r.IntN(10) {
	case 0:
		res.Market = dag.MarketOnDemand
	case 1:
		res.Market = dag.MarketSpot
	case 2:
		res.Cloud = timeline.Pick(r, weather.CloudNames())
	case 3:
		res.CPUs = dag.Range{Min: 8}
	}
	t.Resources = []dag.Resources{res}
	if r.Chance(0.3) {
		t.Recorded = span
		t.Time.Default = span
	} else {
		t.Run = "work"
		t.Time.Default = span
		if r.Chance(0.3) {
			t.Time.On = map[string]time.Duration{}
			for _, big := range weather.BigTypes() {
				t.Time.On[big] = span / 3
			}
		}
		t.Retries = r.IntN(3)
	}
	if r.Chance(0.6) {
		t.Checkpoint = &dag.Checkpoint{Every: r.Spread(3*time.Minute, 30*time.Minute), Path: "ckpt/"}
		if r.Chance(0.2) {
			t.Checkpoint.Every = 0
		}
	}
	if r.Chance(0.5) {
		t.Outputs = []dag.Output{{Name: "out", Size: dag.GiB(1 + r.IntN(5))}}
	}
}

// Accelerated makes the tasks of some jobs request an accelerator, or a share of one, which pool machines can
// provide.
func Accelerated(r timeline.Random, j *dag.Job) {
	if !r.Chance(0.1) {
		return
	}
	for i := range j.Tasks {
		if res := &j.Tasks[i].Resources[0]; r.Chance(0.5) {
			res.Accelerator, res.AcceleratorCount = weather.Fast, timeline.Pick(r, []float64{0.5, 1, 1})
		}
	}
}

// few is the maximum number of tasks that share a quota: more would take longer than a world lasts.
const few = 6

// Packed makes a job's tasks suitable for sharing pool machines: several sizes, some hours of duration, and no other
// limits.
func Packed(r timeline.Random, j *dag.Job) {
	j.Objective, j.Queue = dag.MinimizeCost, ""
	if len(j.Tasks) < few {
		j.Queue = timeline.Pick(r, []string{"", "", "cpus"})
	}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		t.Nodes, t.Resources = 1, []dag.Resources{{CPUs: dag.Range{Min: timeline.Pick(r, []float64{3, 4, 5, 8})}}}
		if r.Chance(0.1) {
			t.Nodes = 2
		}
		t.Time.Default, t.Time.On = r.Spread(30*time.Minute, 4*time.Hour), nil
		if t.Recorded > 0 {
			t.Recorded = t.Time.Default
		}
		if r.Chance(0.5) {
			t.Checkpoint = &dag.Checkpoint{Every: r.Spread(3*time.Minute, 30*time.Minute), Path: "ckpt/"}
		}
	}
}

// Limits gives some jobs a deadline or a budget.
func Limits(r timeline.Random, j *dag.Job, onTime bool) {
	if onTime && r.Chance(0.6) {
		j.Deadline = time.Duration(float64(planner.Guarantee(j))*r.Uniform(1, 3)).Round(time.Second) + time.Second
		return
	}
	if r.Chance(0.5) {
		j.Deadline = time.Duration(float64(planner.Guarantee(j)) * r.Uniform(0.8, 4)).Round(time.Second)
	}
	if r.Chance(0.4) {
		usd := 0.0
		for i := range j.Tasks {
			rate := 0.07
			if j.Tasks[i].Resources[0].Accelerator != "" {
				rate = weather.FastUSD
			}
			usd += j.Tasks[i].Time.Default.Hours() * rate * float64(j.Tasks[i].Nodes)
		}
		j.Budget = dag.USD(usd * r.Uniform(0.9, 4))
	}
}
