package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// BringUp records that every node of a cluster has called. It starts the cluster's task in the same commit if nothing
// else has to be checked (decision 6). A gang is started by execute, which checks all of it. A cluster whose attempt
// or job has ended only waits for its release.
func (d *Decision) BringUp(job Job, task Task, cl *Cluster, now time.Time) {
	cl.State, cl.Since, cl.Up = ClusterUp, now, now
	switch {
	case cl.Outcome != "" || job.State == apitypes.JobEnding || job.State.Finished():
	case task.Gang != "":
		d.Emit(events.ClusterUp{Cluster: cl.ID, Job: cl.Job})
	default:
		cl.Run()
	}
}

// EmitGangBroken emits that a task of a gang cannot continue. The other tasks then release their machines and quota.
func (d *Decision) EmitGangBroken(task Task) {
	if task.Gang != "" {
		d.Emit(events.GangBroken{Job: task.Job, Gang: task.Gang, Task: task.Index, Attempt: task.Attempt})
	}
}

// Unplanned requests a new plan again, if a doomed cluster had requested one that was not made before its attempt
// ended. Other tasks may wait for that plan.
func (d *Decision) Unplanned(job Job, cl Cluster) {
	if cl.MinPlan > job.Plan.Version {
		d.Replan(job, cl.Reason)
	}
}

// Block adds a block and emits it.
func (d *Decision) Block(k apitypes.Block) {
	d.Writes = append(d.Writes, Write{Key: BlockKey(k), Value: k, Expires: BlockExpires(k)})
	d.Emit(blocked(k))
}

// EndBlock makes a block end earlier, at a time. It emits no event.
func (d *Decision) EndBlock(k apitypes.Block, at time.Time) {
	expires := BlockExpires(k)
	k.Until = at
	d.Writes = append(d.Writes, Write{Key: BlockKey(k), Value: k, Expires: expires})
}

// Requeue puts a task back into its queue, to be admitted under a plan of version minPlan or newer. For a task of a
// gang it also emits GangBroken.
func (d *Decision) Requeue(job Job, task Task, minPlan int) {
	d.Wait(job, task, minPlan)
	if job.State != apitypes.JobEnding && !job.State.Finished() {
		d.EmitGangBroken(task)
	}
}

// Wait puts a task back into its queue.
func (d *Decision) Wait(job Job, task Task, minPlan int) {
	if job.State == apitypes.JobEnding || job.State.Finished() {
		return
	}
	task.State, task.MinPlan, task.Alone = TaskQueued, max(minPlan, task.MinPlan), false
	d.Put(TaskKey(job.ID, task.Index), task)
	d.Enqueue(job, task)
}

// Replan requests a new plan, unless the job has finished.
func (d *Decision) Replan(job Job, reason string) {
	if job.State != apitypes.JobEnding && !job.State.Finished() {
		d.Emit(events.DAGReplan{Job: job.ID, Plan: job.Plan.Version, Reason: reason})
	}
}

// Enqueue adds the waiting entry of a task. Its key depends only on job and task, so the entry can be found again.
func (d *Decision) Enqueue(job Job, task Task) {
	d.Hold(JobKey(job.ID)) // after the end of the job, nothing would remove the entry
	w := WaitingOf(job, task)
	d.Put(WaitKey(job.Queue, w), w)
}

// PutJob writes a changed job, and wakes it if it rests.
func (d *Decision) PutJob(job Job) {
	d.awake(&job.Rests, job)
	d.Put(JobKey(job.ID), job)
}

// Wake wakes a job when one of its tasks is admitted. The caller writes the ledger.
func (d *Decision) Wake(job Job, ledger *Ledger) { d.awake(&ledger.Rests, job) }

func (d *Decision) awake(rests *bool, job Job) {
	if *rests {
		*rests = false
		d.Put(ActiveKey(job.ID), JobIndex{ID: job.ID, Submitted: job.Submitted})
	}
}

// Rest makes a job rest that holds nothing and only waits, by its ledger and progress. Both job and ledger record
// this. A decision that wakes the job writes one of them, so it either sees that the job rests, or conflicts.
func (d *Decision) Rest(job Job, ledger Ledger, until time.Time) {
	job.Rests, ledger.Rests = true, true
	d.Put(JobKey(job.ID), job)
	d.Put(LedgerKey(job.ID), ledger)
	d.Put(ActiveKey(job.ID), JobIndex{ID: job.ID, Submitted: job.Submitted, Queue: job.Queue, RestsUntil: until})
	d.Hold(ProgressKey(job.ID))
}

// HoldTree makes the commit fail if the use of any queue of the tree has changed, because the remaining quota was
// calculated from it.
func (d *Decision) HoldTree(tree []*apitypes.Queue) {
	for _, q := range tree {
		d.Holds = append(d.Holds, store.Key(QueueKey(q.Name)))
	}
}

// Decision is the result of a decide function: records to write and events to emit.
type Decision struct {
	Writes []Write
	Emits  []events.Data
	// Holds are records that are not written, but must not have changed since they were loaded.
	Holds []store.Key
	// Touches are records that are written unchanged, so that concurrent decisions based on them fail.
	Touches []store.Key
}

// Write is one record of a decision; a nil Value deletes it.
type Write struct {
	Key     store.Key
	Value   any
	Expires time.Time
}

// Put adds a record.
func (d *Decision) Put(key store.Key, value any) {
	d.Writes = append(d.Writes, Write{Key: key, Value: value})
}

// Del removes a record.
func (d *Decision) Del(key store.Key) { d.Writes = append(d.Writes, Write{Key: key}) }

// Hold makes the commit fail if a record has changed.
func (d *Decision) Hold(key store.Key) { d.Holds = append(d.Holds, key) }

// Touch makes concurrent decisions that are based on a record fail. Hold does not: if each of two decisions reads
// what the other writes, one of them must be repeated.
func (d *Decision) Touch(key store.Key) { d.Touches = append(d.Touches, key) }

// Add adds another decision.
func (d *Decision) Add(more Decision) {
	d.Writes, d.Emits = append(d.Writes, more.Writes...), append(d.Emits, more.Emits...)
	d.Holds, d.Touches = append(d.Holds, more.Holds...), append(d.Touches, more.Touches...)
}

// Emit adds an event.
func (d *Decision) Emit(data ...events.Data) { d.Emits = append(d.Emits, data...) }
