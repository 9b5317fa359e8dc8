package attempt

import (
	"fmt"
	"net"
	"slices"
	"strconv"
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

// A replica of a service has no work to save, and is replaced before it ends: its task is handed over. The task waits
// in its queue and is admitted again while the previous attempt still runs. The previous attempt ends when the new
// one is ready, or when its machine is preempted.

// Times and limits for probing and replacing replicas. Times are by the broker's clock.
const (
	probeEvery = 10 * time.Second
	// unreadyFor is the time for which a replica that is no longer ready keeps running while another one replaces it.
	unreadyFor = 10 * time.Minute
	// drainFor is the time that a replica has to end after the command to end.
	drainFor = 2 * time.Minute
	// settledAfter is the time for which a replica must have been ready before its earlier failures are forgotten.
	settledAfter = 10 * time.Minute
	// MaxMisses is the maximum number of attempts in a row that may end before they are ready, if no other replica is
	// ready.
	MaxMisses = 6
	// backOff is the wait before the next attempt after the second failure in a row. It doubles after each further
	// failure, up to maxBackOff.
	backOff, maxBackOff = 30 * time.Second, 10 * time.Minute
)

// Minimum times for programs, even if the broker's time is compressed.
const (
	leastDelay = 10 * time.Second
	leastEvery = 200 * time.Millisecond
)

// serviceOf returns the part of a service that the nodes of a replica need, or nil for a task that is not a replica.
func serviceOf(cfg config.Config, spec *dag.Job, task int) *wire.Service {
	s := spec.Tasks[task].Service
	if s == nil {
		return nil
	}
	r, every := &s.Readiness, max(cfg.Wall(probeEvery), leastEvery)
	return &wire.Service{
		Name: s.Of, Replica: slices.Index(spec.Replicas(task), task), Port: s.Port, Path: r.Path, Post: r.Post,
		Headers: r.Headers, InitialDelay: max(cfg.Wall(r.Delay()), min(r.Delay(), leastDelay)), Every: every,
		Timeout: r.Patience(), Patience: max(cfg.Wall(unreadyFor), 2*wire.UnreadyAfter*every),
	}
}

// Serving is the additional input of the decision on a replica's report.
type Serving struct {
	older  []Losing // earlier attempts of the same task that still run
	others bool     // another replica of its service is ready
	ledger record.Ledger
	// rolling is nil if no update is in progress.
	rolling *Rolling
}

// LoadServing loads the additional input of the decision on a replica's report.
func (st *Reporting) LoadServing(u recordcache.Reader, spec *dag.Job) (err error) {
	cl := &st.Cluster
	if st.Attempt, _, err = recordcache.Get[apitypes.Attempt](
		u,
		record.AttemptKey(cl.Job, cl.Task, cl.Attempt),
	); err != nil {
		return err
	}
	cl.UpdateAttempt(&st.Attempt)
	if st.serving.ledger, _, err = recordcache.Get[record.Ledger](u, record.LedgerKey(cl.Job)); err != nil {
		return err
	}
	all, err := recordcache.List[record.Cluster](u, record.JobPart(cl.Job), record.ClusterPrefix, 0)
	if err != nil {
		return err
	}
	if st.Job.Update.Open() {
		if st.serving.rolling, err = LoadRolling(u, st.Job, spec); err != nil {
			return err
		}
	}
	of := spec.Replicas(cl.Task)
	for i := range all {
		switch other := &all[i]; {
		case other.ID == cl.ID || !slices.Contains(of, other.Task):
		case other.Task == cl.Task && other.Attempt < cl.Attempt && Holds(*other):
			l, found, err := LoadLosing(u, other.ID)
			if err != nil {
				return err
			}
			if found {
				st.serving.older = append(st.serving.older, l)
			}
			st.serving.others = st.serving.others || other.Serves()
		default:
			st.serving.others = st.serving.others || other.Serves()
		}
	}
	return nil
}

// ownsTask reports whether the task of a replica still belongs to this attempt, and was not handed over.
func (l Losing) ownsTask() bool {
	return l.Task.Attempt == l.Cluster.Attempt && l.Task.State != record.TaskQueued
}

// losing returns the same records as a Losing.
func (st *Reporting) losing() Losing {
	return Losing{Job: st.Job, Task: st.Task, Attempt: st.Attempt, Cluster: st.Cluster}
}

// replicaReady records that a replica is ready, and ends the attempts that it replaces.
func (st *Reporting) replicaReady(r wire.Report, cfg config.Config) (d record.Decision) {
	cl := &st.Cluster
	if cl.Outcome != "" || st.Rank != 0 {
		d.Put(record.ClusterKey(cl.ID), *cl)
		return d
	}
	cl.Ready, cl.Unready = st.Now, ""
	if host := cl.Nodes[0].Address; r.Port > 0 {
		cl.Reached = net.JoinHostPort(host, strconv.Itoa(r.Port))
	}
	d.Put(record.ClusterKey(cl.ID), *cl)
	if cl.State == record.ClusterDoomed {
		return d
	}
	outdated := st.Job.Update.Open() && cl.Spec != st.Job.Spec.Version
	if st.Task.Attempt == cl.Attempt && st.Task.State == record.TaskQueued && !outdated { // no replacement is needed
		d.Del(record.WaitKey(st.Job.Queue, record.WaitingOf(st.Job, st.Task)))
		st.Task.State, st.Task.StartedAt = record.TaskRunning, cl.Running
		d.Put(record.TaskKey(cl.Job, cl.Task), st.Task)
	}
	for _, l := range st.serving.older {
		more := endReplica(
			l,
			record.LeaveReplaced,
			fmt.Sprintf("attempt %d has taken its place", cl.Attempt),
			cfg,
			st.Now,
		)
		d.Add(more)
	}
	if r := st.serving.rolling; r != nil {
		r.update(*cl, st.Task)
		d.Add(r.Step(st.Now))
	}
	return d
}

// endReplica ends a replica and gives it time to answer its open requests. A replica that does not run yet ends at
// once.
func endReplica(l Losing, why record.Leaving, reason string, cfg config.Config, now time.Time) record.Decision {
	if l.Cluster.Command == "" {
		l.Cluster.Leaving = why
		return DecideLost(l, apitypes.OutcomeMoved, reason, now)
	}
	return DecideLeave(l.Cluster, why, reason, min(drainFor, cfg.Overhead), now)
}

// replicaUnready records that a replica is no longer ready, and replaces it. The replica keeps running meanwhile,
// unless the budget is too small for two.
func (st *Reporting) replicaUnready(r wire.Report, cfg config.Config) (d record.Decision) {
	cl := &st.Cluster
	if cl.Outcome == "" && st.Rank == 0 {
		cl.Ready, cl.Unready = time.Time{}, readable.ClipMessage(r.Message)
	}
	l := st.losing()
	if cl.Outcome != "" || cl.State != record.ClusterUp || !l.ownsTask() || st.Job.State != apitypes.JobRunning ||
		st.Job.Suspended() != nil {
		d.Put(record.ClusterKey(cl.ID), *cl)
		return d
	}
	reason := "no longer ready: " + cl.Unready
	left := st.Job.BudgetUSD - st.serving.ledger.SpentUSD - st.serving.ledger.ReservedUSD
	if st.Job.BudgetUSD > 0 && left < st.Attempt.ReservedUSD {
		l.Cluster = *cl
		return endReplica(l, record.LeaveUnready, reason, cfg, st.Now)
	}
	d.Put(record.ClusterKey(cl.ID), *cl)
	handOver(&d, l, st.Job.Plan.Version, reason, st.Now)
	d.Emit(events.CapacityFreed{Queue: st.Job.Queue})
	return d
}

// handOver makes a replica's task wait for its next admission while its attempt still runs. The admission needs a
// plan of version minPlan or newer.
func handOver(d *record.Decision, l Losing, minPlan int, reason string, now time.Time) {
	l.Task.ReadyAt = now
	if minPlan <= l.Job.Plan.Version {
		rejoin(d, l.Job, l.Task, reason)
		return
	}
	d.Requeue(l.Job, l.Task, minPlan)
	d.Replan(l.Job, reason)
}

// replicaEnded ends the attempt of a replica that ended by itself, and replaces it. If attempts repeatedly fail
// before they are ready, the job fails. If another replica is ready, the attempts continue instead.
func (st *Reporting) replicaEnded(r wire.Report) (d record.Decision) {
	cl := &st.Cluster
	l, never := st.losing(), cl.Ready.IsZero() && cl.Unready == ""
	reason := fmt.Sprintf("it ended with exit code %d", r.ExitCode)
	switch {
	case r.Event == wire.Failed && r.ExitCode == 0:
		reason = r.Message
	case r.Message != "":
		reason += ": " + r.Message
	}
	if r.Phase != "" && r.Phase != wire.PhaseRun {
		reason = r.Phase + ": " + reason
	}
	current := l.ownsTask()
	cl.Outcome, cl.Reason = apitypes.OutcomeFailed, reason
	st.Attempt.Outcome, st.Attempt.Reason, st.Attempt.Ended = apitypes.OutcomeFailed, reason, st.Now
	d.Put(record.ClusterKey(cl.ID), *cl)
	d.Put(record.AttemptKey(cl.Job, cl.Task, cl.Attempt), st.Attempt)
	lost := events.ClusterLost{Cluster: cl.ID, Job: cl.Job, Reason: reason}
	if !current || st.Job.State == apitypes.JobEnding || st.Job.State.Finished() {
		d.Emit(lost)
		return d
	}
	if !never {
		if st.Task.Misses++; st.Now.Sub(cl.Ready) >= settledAfter && !cl.Ready.IsZero() {
			st.Task.Misses = 0
		}
		d.Emit(lost)
		l.Task = st.Task
		restartReplica(&d, l, reason, st.Now)
		return d
	}
	more, failed := countMiss(l, st.Spec, st.serving.others, r.ExitCode, reason, st.Now)
	if !failed {
		d.Emit(lost)
	}
	d.Add(more)
	return d
}

// countMiss replaces an attempt that has ended before it was ready. If it was the first attempt of an update, the
// update is stopped. After MaxMisses such attempts in a row, if no other replica is ready, the task and its job fail.
func countMiss(l Losing, spec *dag.Task, others bool, exitCode int, reason string,
	now time.Time) (d record.Decision, failed bool) {
	cl := &l.Cluster
	if u := &l.Job.Update; u.Open() && u.Failed == "" && cl.Spec == u.Spec {
		stopUpdate(&d, l, spec.Name, reason, now)
		return d, false
	}
	if l.Task.Misses++; l.Task.Misses >= MaxMisses && !others {
		l.Task.State, l.Task.Reason, l.Task.EndedAt = record.TaskFailed, reason, now
		d.Put(record.TaskKey(cl.Job, cl.Task), l.Task)
		d.Emit(events.TaskFailed{Job: cl.Job, Task: cl.Task, Attempt: cl.Attempt, Cluster: cl.ID,
			ExitCode: exitCode, Final: true,
			Message: fmt.Sprintf("service %s does not come up: it has ended %d times in a row before it was ready; "+
				"the last time: %s", spec.Service.Of, l.Task.Misses, reason)})
		return d, true
	}
	restartReplica(&d, l, reason, now)
	return d, false
}

// restartReplica makes a replica wait before its next admission. The wait becomes longer after each failure in a row.
func restartReplica(d *record.Decision, l Losing, reason string, now time.Time) {
	l.Task.NotBefore = now.Add(waitAfter(l.Task.Misses))
	l.Task.ReadyAt = now
	rejoin(d, l.Job, l.Task, reason)
}

// LoadRefused loads the input of the decision on a refused launch. It fails with ErrSkip if the decision was made
// before.
func LoadRefused(u recordcache.Reader, job string, task, attempt int) (st Buying, err error) {
	if st, err = LoadBuying(u, job, task, attempt); err != nil {
		return st, err
	}
	if !st.Exists || st.Cluster.State != record.ClusterLaunching || st.Cluster.Outcome != "" {
		return st, record.ErrSkip
	}
	if st.Spec.Service == nil {
		return st, nil
	}
	all, err := recordcache.List[record.Cluster](u, record.JobPart(job), record.ClusterPrefix, 0)
	of := st.job.Replicas(task)
	st.others = slices.ContainsFunc(all, func(cl record.Cluster) bool {
		return slices.Contains(of, cl.Task) && cl.Serves()
	})
	return st, err
}

// replicaRefused handles a replica that no cloud can launch, for example because its image does not exist. It counts
// as an attempt that ended before it was ready, because replicas of another version may keep running.
func (st *Buying) replicaRefused(reason string, now time.Time) (d record.Decision) {
	l := Losing{Job: st.Job, Task: st.task, Attempt: st.Attempt, Cluster: st.Cluster}
	if !l.ownsTask() || st.Job.State == apitypes.JobEnding || st.Job.State.Finished() {
		return d
	}
	d, _ = countMiss(l, st.Spec, st.others, -1, reason, now)
	return d
}

// waitAfter returns the wait of a replica after a number of failures in a row.
func waitAfter(misses int) time.Duration {
	if misses < 2 {
		return 0
	}
	return min(backOff<<min(misses-2, 16), maxBackOff)
}
