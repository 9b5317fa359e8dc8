package record

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// maxSuspensions bounds what a job's record remembers of them.
const maxSuspensions = 16

// maxHeard bounds how many are remembered.
const maxHeard = 16

// FirstHeard says whether a request was not heard before, and remembers it. One without a key is always new.
func FirstHeard(h *apitypes.Heard, key string) bool {
	switch {
	case key == "":
		return true
	case slices.Contains(*h, key):
		return false
	}
	*h = append(slices.Clone((*h)[max(len(*h)+1-maxHeard, 0):]), key)
	return true
}

// Suspended is the suspension that a job is under; nil where it is under none.
func (j *Job) Suspended() *apitypes.Suspension {
	if n := len(j.Suspensions); n > 0 && j.Suspensions[n-1].Until.IsZero() {
		return &j.Suspensions[n-1]
	}
	return nil
}

// Suspend has the job wait. It says whether that changes anything.
func (j *Job) Suspend(s apitypes.Suspension) bool {
	if j.Suspended() != nil {
		return false
	}
	first := max(len(j.Suspensions)+1-maxSuspensions, 0)
	j.Suspensions = append(slices.Clone(j.Suspensions[first:]), s)
	return true
}

// Resume has the job go on. Where it has a deadline, it does so by a plan of the time that is left. It says whether
// that changes anything.
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

// Resumed is when the job was last resumed; zero where it never was. What it waited before counts for nothing in its
// queue.
func (j *Job) Resumed() time.Time {
	for _, s := range slices.Backward(j.Suspensions) {
		if !s.Until.IsZero() {
			return s.Until
		}
	}
	return time.Time{}
}

// WaitsSince is from when on one of the job's tasks counts as waiting: what it waited while the job was suspended gives
// it no right.
func (j *Job) WaitsSince(w apitypes.Waiting) time.Time {
	if resumed := j.Resumed(); resumed.After(w.Since) {
		return resumed
	}
	return w.Since
}

// Line is the order in which tasks wait in a queue, as those who wait there are told: the more urgent come first, then
// those that have waited for longer, which Since says of each. Those of suspended jobs are in nobody's way and left
// out, but for one job's, which is the one that asks.
func Line(waiting []apitypes.Waiting, asks string, job func(id string) (Job, error)) (line []apitypes.Waiting, err error) {
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

// DrainedBy is the suspension by which a queue, or one above it, has what runs in it save its work and wait; nil where
// none does.
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
