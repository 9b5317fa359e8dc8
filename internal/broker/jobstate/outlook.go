package jobstate

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// outlook is the effect of a job's failures on one of its tasks.
type outlook byte

const (
	open    outlook = iota // the task has succeeded, or will run
	excused                // the task has failed or cannot run, which its array or another array allows
	lost                   // the task has failed or cannot run, so the job fails
)

// outlooks returns the outlook of each task by the tasks' phases. It returns nil if no task has failed for good.
func outlooks(st Advancing) []outlook {
	phases := st.Progress.Phases
	if bytes.IndexByte(phases, record.PhaseFailed) < 0 {
		return nil
	}
	out := make([]outlook, len(phases))
	for i, phase := range phases {
		switch phase {
		case record.PhaseFailed, record.PhaseSkipped:
			out[i] = lost
		case record.PhaseExcused:
			out[i] = excused
		}
	}
	for k := range st.Job.Arrays {
		a := &st.Job.Arrays[k]
		if a.AllowFailures == 0 || failures(st, k) > a.AllowFailures {
			continue
		}
		for i := a.First; i < a.First+a.Size; i++ {
			if phases[i] == record.PhaseFailed {
				out[i] = excused
			}
		}
	}
	return out
}

// failures counts the members of an array that have failed for good.
func failures(st Advancing, array int) int {
	a := &st.Job.Arrays[array]
	return bytes.Count(st.Progress.Phases[a.First:a.First+a.Size], []byte{record.PhaseFailed})
}

// skip marks the tasks that will not run because of a failure, and returns the outlook of each task. A task that
// depends on a failed one does not run, unless it waits for a whole array that allows the failure.
func skip(st Advancing) []outlook {
	phases, out, g := st.Progress.Phases, outlooks(st), st.Spec.Graph()
	for _, i := range st.Spec.Order() {
		if int(i) >= len(phases) {
			continue // a worker
		}
		switch phases[i] {
		case record.PhaseSucceeded, record.PhaseReady, record.PhaseChunked, record.PhaseFailed:
			continue
		}
		out[i] = open // a task that was excused may be lost now
		for _, k := range g.In(i) {
			e := &st.Spec.Edges[k]
			if from := out[e.From]; from == lost || from == excused && !e.All {
				out[i] = max(out[i], from)
			}
		}
		switch out[i] {
		case lost:
			phases[i] = record.PhaseSkipped
		case excused:
			phases[i] = record.PhaseExcused
		case open:
		}
	}
	return out
}

// met reports whether a dependency is fulfilled, so that it no longer holds its task back.
func met(phases []byte, out []outlook, e *dag.Edge) bool {
	return phases[e.From] == record.PhaseSucceeded || out != nil && e.All && out[e.From] == excused
}

// decideNext reacts to the end of one or more tasks. It announces the given tasks that are ready. If no task is left,
// it ends the job.
func decideNext(st Advancing, tasks []int32, out []outlook) (d record.Decision) {
	phases := st.Progress.Phases
	if slices.ContainsFunc(phases, record.IsOpen) {
		return announce(st, tasks, out)
	}
	outcome, reason := outcomeOf(st, out)
	d = decideEnding(st.Job, outcome, reason)
	d.Put(record.ProgressKey(st.Job.ID), st.Progress.Packed())
	return d
}

// outcomeOf returns the outcome of a job that has no more tasks to run, and the reason.
func outcomeOf(st Advancing, out []outlook) (apitypes.JobState, string) {
	if !slices.Contains(out, lost) {
		return apitypes.JobSucceeded, ""
	}
	reason := st.Progress.Reason
	if n := bytes.Count(st.Progress.Phases, []byte{record.PhaseFailed}); n > 1 {
		reason += fmt.Sprintf("; %d tasks failed in total", n)
	}
	return apitypes.JobFailed, reason
}

// ahead is the number of members that are announced for each one that fits on the planned workers. The additional
// members wait in their queue, and a session gives them the room of members that end.
const ahead = 1.25

// mostAt returns the maximum number of announced and unfinished members of an array, or 0 for no limit. It follows
// from maxParallel, and from the number that fits on the planned workers plus a few. If all members of a large array
// waited, each session would read them all.
func (st *Advancing) mostAt(array int) int {
	most := st.Job.Arrays[array].MaxParallel
	if array >= len(st.Slots) || st.Slots[array] == 0 {
		return most
	}
	fits := int(math.Ceil(float64(st.Slots[array]) * ahead))
	if most == 0 {
		return fits
	}
	return min(most, fits)
}

// room counts the further members of each array that may run.
type room struct {
	arrays []record.Array
	most   []int // 0 is no limit
	free   []int // −1: not counted yet
	phases []byte
}

func roomOf(st Advancing) *room {
	r := &room{arrays: st.Job.Arrays, most: make([]int, len(st.Job.Arrays)), free: make([]int, len(st.Job.Arrays)),
		phases: st.Progress.Phases}
	for i := range r.most {
		r.most[i] = st.mostAt(i)
	}
	for i := range r.free {
		r.free[i] = -1
	}
	return r
}

// take reports whether one more member of an array may run, and counts it. A task outside of arrays always may.
func (r *room) take(array int) bool {
	if array < 0 || r.most[array] == 0 {
		return true
	}
	a := &r.arrays[array]
	if r.free[array] < 0 {
		running := bytes.Count(r.phases[a.First:a.First+a.Size], []byte{record.PhaseReady})
		r.free[array] = max(r.most[array]-running, 0)
	}
	if r.free[array] == 0 {
		return false
	}
	r.free[array]--
	return true
}

// successors returns in order the tasks that may become ready when a task has succeeded: those that wait for it, and
// if only some members of its array may run at the same time, the other members.
func successors(st Advancing, task int) (tasks []int32) {
	for _, e := range st.Spec.EdgesFrom(task) {
		tasks = append(tasks, int32(st.Spec.Edges[e].To)) //nolint:gosec // a task of the job
	}
	if k := st.Job.ArrayOf(task); k >= 0 && st.mostAt(k) > 0 {
		a := &st.Job.Arrays[k]
		for i := a.First; i < a.First+a.Size; i++ {
			if st.Progress.Phases[i] == record.PhaseWaiting {
				tasks = append(tasks, int32(i)) //nolint:gosec // a task of the job
			}
		}
		slices.Sort(tasks)
	}
	return slices.Compact(tasks)
}

// allFrom returns all tasks of a job from an index on.
func allFrom(job record.Job, from int) (tasks []int32) {
	for i := from; i < job.Tasks; i++ {
		tasks = append(tasks, int32(i)) //nolint:gosec // a task of the job
	}
	return tasks
}

// overMuch returns a text about the failures of an array that are more than the array allows, or "".
func overMuch(st Advancing, task int) string {
	k := st.Job.ArrayOf(task)
	if k < 0 || st.Job.Arrays[k].AllowFailures == 0 {
		return ""
	}
	a := &st.Job.Arrays[k]
	return fmt.Sprintf("; %d of %d members of %s failed, and it allows %d", failures(st, k), a.Size, a.Name,
		a.AllowFailures)
}
