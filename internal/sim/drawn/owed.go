package drawn

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Frail makes a job lose much work on spot machines: its tasks save nothing.
func Frail(j *dag.Job) {
	for i := range j.Tasks {
		j.Tasks[i].Checkpoint = nil
	}
}

// late is the number of the job that is submitted to the second queue.
const late = 1

// Siblings puts a job into one of two queues with a common parent. All jobs but one are in the first queue, so the
// second queue gets its deserved capacity only if tasks are stopped for it. The jobs' independent tasks run for a
// long time.
func Siblings(r timeline.Random, j *dag.Job, number int) {
	n := 1 + r.IntN(4)
	if j.Queue = "small"; number == late {
		j.Queue, n = "cpus", few
	}
	j.Edges, j.Objective, j.Priority, j.Tasks, j.Arrays = nil, dag.MinimizeCost, 0, nil, nil
	j.OnFailure = ""
	for i := range n {
		t := dag.Task{Name: fmt.Sprintf("t%d", i), Run: "work", Nodes: 1, Resources: []dag.Resources{{}},
			Checkpoint: &dag.Checkpoint{Every: r.Spread(3*time.Minute, 30*time.Minute), Path: "ckpt/"}}
		t.Time.Default = r.Spread(time.Hour, 2*time.Hour)
		j.Tasks = append(j.Tasks, t)
	}
}

// SiblingAfter draws the time at which such a job is submitted. The job in the second queue often comes so soon that
// running tasks may not be stopped yet.
func SiblingAfter(r timeline.Random, number int) time.Duration {
	if number != late {
		return r.Between(0, time.Minute)
	}
	return r.Spread(3*time.Minute, 15*time.Minute)
}
