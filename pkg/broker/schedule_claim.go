package broker

import (
	"slices"
	"time"
)

// Claim says that others were stopped to make room for a task, or a gang: what comes free is kept for it, and for
// nobody else, until it is admitted or the claim lapses.
type Claim struct {
	For   string    `json:"for"` // see claimOf
	Until time.Time `json:"until"`
}

// claimOf names what room is made for, and what is stopped for it: a task, or a gang as a whole.
func claimOf(job, task, gang string) string {
	if gang != "" {
		return job + gangMark + gang
	}
	return job + "/" + task
}

// claim keeps what comes free for a claim until a time; what has lapsed is forgotten.
func (q *Queue) claim(name string, now, until time.Time) {
	q.unclaim(name)
	q.Claims = slices.DeleteFunc(q.Claims, func(c Claim) bool { return !now.Before(c.Until) })
	q.Claims = append(q.Claims, Claim{For: name, Until: until})
}

// unclaim ends a claim.
func (q *Queue) unclaim(name string) {
	q.Claims = slices.DeleteFunc(slices.Clone(q.Claims), func(c Claim) bool { return c.For == name })
}

// claimed says whether room has been made for a claim.
func (q *Queue) claimed(name string, now time.Time) bool {
	return slices.ContainsFunc(q.Claims, func(c Claim) bool { return c.For == name && now.Before(c.Until) })
}

// maxDoublings keeps the time that a task keeps its machines from overflowing.
const maxDoublings = 16

// keeps is how long a task keeps its machines from when it runs on them before they may be another's: as long as a
// start elsewhere takes, so that it has done more than it loses, and twice as long each time that it was stopped.
// So a task is stopped no more often than its work can be halved down to a start.
func (t Task) keeps(restart time.Duration) time.Duration {
	return restart << min(len(t.YieldedTo), maxDoublings)
}

// canGo says whether a cluster can be told to save its work and stop for others.
func (l losing) canGo(restart time.Duration, now time.Time) bool {
	return l.cl.State == ClusterUp && l.cl.Outcome == "" && l.task.State == TaskRunning && l.task.Attempt == l.cl.Attempt &&
		now.Sub(l.cl.Running) >= l.task.keeps(restart)
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
		if a.queue.claimed(a.claim(), now) {
			claimed = append(claimed, a)
		} else {
			others = append(others, a)
		}
	}
	return claimed, others
}
