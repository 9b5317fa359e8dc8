package attempt

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// SpecOf is the spec that a cluster runs: while services are updated, some run that of before.
func SpecOf(u book.Reader, job record.Job, cl record.Cluster) (*dag.Job, error) {
	job.Spec = job.SpecAt(cl.Spec)
	return u.Spec(job)
}

// SecretsOf are the sealed secrets of the spec that a cluster runs.
func SecretsOf(u book.Reader, job record.Job, cl record.Cluster) (s record.Secrets, found bool, err error) {
	version := job.SpecAt(cl.Spec).Version
	s, found, err = book.Get[record.Secrets](u, record.SecretsKey(job.ID, version))
	if err == nil && !found && version > 1 { // of an update from before versions had their own
		return book.Get[record.Secrets](u, record.SecretsKey(job.ID, 1))
	}
	return s, found, err
}

// Rolling is what the next step of an update is decided on: one replica is handed over after the other, each when the
// one before is ready, so that there are never fewer for the update.
type Rolling struct {
	Job      record.Job
	Spec     *dag.Job
	tasks    []record.Task
	clusters []record.Cluster
}

// LoadRolling loads what the next step of an update of a job is decided on.
func LoadRolling(u book.Reader, job record.Job, spec *dag.Job) (r *Rolling, err error) {
	r = &Rolling{Job: job, Spec: spec}
	r.tasks, r.clusters, err = TasksNow(u, job.ID)
	return r, err
}

// takes has a decision be on a cluster and its task as they are about to be.
func (r *Rolling) takes(cl record.Cluster, task record.Task) {
	for i := range r.clusters {
		if r.clusters[i].ID == cl.ID {
			r.clusters[i] = cl
		}
	}
	if i, ok := record.TaskAt(r.tasks, task.Index); ok {
		r.tasks[i] = task
	}
}

// cluster is that of the last attempt of a task; nil where it has none.
func (r *Rolling) cluster(t record.Task) *record.Cluster {
	for i := range r.clusters {
		if cl := &r.clusters[i]; cl.Task == t.Index && cl.Attempt == t.Attempt {
			return cl
		}
	}
	return nil
}

// Step hands over the first replica that does not run what it is to, if all are ready, and notes when all do.
func (r *Rolling) Step(now time.Time) (d record.Decision) {
	job := r.Job
	if !job.Update.Open() || job.State != apitypes.JobRunning || job.Suspended() != nil {
		return d
	}
	next := -1
	for i := range r.Spec.Tasks {
		if r.Spec.Tasks[i].Service == nil {
			continue
		}
		at, begun := record.TaskAt(r.tasks, i)
		if !begun {
			return d // it may begin at this very moment, by the spec of before
		}
		cl := r.cluster(r.tasks[at])
		if r.tasks[at].State != record.TaskRunning || cl == nil || !cl.Serves() {
			return d // it goes on when that is ready
		}
		if next < 0 && cl.Spec != job.Spec.Version {
			next = at
		}
	}
	if next < 0 {
		job.Update.Done = now
		d.PutJob(job)
		return d
	}
	reason := fmt.Sprintf("updated to version %d", job.Spec.Version)
	if job.Update.Failed != "" {
		reason = "the update was stopped"
	}
	handOver(&d, Losing{Job: job, Task: r.tasks[next]}, job.Plan.Version+1, reason, now)
	return d
}

// stopUpdate has a job go by the spec of before, as the first replica of an update has ended before it was ready. The
// one that it was to replace goes on until another one of before has taken its place.
func stopUpdate(d *record.Decision, l Losing, name, reason string, now time.Time) {
	l.Job.StopUpdate(fmt.Sprintf("%s of version %d does not become ready: %s", name, l.Cluster.Spec, reason))
	d.PutJob(l.Job)
	l.Task.Misses, l.Task.ReadyAt = 0, now
	d.Requeue(l.Job, l.Task, l.Job.Plan.Version+1)
	d.Replan(l.Job, "the update was stopped: "+reason)
}
