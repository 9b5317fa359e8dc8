package planner

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// The planner adds PlannedOverhead to the task's own time (to launch, boot and stage, and between two tasks), and
// assumes that the loss of a machine without notice is detected within PlannedDetect.
const (
	PlannedOverhead = 12 * time.Minute
	PlannedDetect   = 16 * time.Minute
)

// Guarantee returns the minimum time to a deadline that the planner of this package promises to meet: the job's
// critical path on demand, each task on the slowest suitable machine and with PlannedOverhead. The planner uses spot
// machines only as far as the job stays on time when each is taken at the end of its task.
//
// It holds in worlds in which only spot machines are scarce or taken, at any time and with or without a notice; for
// jobs without a budget and without a task that may run only on spot machines, in a queue without a quota.
func Guarantee(j *dag.Job) time.Duration {
	length, _, err := j.CriticalPath(func(i int) time.Duration {
		t := &j.Tasks[i]
		if t.StandIn() {
			return t.Recorded + PlannedOverhead
		}
		slowest := t.Time.Default
		for _, d := range t.Time.On {
			slowest = max(slowest, d)
		}
		return slowest + PlannedOverhead
	})
	if err != nil {
		return 0
	}
	return length
}
