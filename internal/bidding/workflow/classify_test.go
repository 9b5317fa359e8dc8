package workflow

import (
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Figure 3 of the paper has a fork and a join with chains between them. The chains are simple, except for tasks that
// are the only parent or child of a synchronisation task.
func TestClassifyMatchesFigure3(t *testing.T) {
	job := &dag.Job{}
	for range 8 {
		job.Tasks = append(job.Tasks, dag.Task{Nodes: 1, Recorded: time.Minute})
	}
	// 0 → 1, 1 forks to 2 and 3, 2 → 4, 4 and 3 join in 5, 5 → 6 → 7.
	for _, e := range [][2]int{{0, 1}, {1, 2}, {1, 3}, {2, 4}, {4, 5}, {3, 5}, {5, 6}, {6, 7}} {
		job.Edges = append(job.Edges, dag.Edge{From: e[0], To: e[1]})
	}
	got := classify(job.Graph(), len(job.Tasks))
	want := []bool{false, false, true, true, true, false, false, true}
	if !slices.Equal(got, want) {
		t.Errorf("simple tasks %v, want %v", got, want)
	}
}
