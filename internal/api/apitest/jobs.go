package apitest

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Training is a job of six tasks: two shards are prepared, a model is trained on both, and the model is then
// evaluated, used and exported.
func Training() *dag.Job {
	cpu := func(name string, minutes int) dag.Task {
		return dag.Task{
			Name: name, Run: "./" + name + ".sh", Nodes: 1, Resources: []dag.Resources{{CPUs: dag.Range{Min: 8}}},
			Time: dag.TimeEstimate{Default: time.Duration(minutes) * time.Minute},
		}
	}
	train := dag.Task{
		Name: "train", Nodes: 2, Resources: []dag.Resources{{Accelerator: "V100", AcceleratorCount: 1}},
		Recorded: 150 * time.Minute, Time: dag.TimeEstimate{Default: 150 * time.Minute},
		Checkpoint: &dag.Checkpoint{Every: 15 * time.Minute, Path: "ckpt/"},
	}
	return &dag.Job{
		Name: "train-infer", Objective: dag.MinimizeCost, Deadline: 6 * time.Hour, Budget: 40, Queue: "research",
		Format: dag.Native, Tasks: []dag.Task{cpu("prepare-a", 20), cpu("prepare-b", 25), train, cpu("evaluate", 15),
			cpu("infer", 40), cpu("export", 10)},
		Edges: []dag.Edge{{From: 0, To: 2}, {From: 1, To: 2}, {From: 2, To: 3}, {From: 2, To: 4}, {From: 3, To: 5},
			{From: 4, To: 5}},
	}
}

// Wide is a job of three levels: one task, n tasks that wait for it, and one task that waits for those.
func Wide(name string, n int) *dag.Job {
	task := func(name string) dag.Task {
		return dag.Task{
			Name: name, Run: "true", Nodes: 1, Resources: []dag.Resources{{}},
			Time: dag.TimeEstimate{Default: 6 * time.Minute},
		}
	}
	job := &dag.Job{Name: name, Objective: dag.MinimizeMakespan, Format: dag.Native, Tasks: []dag.Task{task("split")}}
	for i := range n {
		job.Tasks = append(job.Tasks, task(fmt.Sprintf("project-%04d", i)))
		job.Edges = append(job.Edges, dag.Edge{From: 0, To: i + 1}, dag.Edge{From: i + 1, To: n + 1})
	}
	job.Tasks = append(job.Tasks, task("merge"))
	return job
}
