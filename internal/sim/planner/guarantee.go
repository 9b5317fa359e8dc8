package planner

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A planned attempt counts with PlannedOverhead beside the task's own time (to launch, boot and stage, and what comes
// between two tasks), and it takes up to PlannedDetect until a machine that went without a word is missed.
const (
	PlannedOverhead = 12 * time.Minute
	PlannedDetect   = 16 * time.Minute
)

// Guarantee is how much time a job must be given so that its deadline is one that has to be kept: its critical path on
// demand, each task on the slowest machine that suits it and with PlannedOverhead. It is a promise of the planner of
// this package, with which spot machines are used only as far as the job stays on time when each is taken at the end of
// its task.
//
// It holds in worlds where nothing but spot machines is scarce or taken, at any time and with or without a notice; of
// jobs without a budget and without a task that may run on spot machines only, in a queue without a quota.
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
