package record

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// maxSuspensions is the number of suspensions that a job's record keeps.
const maxSuspensions = 16

// maxHeard is the maximum number of idempotency keys that FirstHeard remembers.
const maxHeard = 16

// FirstHeard reports whether a request is new, and remembers its key. A request without a key is always new.
func FirstHeard(h *apitypes.IdempotencyKeys, key string) bool {
	switch {
	case key == "":
		return true
	case slices.Contains(*h, key):
		return false
	}
	*h = append(slices.Clone((*h)[max(len(*h)+1-maxHeard, 0):]), key)
	return true
}

// Suspended is the current suspension of a job, or nil.
func (j *Job) Suspended() *apitypes.Suspension {
	if n := len(j.Suspensions); n > 0 && j.Suspensions[n-1].Until.IsZero() {
		return &j.Suspensions[n-1]
	}
	return nil
}

// Suspend suspends the job. It reports whether anything changed.
func (j *Job) Suspend(s apitypes.Suspension) bool {
	if j.Suspended() != nil {
		return false
	}
	first := max(len(j.Suspensions)+1-maxSuspensions, 0)
	j.Suspensions = append(slices.Clone(j.Suspensions[first:]), s)
	return true
}

// Resume resumes the job. If it has a deadline, its tasks need a new plan for the remaining time. It reports whether
// anything changed.
func (j *Job) Resume(by string, now time.Time) bool {
	if j.Suspended() == nil {
		return false
	}
	j.Suspensions = slices.Clone(j.Suspensions)
	last := &j.Suspensions[len(j.Suspensions)-1]
	last.Until, last.ResumedBy = now, by
	if !j.Deadline.IsZero() && !j.Plan.IsZero() {
		j.MinPlan = j.Plan.Version + 1
	}
	return true
}

// Resumed returns the time at which the job was last resumed, or zero. Waiting before that time does not count in its
// queue.
func (j *Job) Resumed() time.Time {
	for _, s := range slices.Backward(j.Suspensions) {
		if !s.Until.IsZero() {
			return s.Until
		}
	}
	return time.Time{}
}

// WaitsSince returns the time from which a task of the job counts as waiting. Time before the last resume does not
// count.
func (j *Job) WaitsSince(w apitypes.Waiting) time.Time {
	if resumed := j.Resumed(); resumed.After(w.Since) {
		return resumed
	}
	return w.Since
}

// WaitingOrder returns the waiting tasks of a queue in the order for users: more urgent tasks first, then those that
// have waited longer. It sets Since to the time that counts. It omits tasks of suspended jobs, because they block no
// other task, except those of the job asks.
func WaitingOrder(
	waiting []apitypes.Waiting,
	asks string,
	job func(id string) (Job, error),
) (line []apitypes.Waiting, err error) {
	for _, w := range waiting {
		j, err := job(w.Job)
		if err != nil {
			return nil, err
		}
		if w.Since = j.WaitsSince(w); j.Suspended() == nil || w.Job == asks {
			line = append(line, w)
		}
	}
	slices.SortStableFunc(line, apitypes.Waiting.Compare)
	return line, nil
}

// DrainedBy returns the suspension of a queue, or of a queue above it, that makes running tasks save their work and
// wait. It returns nil if there is none.
func DrainedBy(queues map[string]*apitypes.Queue, name string) *apitypes.Suspension {
	for range MaxTree {
		q := queues[name]
		if q == nil {
			break
		}
		if q.Closed && q.Suspended.Drain {
			return &q.Suspended
		}
		name = q.Parent
	}
	return nil
}
