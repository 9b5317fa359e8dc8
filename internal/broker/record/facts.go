package record

import (
	"math"
	"time"
)

// nearlyDone is the maximum progress assumed for a joining task whose lead runs longer than expected.
const nearlyDone = 0.95

// WithLeads limits the time of tasks that join a gang to that of the task they join: they finish with it.
func (in *PlanInput) WithLeads() {
	for i := range in.Spec.Tasks {
		lead := in.Spec.Lead(i)
		if lead < 0 || in.Tasks[lead] == nil {
			continue
		}
		of := in.Tasks[lead]
		if in.Tasks[i] == nil {
			in.Tasks[i] = &TaskFacts{}
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

// FactsOf returns what is already fixed about a task: a finished one has its outputs somewhere, a running one holds
// its machines, a queued one has the progress that it saved.
func FactsOf(t Task, plan *Plan, now time.Time) *TaskFacts {
	f := &TaskFacts{Place: t.Place, Progress: t.Progress, OnDemand: t.OnDemand}
	switch t.State {
	case TaskSucceeded:
		f.Done = true
	case TaskAdmitted, TaskLaunching, TaskRunning:
		f.Fixed = t.Place != ""
		if t.Index < len(plan.TaskHours) {
			f.Hours = plan.TaskHours[t.Index]
		}
		if t.Hours > 0 {
			f.Hours = t.Hours
		}
		if t.State == TaskRunning {
			f.Hours = math.Max(f.Hours-Hours(now.Sub(t.StartedAt)), 0)
		}
	case TaskQueued, TaskFailed:
		f.Place = ""
	}
	return f
}
