package attempt

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A chunk is an attempt that runs several members of an array one after the other: its own task first, then
// Cluster.Chunk more members. While the chunk runs, only its own task has records. When the chunk ends, each other
// member gets the records that it would have after an attempt without a chunk, with the number of the chunk's
// attempt.

// MemberCluster returns the cluster of a chunk in the form for one of the chunk's other members. It is used for the
// log and the data of the member. ok is false if attempt does not name such a member.
func MemberCluster(cl record.Cluster, attempt string) (member record.Cluster, ok bool) {
	for i := cl.Task + 1; i <= cl.Task+cl.Chunk; i++ {
		if id := record.ClusterID(cl.Job, i, cl.Attempt); id == attempt {
			member = cl
			member.ID, member.Task, member.Chunk = id, i, 0
			return member, true
		}
	}
	return cl, false
}

// ran is the time span in which a member of a chunk ran.
type ran struct{ from, to time.Time }

// chunkTimes returns the time spans in which the members of a chunk ran: first its own task, then the others one
// after the other, until now.
func (st *Reporting) chunkTimes(r wire.Report, cfg config.Config) []ran {
	took, whole := make([]time.Duration, 1+len(r.Chunk)), time.Duration(0)
	for i := range took {
		d := r.Ran
		if i > 0 {
			d = r.Chunk[i-1].Ran
		}
		took[i] = unscale(max(d, 0), cfg.Scale)
		whole += took[i]
	}
	at := st.Cluster.Running
	if at.IsZero() {
		at = st.Now.Add(-whole)
	}
	if at.Before(st.Cluster.Up) {
		at = st.Cluster.Up
	}
	times := make([]ran, len(took))
	for i, d := range took {
		times[i].from = at
		if at = at.Add(d); at.After(st.Now) {
			at = st.Now
		}
		times[i].to = at
	}
	return times
}

// chunkEnded writes the records of the other members of a chunk whose own task has succeeded. It adds to told which
// members have succeeded and which did not run. (An agent of an older version runs none of them.)
func (st *Reporting) chunkEnded(r wire.Report, times []ran, told *events.TaskSucceeded, d *record.Decision) {
	ends := map[string]int{}
	for k := range r.Chunk {
		ends[r.Chunk[k].Attempt] = k
	}
	for i := st.Cluster.Task + 1; i <= st.Cluster.Task+st.Cluster.Chunk; i++ {
		k, ended := ends[record.ClusterID(st.Cluster.Job, i, st.Cluster.Attempt)]
		switch {
		case !ended:
			told.NotRun = append(told.NotRun, i)
		case st.memberEnded(i, r.Chunk[k], times[1+k], d):
			told.Also = append(told.Also, i)
		}
	}
}

// memberEnded writes the records of one of the other members, which has succeeded or failed.
func (st *Reporting) memberEnded(i int, e wire.ChunkEnd, at ran, d *record.Decision) (succeeded bool) {
	spec := &st.Members[i-st.Cluster.Task-1]
	made := st.Attempt
	made.Task, made.Started, made.Ended, made.Outcome = i, at.from, at.to, apitypes.OutcomeSucceeded
	made.USD, made.EgressUSD, made.ReservedUSD = 0, 0, 0
	task := record.Task{Job: st.Cluster.Job, Index: i, State: record.TaskSucceeded, Try: 1, Attempt: st.Cluster.Attempt,
		Plan: st.Task.Plan, ReadyAt: st.Task.ReadyAt, StartedAt: at.from, EndedAt: at.to, Place: st.Task.Place,
		Progress: 1}
	switch {
	case e.Failed:
		st.memberFailed(spec, e, &task, &made, d)
	case !e.Empty:
		task.Output = st.Cluster.Keeps(wire.OutputPrefix(taskPrefix(st.Cluster.Job, spec.Name), e.Attempt))
	}
	d.Put(record.TaskKey(st.Cluster.Job, i), task)
	d.Put(record.AttemptKey(st.Cluster.Job, i, made.Number), made)
	return !e.Failed
}

// memberFailed records the failure of one of the other members. The member is retried like any task.
func (st *Reporting) memberFailed(spec *dag.Task, e wire.ChunkEnd, task *record.Task, made *apitypes.Attempt,
	d *record.Decision) {
	message, timedOut := failureMessage(spec, wire.Report{Phase: e.Phase, Message: e.Message})
	made.Outcome, made.Reason = apitypes.OutcomeFailed, message
	made.Failure = apitypes.Failure{ExitCode: e.ExitCode}
	if timedOut || e.ExitCode == 0 {
		made.Failure.ExitCode = -1
	}
	task.State, task.Reason, task.Progress = record.TaskFailed, made.FailureText(), 0
	d.Emit(events.TaskFailed{
		Job: st.Cluster.Job, Task: task.Index, Attempt: made.Number, ExitCode: e.ExitCode, Message: message,
		TimedOut: timedOut, Ranks: 1,
	})
}
