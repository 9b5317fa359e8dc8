package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// fnVisit names the source of the changes that users' visits to machines cause.
const fnVisit = "visit"

// VisitRequest is the machine that a user wants to visit, and the kind of the visit.
type VisitRequest struct {
	Job, Task string
	Rank      int
	Kind      string
	Command   []string // only recorded in the job's history
	Port      int
}

// OpenVisit records a user's visit to a machine of a running task, so that the machine's agent sees it. It fails with
// ErrNotFound, or with ErrVisit and the reason.
func (b *Users) OpenVisit(ctx context.Context, v VisitRequest) (cluster string, opened record.Visit, err error) {
	err = b.txns.Transact(ctx, fnVisit, "open/"+v.Job, false, func(u *txn.Unit) error {
		job, found, err := recordcache.Get[record.Job](u, record.JobKey(v.Job))
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("%w: job %s", record.ErrNotFound, v.Job)
		}
		spec, err := u.Spec(job)
		if err != nil {
			return err
		}
		index := slices.IndexFunc(spec.Tasks, func(t dag.Task) bool { return t.Name == v.Task })
		if index < 0 {
			return fmt.Errorf("%w: job %s has no task %q", record.ErrNotFound, v.Job, v.Task)
		}
		cl, err := visitedCluster(u, job, index, v)
		if err != nil {
			return err
		}
		before, err := recordcache.List[record.Visit](
			u,
			record.JobPart(job.ID),
			record.VisitPrefix(index, cl.Attempt),
			0,
		)
		if err != nil {
			return err
		}
		what, err := b.masked(u, job, cl, strings.Join(v.Command, " "))
		if err != nil {
			return err
		}
		opened = record.Visit{Number: cl.Visits + 1, Task: index, Attempt: cl.Attempt, Rank: v.Rank, Kind: v.Kind,
			What: what, Port: v.Port, Opened: u.Now}
		cluster = cl.ID
		d, err := decideVisit(cl, before, opened)
		if err != nil {
			return err
		}
		return u.Apply(d)
	})
	return cluster, opened, err
}

// decideVisit opens a visit unless there are too many.
func decideVisit(cl record.Cluster, before []record.Visit, v record.Visit) (d record.Decision, err error) {
	open := 0
	for _, b := range before {
		if b.Ended.IsZero() {
			open++
		}
	}
	switch {
	case open >= record.MaxOpenVisits:
		return d, fmt.Errorf("%w: %d sessions are open on this attempt, the maximum; end one of them",
			record.ErrVisit, open)
	case cl.Visits >= record.MaxVisits:
		return d, fmt.Errorf("%w: this attempt has had %d sessions, the maximum", record.ErrVisit, cl.Visits)
	}
	cl.Visits++
	d.Put(record.ClusterKey(cl.ID), cl)
	d.Put(record.VisitKey(cl.Job, cl.Task, cl.Attempt, v.Number), v)
	return d, nil
}

// visitedCluster returns the cluster that a task runs on.
func visitedCluster(u *txn.Unit, job record.Job, index int, v VisitRequest) (cl record.Cluster, err error) {
	t, _, err := recordcache.Get[record.Task](u, record.TaskKey(job.ID, index))
	if err != nil {
		return cl, err
	}
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: task %s %s", record.ErrVisit, v.Task, fmt.Sprintf(format, args...))
	}
	if t.Attempt == 0 {
		if t.State == "" { // a task has no record until it is ready
			return cl, refuse("has not been tried yet: it waits for other tasks")
		}
		return cl, refuse("has not been tried yet: it is %s", t.State)
	}
	cl, found, err := recordcache.Get[record.Cluster](u, record.ClusterKey(record.ClusterID(job.ID, index, t.Attempt)))
	if err == nil && (!found || cl.State != record.ClusterUp) { // the machines of an earlier attempt may be kept
		var kept bool
		if cl, kept, err = newestKept(u, job, index, cl); kept {
			found = true
		}
	}
	switch {
	case err != nil:
	case !found || cl.Released() || cl.Outcome != "" && !cl.Kept(u.Now):
		cl.UpdateTask(&t)
		err = refuse("does not run: it is %s", taskState(job, t))
	case cl.State != record.ClusterUp && cl.State != record.ClusterDoomed:
		err = refuse("does not run yet: its machines are %s", cl.State)
	case v.Rank < 0 || v.Rank >= len(cl.Nodes):
		err = refuse("has no rank %d: its last is %d", v.Rank, len(cl.Nodes)-1)
	}
	return cl, err
}

