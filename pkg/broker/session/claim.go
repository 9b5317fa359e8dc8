package session

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// claimOf names what room is made for, and what is stopped for it: a task, or a gang as a whole.
func claimOf(job, task, gang string) string {
	if gang != "" {
		return job + record.GangMark + gang
	}
	return job + "/" + task
}

// yielded are the claims that a waiting task, or any of its gang, was stopped for. It never stops those in turn.
func (a admission) yielded() []string {
	if a.gang == nil {
		return a.task.YieldedTo
	}
	var all []string
	for _, m := range a.gang.members {
		all = append(all, m.task.YieldedTo...)
	}
	return all
}

// parted divides waiting tasks into those that room has been made for and the others.
func parted(candidates []admission, now time.Time) (claimed, others []admission) {
	for _, a := range candidates {
		if a.queue.Claimed(a.claim(), now) {
			claimed = append(claimed, a)
		} else {
			others = append(others, a)
		}
	}
	return claimed, others
}
