package dag_test

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Validate a job that was not read from a file, and walk its tasks in order.
func ExampleJob_Validate() {
	machine := []dag.Resources{{CPUs: dag.Range{Min: 4}}}
	job := &dag.Job{
		Name: "two", Objective: dag.MinimizeCost, Format: dag.Native,
		Tasks: []dag.Task{
			{Name: "infer", Run: "python infer.py", Nodes: 1, Resources: machine},
			{Name: "train", Run: "python train.py", Nodes: 1, Resources: machine},
		},
		Edges: []dag.Edge{{From: 1, To: 0, Data: 2}},
	}
	fmt.Println(job.Validate())
	for _, task := range job.Order() {
		fmt.Println(job.Tasks[task].Name)
	}
	job.Edges = append(job.Edges, dag.Edge{From: 0, To: 1})
	fmt.Println(job.Validate())
	// Output:
	// <nil>
	// train
	// infer
	// tasks.infer.after: tasks wait for each other: infer → train → infer (remove one of these dependencies)
}