// taskState returns the state of a task as text for users. The record of a task that was cancelled with its job keeps
// its old state.
func taskState(job record.Job, t record.Task) string {
	ended := job.State == apitypes.JobEnding || job.State.Finished()
	if ended && t.State != record.TaskSucceeded && t.State != record.TaskFailed {
		return string(apitypes.JobCancelled)
	}
	return string(t.State)
}

// newestKept returns the newest kept cluster of a task, or the given cluster if there is none.
func newestKept(u *txn.Unit, job record.Job, index int, cl record.Cluster) (record.Cluster, bool, error) {
	all, err := recordcache.List[record.Cluster](u, record.JobPart(job.ID), record.ClusterPrefix, 0)
	found := false
	for _, c := range all {
		if c.Task == index && c.Kept(u.Now) && (!found || c.Attempt > cl.Attempt) {
			cl, found = c, true
		}
	}
	return cl, found, err
}

// masked returns a command line for the job's history. The job's secrets are masked, and it is cut to a maximum
// length.
func (b *Users) masked(u *txn.Unit, job record.Job, cl record.Cluster, line string) (string, error) {
	kept, found, err := attempt.SecretsOf(u, job, cl)
	if err != nil {
		return "", err
	}
	if spec, err := attempt.SpecOf(u, job, cl); err == nil && found && b.ports.Secrets != nil && line != "" {
		values, err := b.ports.Secrets.Open(u.Ctx, job.ID, kept.Sealed, spec.SecretNames())
		if err != nil {
			line = "(hidden, as the job's secrets cannot be read now)"
		}
		var secrets []string
		for _, s := range values {
			secrets = append(secrets, s)
		}
		line = secret.NewMask(secrets...).String(line)
	}
	return clip(line), nil
}

func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), record.MaxVisitText)], "")
}

// Visits returns the visits to a node that have not ended. It leaves out those with a visit number of at most after.
func (b *Agents) Visits(ctx context.Context, c wire.Claims, after int) ([]record.Visit, error) {
	u := b.txns.NewUnit(ctx, fnVisit)
	cl, err := ownCluster(u, c)
	if err != nil {
		return nil, err
	}
	all, err := recordcache.List[record.Visit](u, record.JobPart(cl.Job), record.VisitPrefix(cl.Task, cl.Attempt), 0)
	return slices.DeleteFunc(all, func(v record.Visit) bool {
		return v.Number <= after || v.Rank != c.Rank || !v.Ended.IsZero()
	}), err
}

// Visit returns a visit that has not ended, of an attempt that runs. It fails with ErrNotFound, and with ErrGone when
// the visit has ended.
func (b *Agents) Visit(ctx context.Context, cluster string, number int) (v record.Visit, err error) {
	task, attempt, ok := record.ClusterAttempt(cluster)
	if !ok {
		return v, fmt.Errorf("%w: visit", record.ErrNotFound)
	}
	u := b.txns.NewUnit(ctx, fnVisit)
	if err := u.Preload(record.ClusterKey(cluster),
		record.VisitKey(record.ClusterJob(cluster), task, attempt, number)); err != nil {
		return v, err
	}
	cl, alive, err := recordcache.Get[record.Cluster](u, record.ClusterKey(cluster))
	if err != nil {
		return v, err
	}
	v, found, err := recordcache.Get[record.Visit](
		u,
		record.VisitKey(record.ClusterJob(cluster), task, attempt, number),
	)
	switch {
	case err != nil:
	case !found:
		err = fmt.Errorf("%w: visit %d", record.ErrNotFound, number)
	case !v.Ended.IsZero() || !alive || cl.Released():
		err = record.ErrGone
	}
	return v, err
}

// EndVisit records that a visit has ended, and how. Calling it again does nothing.
func (b *Agents) EndVisit(ctx context.Context, cluster string, number int, how wire.VisitEnded) error {
	err := b.txns.Transact(ctx, fnVisit, fmt.Sprintf("end/%s/%d", cluster, number), false, func(u *txn.Unit) error {
		task, attempt, _ := record.ClusterAttempt(cluster)
		key := record.VisitKey(record.ClusterJob(cluster), task, attempt, number)
		v, found, err := recordcache.Get[record.Visit](u, key)
		if err != nil || !found || !v.Ended.IsZero() {
			return record.OrSkip(err)
		}
		v.Ended, v.Exit, v.Reason = u.Now, how.Exit, clip(how.Reason)
		var d record.Decision
		d.Put(key, v)
		return u.Apply(d)
	})
	if errors.Is(err, record.ErrSkip) {
		err = nil
	}
	return err
}
