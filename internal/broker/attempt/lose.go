package attempt

import (
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Losing is the input of the decision on the loss of a cluster.
type Losing struct {
	Job     record.Job
	Task    record.Task
	Attempt apitypes.Attempt
	Cluster record.Cluster
}

// LoadLosing loads the input of the decision on the loss of a cluster.
func LoadLosing(u recordcache.Reader, cluster string) (l Losing, found bool, err error) {
	if l.Cluster, found, err = recordcache.Get[record.Cluster](u, record.ClusterKey(cluster)); err != nil || !found {
		return l, found, err
	}
	task := record.TaskKey(l.Cluster.Job, l.Cluster.Task)
	made := record.AttemptKey(l.Cluster.Job, l.Cluster.Task, l.Cluster.Attempt)
	if err := u.Preload(record.JobKey(l.Cluster.Job), task, made); err != nil {
		return l, false, err
	}
	if l.Job, found, err = recordcache.Get[record.Job](u, record.JobKey(l.Cluster.Job)); err != nil || !found {
		return l, found, err
	}
	if l.Task, found, err = recordcache.Get[record.Task](u, task); err != nil || !found {
		return l, found, err
	}
	l.Attempt, found, err = recordcache.Get[apitypes.Attempt](u, made)
	l.Cluster.UpdateAttempt(&l.Attempt)
	l.Cluster.UpdateTask(&l.Task)
	return l, found, err
}

// DecideDoomed commands the agents of a cluster to save their work before the machines are preempted, and requests a
// plan for the place where the task resumes. The task keeps the cluster until the agents have saved or the machines
// are gone.
func DecideDoomed(l Losing, at, now time.Time) (d record.Decision) {
	cl := l.Cluster
	if cl.Outcome != "" || cl.State == record.ClusterDoomed || cl.State == record.ClusterReleasing {
		return d
	}
	if cl.Launched.IsZero() {
		cl.Launched = cl.Intended // the notice came before the answer to the launch
	}
	cl.State, cl.Since = record.ClusterDoomed, now
	cl.Until, cl.Reason = at, "spot interruption"
	cl.Seq++
	cl.Command = string(wire.SaveAndStop)
	switch {
	case l.Task.Service != "":
		if l.Job.State == apitypes.JobRunning && l.Job.Suspended() == nil && l.ownsTask() {
			handOver(&d, l, l.Job.Plan.Version+1, cl.Reason+" in "+record.Where(cl.Offer), now)
		}
	case l.Job.State == apitypes.JobRunning && l.Task.Attempt == cl.Attempt:
		cl.MinPlan = l.Job.Plan.Version + 1
		d.Hold(record.JobKey(l.Job.ID)) // MinPlan must be newer than the plan in force
		d.Replan(l.Job, cl.Reason+" in "+record.Where(cl.Offer))
	}
	d.Put(record.ClusterKey(cl.ID), cl)
	return d
}

// DecideLost ends an attempt whose machines are gone or unusable. The task waits for a new plan, and the machines are
// released in any case.
func DecideLost(l Losing, outcome apitypes.Outcome, reason string, now time.Time) (d record.Decision) {
	if l.Cluster.Outcome != "" {
		return d
	}
	l.Task.OnDemand = l.Task.OnDemand || l.Cluster.Leaving == record.LeaveForDeadline
	if l.Cluster.Leaving == record.LeaveForOthers || l.Cluster.Leaving == record.LeaveForRoom {
		l.Task.YieldedTo = append(slices.Clone(l.Task.YieldedTo), l.Cluster.For)
	}
	l.Task.LostHours += l.lostHours(outcome, now)
	l.Cluster.Outcome, l.Cluster.Reason = outcome, reason
	l.Attempt.Outcome, l.Attempt.Reason, l.Attempt.Ended = outcome, reason, now
	d.Put(record.ClusterKey(l.Cluster.ID), l.Cluster)
	d.Put(record.AttemptKey(l.Cluster.Job, l.Cluster.Task, l.Cluster.Attempt), l.Attempt)
	d.Emit(events.ClusterLost{Cluster: l.Cluster.ID, Job: l.Cluster.Job, Reason: reason})
	if l.Job.State == apitypes.JobEnding || l.Job.State.Finished() || l.Task.Attempt != l.Cluster.Attempt {
		return d
	}
	if l.Task.Service != "" {
		if !l.ownsTask() {
			return d // the task now belongs to another attempt
		}
		l.Task.ReadyAt = now
	}
	switch l.Cluster.Leaving {
	case record.LeaveUnready, record.LeaveGang, record.LeaveSuspended, record.LeaveForRoom:
		rejoin(&d, l.Job, l.Task, reason)
		return d
	default:
	}
	// the job was replanned while the task saved its work
	if minPlan := l.Cluster.MinPlan; minPlan > 0 && minPlan <= l.Job.Plan.Version {
		d.Requeue(l.Job, l.Task, minPlan)
		d.Emit(events.CapacityFreed{Queue: l.Job.Queue})
		return d
	}
	d.Requeue(l.Job, l.Task, l.Job.Plan.Version+1)
	if l.Cluster.Leaving == record.LeaveForOthers || l.Cluster.Leaving == record.LeaveMachine {
		d.Replan(l.Job, reason)
		return d
	}
	if l.Cluster.Leaving != "" {
		d.Replan(l.Job, "left spot in "+record.Where(l.Cluster.Offer)+": "+reason)
		return d
	}
	reason += " in " + record.Where(l.Cluster.Offer)
	if lost := record.Duration(l.Task.LostHours); lost >= time.Minute {
		reason += fmt.Sprintf(", %v of work lost on spot so far", readable.Rounded(lost))
	}
	d.Replan(l.Job, reason)
	return d
}

// lostHours returns the hours of work that are lost when a cloud takes a spot machine: the time since the start of
// the attempt, or since its last checkpoint. It returns 0 if the broker gave the machine up, unless the cloud took
// the machine before the task had saved its work. It returns 0 for replicas of services, because their time on a
// machine is not work that has to be repeated.
func (l *Losing) lostHours(outcome apitypes.Outcome, now time.Time) float64 {
	if l.Task.Service != "" || !l.Cluster.Offer.Spot || l.Attempt.Started.IsZero() || !l.ownsTask() {
		return 0
	}
	if l.Cluster.Leaving != "" && outcome != apitypes.OutcomePreempted && outcome != apitypes.OutcomeLost {
		return 0
	}
	since := l.Attempt.Started
	if l.Task.Checkpoint.Prefix != l.Attempt.ResumedFrom && l.Task.Checkpoint.At.After(since) {
		since = l.Task.Checkpoint.At
	}
	return record.Hours(max(now.Sub(since), 0))
}

// MaxSilent is the maximum number of attempts in a row that lose an agent without a checkpoint in between, although
// the cloud took no machine.
const MaxSilent = 6

// DecideSilent ends an attempt that has lost an agent although the cloud has taken no machine. After MaxSilent such
// attempts in a row the task fails: the task itself probably ends its agents, and more attempts would waste money.
func DecideSilent(l Losing, reason string, now time.Time) (d record.Decision) {
	if l.Task.Checkpoint.Prefix != l.Attempt.ResumedFrom { // this attempt has saved a checkpoint
		l.Task.Silent = 0
	}
	counts := l.ownsTask() && l.Task.Service == "" && l.Cluster.Outcome == "" && l.Cluster.State == record.ClusterUp
	if counts {
		l.Task.Silent++
		l.Task.Chunk = 0 // another member may be the cause
	}
	if !counts || l.Task.Silent < MaxSilent || l.Job.State == apitypes.JobEnding || l.Job.State.Finished() {
		return DecideLost(l, apitypes.OutcomeLost, reason, now)
	}
	l.Task.State, l.Task.Reason, l.Task.EndedAt = record.TaskFailed, reason, now
	d = l.finalFailure(
		apitypes.OutcomeLost,
		reason,
		fmt.Sprintf("it has lost its agent %d times in a row without a new checkpoint: it may need more memory than "+
			"its machines have. The last time: %s", l.Task.Silent, reason),
		now,
	)
	d.Put(record.TaskKey(l.Cluster.Job, l.Cluster.Task), l.Task)
	return d
}

// MaxFaults is the maximum number of attempts in a row that find a full disk without a checkpoint in between.
const MaxFaults = 3

// DecideFaulted ends an attempt that failed because a disk was full when its agent wrote. This is not the task's
// failure, so the task runs again elsewhere, and no retry is used up. After MaxFaults such attempts in a row the task
// fails, because it may need more room than its machines and stores have.
func DecideFaulted(l Losing, r wire.Report, now time.Time) (d record.Decision) {
	if l.Task.Checkpoint.Prefix != l.Attempt.ResumedFrom { // this attempt has saved a checkpoint
		l.Task.Faults = 0
	}
	reason := messageOf(r)
	counts := l.ownsTask() && l.Cluster.Outcome == ""
	if counts {
		l.Task.Faults++
		l.Task.Chunk = 0 // each member alone may fit on the disk
	}
	if !counts || l.Task.Faults < MaxFaults || l.Job.State == apitypes.JobEnding || l.Job.State.Finished() {
		return DecideLost(l, apitypes.OutcomeLost, reason, now)
	}
	what := "the disk of its machine was full"
	if r.Fault == wire.FaultStore {
		what = "the disk of a store was full"
	}
	l.Task.State, l.Task.Reason, l.Task.EndedAt = record.TaskFailed, reason, now
	d = l.finalFailure(apitypes.OutcomeLost, reason,
		fmt.Sprintf("%s; %s %d times in a row without a new checkpoint", reason, what, l.Task.Faults), now)
	d.Put(record.TaskKey(l.Cluster.Job, l.Cluster.Task), l.Task)
	return d
}

// finalFailure ends an attempt and makes its task fail without a retry. message is the reason.
func (l Losing) finalFailure(outcome apitypes.Outcome, reason, message string, now time.Time) (d record.Decision) {
	cl := l.Cluster
	cl.Outcome, cl.Reason = outcome, reason
	l.Attempt.Outcome, l.Attempt.Reason, l.Attempt.Ended = outcome, reason, now
	d.Put(record.ClusterKey(cl.ID), cl)
	d.Put(record.AttemptKey(cl.Job, cl.Task, cl.Attempt), l.Attempt)
	d.Emit(events.TaskFailed{Job: cl.Job, Task: cl.Task, Attempt: cl.Attempt, Cluster: cl.ID, ExitCode: -1, Final: true,
		Message: message})
	return d
}

// rejoin makes a task wait for the rest of its gang, or for a machine on which it resumes. If the task's plan is
// still the current one, the task keeps it. A plan that was made while the task ran has no offer for it.
func rejoin(d *record.Decision, job record.Job, task record.Task, reason string) {
	if job.Plan.Version == task.Plan {
		d.Wait(job, task, task.Plan)
		return
	}
	d.Wait(job, task, job.Plan.Version+1)
	d.Replan(job, reason)
}

// TakenBlock returns a block of the spot market that has just taken a machine, because that market has no spare
// capacity.
func TakenBlock(o apitypes.Offer, cfg config.Config, known []apitypes.Block, now time.Time) apitypes.Block {
	cause := cloud.Errorf(o.Cloud, cloud.Capacity, "SpotInterruption", "spot machines are being taken in %s",
		record.Where(o))
	o.Spot = true
	return blockFor(o, cloud.Capacity, cause, cfg, known, now)
}

// UnheardBlock returns a block of a location whose machines started but whose agents never called. More machines
// there would cost money and probably be silent, too.
func UnheardBlock(o apitypes.Offer, cfg config.Config, known []apitypes.Block, now time.Time) apitypes.Block {
	cause := cloud.Errorf(o.Cloud, cloud.Transient, "NoAgent", "no agent of the machines in %s has called",
		record.Where(o))
	return blockFor(o, cloud.Transient, cause, cfg, known, now)
}

// FaultBlock returns a block of a region in which a machine could not start because of settings of the account.
func FaultBlock(fault string) func(apitypes.Offer, config.Config, []apitypes.Block, time.Time) apitypes.Block {
	return func(o apitypes.Offer, cfg config.Config, known []apitypes.Block, now time.Time) apitypes.Block {
		cause := cloud.Errorf(o.Cloud, cloud.Capacity, "MachineFault", "%s", fault)
		cause.Scope = cloud.ScopeRegion
		return blockFor(o, cloud.Capacity, cause, cfg, known, now)
	}
}

// DecideLeave commands the agents of a cluster to save their work and stop. The task is then planned again.
func DecideLeave(cl record.Cluster, why record.Leaving, reason string, within time.Duration,
	now time.Time) (d record.Decision) {
	cl.State, cl.Since, cl.Until = record.ClusterDoomed, now, now.Add(within)
	cl.Leaving, cl.Reason = why, reason
	cl.Seq++
	cl.Command = string(wire.SaveAndStop)
	d.Put(record.ClusterKey(cl.ID), cl)
	return d
}

// TasksNow loads the job's tasks that have been ready, updated from their clusters, and the clusters. A task whose
// machines are being taken is returned as queued, because it must be planned like a queued task.
func TasksNow(u recordcache.Reader, job string) ([]record.Task, []record.Cluster, error) {
	tasks, err := recordcache.List[record.Task](u, record.JobPart(job), "task#", 0)
	if err != nil {
		return nil, nil, err
	}
	clusters, err := recordcache.List[record.Cluster](u, record.JobPart(job), record.ClusterPrefix, 0)
	if err != nil {
		return nil, nil, err
	}
	record.UpdateTasks(clusters, tasks)
	for _, cl := range clusters {
		if i, ok := record.TaskAt(tasks, cl.Task); ok && cl.Saving() && tasks[i].Attempt == cl.Attempt {
			tasks[i].State = record.TaskQueued
		}
	}
	return tasks, clusters, nil
}

// DecideVacate commands a cluster to save its work and stop, because the owner of its machines wants them back. A
// cluster that has started no work is ended at once.
func DecideVacate(l Losing, cfg config.Config, reason string, now time.Time) (d record.Decision) {
	switch {
	case l.Cluster.Outcome != "" || l.Cluster.State == record.ClusterDoomed ||
		l.Cluster.State == record.ClusterReleasing || l.Cluster.State == record.ClusterLaunching:
		return d // the cluster is ending, or will be checked again when it has started
	case l.Cluster.State == record.ClusterUp && l.Task.State == record.TaskRunning &&
		l.Task.Attempt == l.Cluster.Attempt:
		return DecideLeave(l.Cluster, record.LeaveMachine, reason, cfg.Overhead, now)
	default:
		l.Cluster.Leaving = record.LeaveMachine
		return DecideLost(l, apitypes.OutcomeMoved, reason, now)
	}
}

// CanLeave reports whether a cluster can be commanded to save its work and make room for other tasks.
func (l Losing) CanLeave(restart time.Duration, now time.Time) bool {
	return l.Cluster.State == record.ClusterUp && l.Cluster.Outcome == "" && l.Task.State == record.TaskRunning &&
		l.Task.Attempt == l.Cluster.Attempt && now.Sub(l.Cluster.Running) >= l.Task.Keeps(restart)
}
