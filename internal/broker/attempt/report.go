package attempt

import (
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Reporting is the input of the decision on a report. loadReporting documents which parts are loaded.
type Reporting struct {
	Job      record.Job
	Spec     *dag.Task
	Members  []dag.Task // the other members of the attempt's chunk
	Task     record.Task
	Attempt  apitypes.Attempt
	Cluster  record.Cluster
	Rank     int
	Chief    bool          // when this task has succeeded, its gang's work is done
	Keep     time.Duration // maximum time for which the machines of a failed task are kept
	Joinable bool          // other tasks may join this task's role while it runs
	Done     bool          // the gang's chief has succeeded, so this task's work is done
	Uploads  bool          // the attempt has multipart uploads that have not ended
	Now      time.Time
	serving  Serving // only for replicas of services
}

// LoadDone loads whether the work of a task's gang is done.
func (st *Reporting) LoadDone(u recordcache.Reader, spec *dag.Job) error {
	of := st.Cluster.Task
	if lead := spec.Lead(of); lead >= 0 {
		of = lead
	}
	for _, i := range spec.Gang(of) {
		if i == st.Cluster.Task || !spec.Chief(i) {
			continue
		}
		chief, _, err := recordcache.Get[record.Task](u, record.TaskKey(st.Cluster.Job, i))
		if err != nil {
			return err
		}
		st.Done = st.Done || chief.State == record.TaskSucceeded
	}
	return nil
}

// node returns the node that reports.
func (st *Reporting) node() *record.Node { return &st.Cluster.Nodes[st.Rank] }

// Decide handles a node's report.
func (st *Reporting) Decide(r wire.Report, cfg config.Config) record.Decision {
	st.node().Seen = st.Now
	st.Cluster.Moved(st.Rank, r.Moved, cfg.Stores)
	over := st.Cluster.Outcome != "" // the attempt is lost, and only waits for its release
	switch r.Event {
	case wire.Started:
		return st.started(unscale(r.Ran, cfg.Scale))
	case wire.Checkpointed:
		return st.checkpointed(r)
	case wire.Succeeded:
		if over {
			break
		}
		if st.Spec.Service != nil {
			return st.replicaEnded(r)
		}
		return st.succeeded(r, cfg)
	case wire.Failed:
		if over {
			break
		}
		if st.Spec.Service != nil {
			return st.replicaEnded(r)
		}
		if r.Fault != "" && !st.Done {
			return DecideFaulted(st.losing(), r, st.Now)
		}
		return st.failed(r, cfg)
	case wire.Stopped:
		return st.stopped()
	case wire.NoticeSeen:
		l := Losing{Job: st.Job, Task: st.Task, Attempt: st.Attempt, Cluster: st.Cluster}
		return DecideDoomed(l, st.Now.Add(unscale(r.Notice, cfg.Scale)), st.Now)
	case wire.Ready:
		return st.replicaReady(r, cfg)
	case wire.Unready:
		return st.replicaUnready(r, cfg)
	case wire.Alive:
	}
	var d record.Decision
	d.Put(record.ClusterKey(st.Cluster.ID), st.Cluster)
	return d
}

// unscale converts a duration of the machines' clock into one of the broker's clock.
func unscale(d time.Duration, scale float64) time.Duration {
	if scale <= 0 {
		return d
	}
	return time.Duration(float64(d) / scale)
}

// save writes the records that a report changes while the attempt continues.
func (st *Reporting) save(d *record.Decision) {
	d.Put(record.ClusterKey(st.Cluster.ID), st.Cluster)
	d.Put(record.TaskKey(st.Cluster.Job, st.Cluster.Task), st.Task)
}

// end writes the records that a report of the attempt's end changes.
func (st *Reporting) end(d *record.Decision) {
	st.save(d)
	d.Put(record.AttemptKey(st.Cluster.Job, st.Cluster.Task, st.Cluster.Attempt), st.Attempt)
}

func (st *Reporting) every(is func(record.Node) bool) bool {
	for _, n := range st.Cluster.Nodes {
		if !is(n) {
			return false
		}
	}
	return true
}

// started records that a node runs the task since the time before. When the last node has started, the task is
// running.
func (st *Reporting) started(before time.Duration) (d record.Decision) {
	st.node().Started = true
	if st.Cluster.Outcome != "" || st.Cluster.Started || st.Task.Attempt != st.Cluster.Attempt ||
		!st.every(func(n record.Node) bool { return n.Started || n.Done }) {
		d.Put(record.ClusterKey(st.Cluster.ID), st.Cluster)
		return d
	}
	st.Cluster.Started, st.Cluster.Running = true, st.Now.Add(-min(max(before, 0), st.Now.Sub(st.Cluster.Up)))
	st.Cluster.UpdateTask(&st.Task)
	if d.Put(record.ClusterKey(st.Cluster.ID), st.Cluster); st.Task.Gang != "" {
		d.Put(record.TaskKey(st.Cluster.Job, st.Cluster.Task), st.Task)
	}
	d.Emit(events.TaskStarted{Job: st.Cluster.Job, Task: st.Cluster.Task, Attempt: st.Cluster.Attempt})
	if st.Joinable {
		d.Emit(events.CapacityFreed{Queue: st.Cluster.Queue})
	}
	return d
}

// checkpointed records a complete checkpoint, unless a newer one is known. With several nodes, only the report of the
// first node counts: the other agents save under the same number.
func (st *Reporting) checkpointed(r wire.Report) (d record.Decision) {
	if st.Rank != 0 || r.Seq <= st.Task.Checkpoint.Seq || st.Task.Attempt != st.Cluster.Attempt {
		d.Put(record.ClusterKey(st.Cluster.ID), st.Cluster)
		return d
	}
	st.Task.Checkpoint = record.Saved{Seq: r.Seq, Prefix: st.Cluster.Keeps(r.Prefix), At: st.Now}
	if st.Spec.StandIn() {
		st.Task.Progress = max(st.Task.Progress, min(r.Progress, 1))
	} else {
		st.Task.Progress = progressOf(st.Spec, st.Task, st.Attempt, st.Now)
	}
	st.save(&d)
	d.Emit(events.TaskCheckpointed{
		Job: st.Cluster.Job, Task: st.Cluster.Task, Attempt: st.Cluster.Attempt, Seq: r.Seq, Progress: st.Task.Progress,
	})
	return d
}

// succeeded records that a node has succeeded. When the last node has, the task ends.
func (st *Reporting) succeeded(r wire.Report, cfg config.Config) (d record.Decision) {
	st.node().Started, st.node().Done = true, true
	if !st.every(func(n record.Node) bool { return n.Done }) {
		d.Put(record.ClusterKey(st.Cluster.ID), st.Cluster)
		return d
	}
	times := st.chunkTimes(r, cfg)
	if st.Task.StartedAt.IsZero() || st.Cluster.Running.IsZero() {
		st.Cluster.Running, st.Task.StartedAt = times[0].from, times[0].from
	}
	// The attempt's record is written when its cost is known.
	st.Cluster.Outcome, st.Cluster.Ended = apitypes.OutcomeSucceeded, st.Now
	if st.Cluster.Chunk > 0 {
		st.Cluster.Ended = times[0].to
	}
	st.Task.State, st.Task.EndedAt, st.Task.Progress = record.TaskSucceeded, st.Cluster.Ended, 1
	st.Task.Listed = st.Cluster.Offer.Service != ""
	if !r.Empty || len(st.Cluster.Nodes) > 1 {
		st.Task.Output = st.Cluster.Keeps(wire.OutputPrefix(taskPrefix(st.Cluster.Job, st.Spec.Name), st.Cluster.ID))
	}
	st.save(&d)
	d.Unplanned(st.Job, st.Cluster)
	told := events.TaskSucceeded{Job: st.Cluster.Job, Task: st.Cluster.Task, Attempt: st.Cluster.Attempt,
		Cluster: st.Cluster.ID}
	if st.Cluster.Shared() && !st.Uploads { // only its room on the worker has to be released
		told.Cluster = ""
		d.Emit(freedOnWorker(st.Cluster, st.Now))
	}
	st.chunkEnded(r, times, &told, &d)
	d.Emit(told)
	if st.Chief || st.Joinable {
		d.Emit(events.GangBroken{Job: st.Task.Job, Gang: st.Task.Gang, Task: st.Task.Index, Attempt: st.Task.Attempt,
			Done: true, Joining: !st.Chief})
	}
	return d
}

// freedOnWorker returns the event that books the cost of an attempt on a worker and frees its room.
func freedOnWorker(cl record.Cluster, now time.Time) events.CapacityFreed {
	_, usd := booked(cl, now)
	return events.CapacityFreed{Queue: cl.Queue, Job: cl.Job, Task: cl.Task, Attempt: cl.Attempt, Cluster: cl.ID,
		VCPU: cl.VCPU, USD: usd, ReservedUSD: cl.ReservedUSD}
}

// failed ends the attempt: the failure of one node is a failure of all. The machines may be kept for users to
// examine.
func (st *Reporting) failed(r wire.Report, cfg config.Config) (d record.Decision) {
	if st.Done { // a worker that lost the connection to its chief because the chief is done
		return DecideComplete(Member{Losing: st.losing(), Bought: true}, st.Now)
	}
	message, timedOut := failureMessage(st.Spec, r)
	st.Cluster.Outcome = apitypes.OutcomeFailed
	if r.Keep > 0 && st.Cluster.State == record.ClusterUp && st.Job.State != apitypes.JobEnding &&
		!st.Job.State.Finished() {
		st.Cluster.KeptUntil = st.Now.Add(min(unscale(r.Keep, cfg.Scale), st.Keep))
		st.Attempt.KeptUntil, st.node().Keeps = st.Cluster.KeptUntil, true
	}
	st.Attempt.Outcome, st.Attempt.Reason, st.Attempt.Ended = apitypes.OutcomeFailed, message, st.Now
	st.Attempt.Failure = apitypes.Failure{Rank: st.Rank, ExitCode: r.ExitCode}
	if timedOut || r.ExitCode == 0 {
		st.Attempt.Failure.ExitCode = -1 // the exit code of a signal has no meaning
	}
	st.Task.State, st.Task.Reason, st.Task.EndedAt, st.Task.Alone = record.TaskFailed, st.Attempt.FailureText(), st.Now,
		false
	st.end(&d)
	d.Unplanned(st.Job, st.Cluster)
	d.Emit(events.TaskFailed{
		Job: st.Cluster.Job, Task: st.Cluster.Task, Attempt: st.Cluster.Attempt, Cluster: st.Cluster.ID,
		ExitCode: r.ExitCode, Message: message, TimedOut: timedOut, Rank: st.Rank, Ranks: len(st.Cluster.Nodes),
	})
	if st.Task.Gang != "" {
		d.Emit(events.GangBroken{Job: st.Task.Job, Gang: st.Task.Gang, Task: st.Task.Index, Attempt: st.Task.Attempt,
			Failed: true, ExitCode: r.ExitCode})
	}
	return d
}

// failureMessage returns the message of a task's failure, and whether the failure was a timeout.
func failureMessage(spec *dag.Task, r wire.Report) (message string, timedOut bool) {
	if r.Phase == wire.PhaseTimeout {
		return "timed out after " + dag.FormatDuration(spec.Timeout), true
	}
	return messageOf(r), false
}

// messageOf returns the message of a failure. It includes the phase, unless the phase is the command.
func messageOf(r wire.Report) string {
	if r.Phase != "" && r.Phase != wire.PhaseRun {
		return readable.ClipFailure(r.Phase + ": " + r.Message)
	}
	return readable.ClipFailure(r.Message)
}

// stopped records that a node has saved its work and stopped. When all nodes have stopped, a doomed cluster is lost
// at once, before its machines are preempted.
func (st *Reporting) stopped() (d record.Decision) {
	st.node().Stopped = true
	if st.node().Keeps && st.Cluster.Kept(st.Now) { // the time is up, or a user has ended the keeping
		return DecideReleaseKept(st.Cluster, "it is no longer kept", st.Now)
	}
	if st.Cluster.State == record.ClusterDoomed && st.Cluster.Outcome == "" && st.Cluster.Stopped() {
		return DecideLost(Losing{Job: st.Job, Task: st.Task, Attempt: st.Attempt, Cluster: st.Cluster},
			st.Cluster.LossOutcome(), st.Cluster.Reason, st.Now)
	}
	d.Put(record.ClusterKey(st.Cluster.ID), st.Cluster)
	return d
}

// progressOf returns the fraction of a task's work that need not be repeated. It is exact for tasks with a recorded
// run time, and estimated from the time for tasks that save checkpoints.
func progressOf(t *dag.Task, task record.Task, attempt apitypes.Attempt, saved time.Time) float64 {
	if t.StandIn() || t.Checkpoint == nil || attempt.Started.IsZero() {
		return task.Progress
	}
	total := record.TimeOn(t, attempt.Offer)
	done := attempt.Resumed + saved.Sub(attempt.Started).Seconds()/max(total.Seconds(), 1)
	// The author's estimate of the run time may be too short, so estimated progress never reaches 1.
	return math.Max(task.Progress, math.Min(done, maxEstimatedProgress))
}

const maxEstimatedProgress = 0.95
