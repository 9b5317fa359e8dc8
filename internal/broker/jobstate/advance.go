package jobstate

import (
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// maxAnnounced is the maximum number of tasks that one transaction announces. The event dag.advance continues with
// the rest.
const maxAnnounced = 30

// Advancing is the input of the decisions about a job's progress. Its Progress is a private copy.
type Advancing struct {
	Job      record.Job
	Spec     *dag.Job
	Progress record.Progress
	// Slots is, for each array, the number of its members that fit on the planned workers at a time. It is 0 for an
	// array that does not share machines, and nil if no array does.
	Slots []int
	// ChunkFor is the maximum total run time of the members of a chunk. With 0, each member has its own attempt.
	ChunkFor time.Duration
}

// DecideBegin starts a planned job and announces the tasks without parents. After a replan, ready tasks stay ready,
// and more members of arrays may fit on the planned workers.
func DecideBegin(st Advancing) record.Decision {
	if st.Job.State != apitypes.JobPlanning {
		if d := DecideAnnounce(st, 0); len(st.Slots) > 0 && len(d.Emits) > 0 {
			return d
		}
		return record.Decision{}
	}
	st.Job.State, st.Job.Started, st.Job.Reason = apitypes.JobRunning, true, ""
	d := DecideAnnounce(st, 0)
	d.PutJob(st.Job)
	return d
}

// DecideAnnounce announces waiting tasks whose parents are all done, from an index on. It does so even if the job
// waits for a plan, because no later event announces the tasks from that index on.
func DecideAnnounce(st Advancing, from int) record.Decision {
	if st.Job.State != apitypes.JobRunning && (st.Job.State != apitypes.JobWaiting || !st.Job.Started) {
		return record.Decision{}
	}
	return announce(st, allFrom(st.Job, from), outlooks(st))
}

// announce marks and emits the ready ones of the given tasks in order, as many as one transaction holds. Of an array,
// it announces at most the members that may run at the same time, or a few more than fit on the planned workers. Only
// announced tasks run.
func announce(st Advancing, tasks []int32, out []outlook) (d record.Decision) {
	phases, held := st.Progress.Phases, make([]bool, len(st.Spec.Tasks)) // held: a parent is not done
	for i := range st.Spec.Edges {
		if e := &st.Spec.Edges[i]; !met(phases, out, e) {
			held[e.To] = true
		}
	}
	free, next := roomOf(st), newChunks(st)
	for _, i := range tasks {
		if phases[i] != record.PhaseWaiting || held[i] || !free.take(st.Job.ArrayOf(int(i))) {
			continue
		}
		if len(d.Emits) == maxAnnounced {
			d.Emit(events.DAGAdvance{Job: st.Job.ID, From: int(i)})
			break
		}
		phases[i] = record.PhaseReady
		more := next.after(int(i))
		for n := range more {
			phases[int(i)+1+n] = record.PhaseChunked
		}
		d.Emit(events.TaskReady{Job: st.Job.ID, Task: int(i), Queue: st.Job.Queue, Try: 1, Chunk: more})
	}
	d.Put(record.ProgressKey(st.Job.ID), st.Progress.Packed())
	return d
}

// DecideSucceeded marks a task and the other members of its chunk that have succeeded as done. It announces the
// children that waited only for them, and ends the job after its last task. Members of the chunk that did not run are
// announced again. Members that have failed are announced again, too, unless the event of their failure is handled
// before; both orders have the same result.
func DecideSucceeded(st Advancing, e events.TaskSucceeded) (d record.Decision) {
	if e.Task < 0 || e.Task >= st.Job.Tasks || st.Progress.Phases[e.Task] == record.PhaseSucceeded {
		return d
	}
	// The members after a failed one no longer belong to the task's chunk. Without a chunk, all of them still do.
	others := append(chunkOf(st.Progress.Phases, e.Task), e.NotRun...)
	var next []int32
	for _, task := range append([]int{e.Task}, e.Also...) {
		if task < st.Job.Tasks && st.Progress.Phases[task] != record.PhaseSucceeded {
			st.Progress.Phases[task] = record.PhaseSucceeded
			st.Progress.Succeeded++
			next = append(next, successors(st, task)...)
		}
	}
	running := st.Job.State == apitypes.JobRunning || st.Job.State == apitypes.JobWaiting
	if running {
		dissolve(st, others, e.Attempt, &d)
		slices.Sort(next)
		d.Add(decideNext(st, slices.Compact(next), outlooks(st)))
		return d
	}
	d.Put(record.ProgressKey(st.Job.ID), st.Progress.Packed())
	return d
}

// DecideFailed announces a failed task again if it has retries left and was not ended by its timeout. Otherwise it
// fails the job, unless the task's array allows the failure or the job continues after failures.
func DecideFailed(st Advancing, task record.Task, e events.TaskFailed) (d record.Decision) {
	if e.Task >= st.Job.Tasks && e.Task < len(st.Spec.Tasks) {
		return decideWorkerFailed(st, task, e)
	}
	if st.Job.State != apitypes.JobRunning && st.Job.State != apitypes.JobWaiting ||
		e.Task < 0 || e.Task >= st.Job.Tasks ||
		st.Progress.Phases[e.Task] != record.PhaseReady && st.Progress.Phases[e.Task] != record.PhaseChunked ||
		task.State == record.TaskSucceeded {
		return d // or the task has succeeded since, together with its gang's chief
	}
	if st.Progress.Phases[e.Task] == record.PhaseReady {
		// the attempt has ended before these members ran
		dissolve(st, chunkOf(st.Progress.Phases, e.Task), e.Attempt, &d)
	}
	was := st.Progress.Phases[e.Task]
	st.Progress.Phases[e.Task] = record.PhaseReady
	spec := &st.Spec.Tasks[e.Task]
	if !e.Final && !e.TimedOut && task.Try <= spec.RetriesAfter(e.ExitCode) {
		if len(d.Emits) > 0 || was != record.PhaseReady {
			d.Put(record.ProgressKey(st.Job.ID), st.Progress.Packed())
		}
		d.Emit(events.TaskReady{Job: st.Job.ID, Task: e.Task, Queue: st.Job.Queue, Try: task.Try + 1})
		return d
	}
	st.Progress.Phases[e.Task] = record.PhaseFailed
	d.Add(decideAfterFailure(st, task, e, failureOf(spec, e)))
	return d
}

// failureOf returns a text with the reason why a task has failed for good.
func failureOf(spec *dag.Task, e events.TaskFailed) string {
	reason := "task " + spec.Name
	switch {
	case e.TimedOut:
		reason += " " + e.Message
	case e.Final:
		reason += " cannot run"
	case e.ExitCode == 0: // the program did not end by itself
		reason += " failed"
	default:
		reason += fmt.Sprintf(" failed with exit code %d", e.ExitCode)
	}
	if e.Ranks > 1 {
		reason += fmt.Sprintf(" on rank %d of %d", e.Rank, e.Ranks)
	}
	told := e.TimedOut || e.Message == fmt.Sprintf("exit code %d", e.ExitCode)
	if e.Message != "" && !told {
		reason += ": " + e.Message
	}
	return reason
}

// decideAfterFailure ends a job in which a task has failed for good, or lets the job continue.
func decideAfterFailure(st Advancing, task record.Task, e events.TaskFailed, reason string) (d record.Decision) {
	reason += overMuch(st, e.Task)
	excuses := outlooks(st)[e.Task] == excused
	// If the task did not fail itself, it has used up the job's budget, and the other tasks cannot continue either.
	failed := task.State == record.TaskFailed
	if failed && !aborts(&st.Spec.Tasks[e.Task], e.ExitCode) && (excuses || st.Job.OnFailure == dag.ContinueJob) {
		if st.Progress.Reason == "" && !excuses {
			st.Progress.Reason = reason
		}
		return decideNext(st, allFrom(st.Job, 0), skip(st))
	}
	d = decideEnding(st.Job, apitypes.JobFailed, reason)
	d.Put(record.ProgressKey(st.Job.ID), st.Progress.Packed())
	return d
}

// workerMisses is the number of failures of a worker in a row after which its job fails.
const workerMisses = 2

// decideWorkerFailed fails the job if one of its workers has failed too often or cannot run. Otherwise, the next
// session requests the worker again if tasks wait for it.
func decideWorkerFailed(st Advancing, task record.Task, e events.TaskFailed) (d record.Decision) {
	running := st.Job.State == apitypes.JobRunning || st.Job.State == apitypes.JobWaiting
	if !running || !e.Final && task.Misses < workerMisses {
		return d
	}
	reason := "the machine " + st.Spec.Tasks[e.Task].Name + ", which its tasks share, failed"
	if e.Message != "" {
		reason += ": " + e.Message
	}
	return decideEnding(st.Job, apitypes.JobFailed, reason)
}

// aborts reports whether the file states that the job ends when this task fails for good.
func aborts(t *dag.Task, exitCode int) bool {
	for _, event := range []dag.Event{dag.PodFailed, dag.TaskFailed} {
		if r, found := t.Reaction(event, exitCode); found && r.Action == dag.Abort {
			return true
		}
	}
	return false
}

// DecideCancelled ends a job that a user cancelled. If the job is already ending, it releases the job's kept
// machines.
func DecideCancelled(job record.Job, reason string) (d record.Decision) {
	if job.State == apitypes.JobEnding {
		d.Emit(events.DAGEnding{Job: job.ID, Queue: job.Queue, Outcome: string(apitypes.JobCancelled)})
		return d
	}
	return decideEnding(job, apitypes.JobCancelled, reason)
}

// decideEnding starts the end of a job: no new task starts, the machines are released, and then the job is settled.
func decideEnding(job record.Job, outcome apitypes.JobState, reason string) (d record.Decision) {
	if job.State == apitypes.JobEnding || job.State.Finished() {
		return d
	}
	job.State, job.Outcome, job.Reason = apitypes.JobEnding, outcome, reason
	d.PutJob(job)
	d.Emit(events.DAGEnding{Job: job.ID, Queue: job.Queue, Outcome: string(outcome)})
	return d
}

// Ended has the data about a job that ends: what its attempts held, and for how long its records are kept.
type Ended struct {
	Held []record.Holding
	Keep time.Duration
}

// DecideFinished closes a job whose machines are all gone and paid for. It deletes the job's secrets.
func DecideFinished(job record.Job, spec *dag.Job, e events.DAGSettled, end Ended, now time.Time) (d record.Decision) {
	if job.State != apitypes.JobEnding {
		return d
	}
	job.State, job.Finished, job.USD = job.Outcome, now, e.USD
	job.Past.Summed, job.Past.Held = true, record.Sum(end.Held)
	d.Expire(&job, end.Keep)
	if !job.Deadline.IsZero() && job.Finished.After(job.Deadline) {
		job.Late = true
	}
	d.PutJob(job)
	d.Del(record.ActiveKey(job.ID))
	if spec.HasWorkers() {
		d.Del(record.PoolKey(record.JobPool(job.ID)))
		d.Del(record.PartitionKey(record.JobPool(job.ID), 0))
	}
	if len(spec.SecretNames()) > 0 || len(job.Was) > 0 { // an earlier version may have had secrets
		for _, key := range job.SecretsKeys() {
			d.Del(key)
		}
	}
	d.Emit(events.DAGFinished{
		Job: job.ID, Name: job.Name, Outcome: string(job.Outcome), Reason: job.Reason,
		USD: e.USD, Hours: record.Hours(job.Finished.Sub(job.Submitted)), Announce: spec.Announce,
		Notify: !spec.Notify.IsZero(),
	})
	return d
}
