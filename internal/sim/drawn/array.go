package drawn

import (
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

const (
	shareArrays = 0.2 // of jobs
	mostMembers = 5
)

// Arrays gives some jobs an array. Some of these also get a second array that waits for the first member by member,
// and a task that waits for all members. Some of these jobs continue after failures. With always, each job has an
// array of which one member runs at a time.
func Arrays(r timeline.Random, j *dag.Job, always bool) {
	if !r.Chance(shareArrays) && !always {
		return
	}
	var t dag.Task
	Task(r, &t)
	t.Nodes, t.Retries = 1+r.IntN(2), r.IntN(2)
	n := 2 + r.IntN(mostMembers-1)
	a := dag.Array{Name: "a", Size: n, MaxParallel: r.IntN(n), AllowFailures: r.IntN(3)}
	if always {
		a.MaxParallel = 1
	}
	first := addArray(j, a, t)
	if r.Chance(0.5) && j.Tasks[0].Joins == "" {
		for k := range n {
			j.Edges = append(j.Edges, dag.Edge{From: 0, To: first + k})
		}
	}
	last := first
	if r.Chance(0.5) {
		Task(r, &t)
		t.Nodes = 1
		last = addArray(j, dag.Array{Name: "b", Size: n, MaxParallel: r.IntN(n), AllowFailures: r.IntN(2)}, t)
		for k := range n {
			j.Edges = append(j.Edges, dag.Edge{From: first + k, To: last + k, Each: true, Data: dag.GiB(r.IntN(5))})
		}
	}
	if r.Chance(0.6) {
		t = dag.Task{Name: "z", Nodes: 1}
		Task(r, &t)
		z := len(j.Tasks)
		j.Tasks = append(j.Tasks, t)
		for k := range n {
			j.Edges = append(j.Edges, dag.Edge{From: last + k, To: z, All: true})
		}
	}
	j.MergeEdges()
	if j.CheckContinues() == nil && r.Chance(0.5) {
		j.OnFailure = dag.ContinueJob
	}
}

// addArray adds an array whose members are like a task. It returns the index of the first member.
func addArray(j *dag.Job, a dag.Array, t dag.Task) int {
	a.First, a.AllowFailures = len(j.Tasks), min(a.AllowFailures, a.Size)
	for k := range a.Size {
		t.Name = a.Member(k)
		j.Tasks = append(j.Tasks, t)
	}
	j.Arrays = append(j.Arrays, a)
	return a.First
}
