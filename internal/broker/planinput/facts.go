package planinput

import (
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// Facts are the parts of a task's state that a plan cannot change.
type Facts struct {
	// Done means that the task's outputs are at Place. Fixed means that the task holds capacity at Place and needs
	// Hours more.
	Done, Fixed bool
	Place       string
	Hours       float64
	// Progress is the fraction of the work that a checkpoint has saved.
	Progress float64
	// OnDemand means that the task must not use spot any more, because it might miss its deadline.
	OnDemand bool
	// LostHours is the work that the task lost on spot machines, in hours.
	LostHours float64
}

// LeavesSpot reports whether a task must avoid spot machines if it may run on demand. wholeHours is the run time of
// its whole work on the machine in question. A task leaves spot if it might miss its deadline otherwise, or if it has
// already lost as many hours on spot as its whole work takes. Without the second rule, a task could pay for lost work
// without limit.
func (f *Facts) LeavesSpot(wholeHours float64) bool {
	return f.OnDemand || f.LostHours > 0 && f.LostHours >= wholeHours
}

// FactsOf returns the facts about a task: the place of a finished task's outputs, the machines of a running task, or
// the saved progress of a queued task.
func FactsOf(t record.Task, plan *record.Plan, now time.Time) *Facts {
	f := &Facts{Place: t.Place, Progress: t.Progress, OnDemand: t.OnDemand, LostHours: t.LostHours}
	switch t.State {
	case record.TaskSucceeded:
		f.Done = true
	case record.TaskAdmitted, record.TaskLaunching, record.TaskRunning:
		f.Fixed = t.Place != ""
		if t.Index < len(plan.TaskHours) {
			f.Hours = plan.TaskHours[t.Index]
		}
		if t.Hours > 0 {
			f.Hours = t.Hours
		}
		if t.State == record.TaskRunning {
			if c := plan.Of(t.Index); c != nil && t.Hours == 0 {
				f.Hours -= c.Offer.BootSeconds / time.Hour.Seconds() // it has booted
			}
			f.Hours = math.Max(f.Hours-record.Hours(now.Sub(t.StartedAt)), 0)
		}
	case record.TaskQueued, record.TaskFailed:
		f.Place = ""
	}
	return f
}

// nearlyDone is the maximum progress that is assumed for a joining task, if the task that it joins runs longer than
// expected.
const nearlyDone = 0.95

// WithLeads limits the time of tasks that join a gang to the time of the task that they join, because they finish
// with it.
func (in *Input) WithLeads() {
	for i := range in.Spec.Tasks {
		lead := in.Spec.Lead(i)
		if lead < 0 || in.Tasks[lead] == nil {
			continue
		}
		of := in.Tasks[lead]
		if in.Tasks[i] == nil {
			in.Tasks[i] = &Facts{}
		}
		switch f := in.Tasks[i]; {
		case of.Done:
			f.Done = true
		case f.Fixed && of.Fixed:
			f.Hours = min(f.Hours, of.Hours)
		case of.Fixed && in.Previous != nil && in.Previous.TaskHours[lead] > 0:
			f.Progress = max(f.Progress, min(1-of.Hours/in.Previous.TaskHours[lead], nearlyDone))
		}
	}
}
