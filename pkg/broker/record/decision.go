package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// BringUp notes that every node of a cluster has dialled home, and hands its work to the agents in the same commit:
// nothing else has to be looked at (decision 6). That of a gang is execute's, which looks at all of it. A cluster that
// is given up already, as its attempt or its job is over, is only waiting to be released.
func (d *Decision) BringUp(job Job, task Task, cl *Cluster, now time.Time) {
	cl.State, cl.Since, cl.Up = ClusterUp, now, now
	switch {
	case cl.Outcome != "" || job.State == apitypes.JobEnding || job.State.Over():
	case task.Gang != "":
		d.Emit(events.ClusterUp{Cluster: cl.ID, Job: cl.Job})
	default:
		cl.Run()
	}
}

// Broken tells that a task of a gang does not go on, so that the others give back what they have.
func (d *Decision) Broken(task Task) {
	if task.Gang != "" {
		d.Emit(events.GangBroken{Job: task.Job, Gang: task.Gang, Task: task.Index, Attempt: task.Attempt})
	}
}

// Unplanned asks again for what could not be planned until a doomed cluster's attempt was over: others may wait for it.
func (d *Decision) Unplanned(job Job, cl Cluster) {
	if cl.MinPlan > job.Plan.Version {
		d.Replan(job, cl.Reason)
	}
}

// Block adds a block and tells of it.
func (d *Decision) Block(k apitypes.Block) {
	d.Writes = append(d.Writes, Write{Key: BlockKey(k), Value: k, Expires: Forgotten(k)})
	d.Emit(blocked(k))
}

// Requeue puts a task back in its queue, to be admitted under a plan of at least a version. The others of its gang are
// told.
func (d *Decision) Requeue(job Job, task Task, minPlan int) {
	d.Wait(job, task, minPlan)
	if job.State != apitypes.JobEnding && !job.State.Over() {
		d.Broken(task)
	}
}

// Wait puts a task back in its queue.
func (d *Decision) Wait(job Job, task Task, minPlan int) {
	if job.State == apitypes.JobEnding || job.State.Over() {
		return
	}
	task.State, task.MinPlan, task.Alone = TaskQueued, max(minPlan, task.MinPlan), false
	d.Put(TaskKey(job.ID, task.Index), task)
	d.Enqueue(job, task)
}

// Replan asks for a better plan than the one in force, unless the job is over.
func (d *Decision) Replan(job Job, reason string) {
	if job.State != apitypes.JobEnding && !job.State.Over() {
		d.Emit(events.DAGReplan{Job: job.ID, Plan: job.Plan.Version, Reason: reason})
	}
}

// Enqueue adds the waiting entry of a task. Its key follows from the job and the task, so that it can be found again.
func (d *Decision) Enqueue(job Job, task Task) {
	d.Hold(JobKey(job.ID)) // nothing drops an entry that comes after the job's end
	w := WaitingOf(job, task)
	d.Put(WaitKey(job.Queue, w), w)
}

// PutJob writes a job that changes, and wakes it if it rests.
func (d *Decision) PutJob(job Job) {
	d.awake(&job.Rests, job)
	d.Put(JobKey(job.ID), job)
}

// Awake wakes a job of which a task is admitted. The ledger is written with it.
func (d *Decision) Awake(job Job, ledger *Ledger) { d.awake(&ledger.Rests, job) }

func (d *Decision) awake(rests *bool, job Job) {
	if *rests {
		*rests = false
		d.Put(ActiveKey(job.ID), JobIndex{ID: job.ID, Submitted: job.Submitted})
	}
}

// Rest has a job rest that holds nothing and waits, by what its ledger and its progress say. Both the job and the
// ledger say so: whatever wakes it writes one of them, and has seen that it rests or is void.
func (d *Decision) Rest(job Job, ledger Ledger, until time.Time) {
	job.Rests, ledger.Rests = true, true
	d.Put(JobKey(job.ID), job)
	d.Put(LedgerKey(job.ID), ledger)
	d.Put(ActiveKey(job.ID), JobIndex{ID: job.ID, Submitted: job.Submitted, Queue: job.Queue, RestsUntil: until})
	d.Hold(ProgressKey(job.ID))
}

// HoldTree makes the commit void if the use of any queue of the tree that was not written has changed: what is left of
// a quota was computed from it.
func (d *Decision) HoldTree(tree []*apitypes.Queue) {
	for _, q := range tree {
		d.Holds = append(d.Holds, store.Key(QueueKey(q.Name)))
	}
}

// Decision is what a decide function wants written and told.
type Decision struct {
	Writes []Write
	Emits  []events.Data
	// Holds are records that must not have changed since they were loaded, though they are not written.
	Holds []store.Key
	// Touches are records that are written as they are: what others have decided on them, and not committed, is void.
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

// Hold makes the decision void when a record has changed.
func (d *Decision) Hold(key store.Key) { d.Holds = append(d.Holds, key) }

// Touch makes void what others decide meanwhile on a record as it was, which Hold does not: of two decisions of which
// each reads what the other writes, one is made again.
func (d *Decision) Touch(key store.Key) { d.Touches = append(d.Touches, key) }

// Add adds what another decision wants.
func (d *Decision) Add(more Decision) {
	d.Writes, d.Emits = append(d.Writes, more.Writes...), append(d.Emits, more.Emits...)
	d.Holds, d.Touches = append(d.Holds, more.Holds...), append(d.Touches, more.Touches...)
}

// Emit adds an event.
func (d *Decision) Emit(data ...events.Data) { d.Emits = append(d.Emits, data...) }
