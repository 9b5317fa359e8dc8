package attempt

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// SpecOf returns the spec that a cluster runs. During an update of services, some clusters run the previous spec.
func SpecOf(u recordcache.Reader, job record.Job, cl record.Cluster) (*dag.Job, error) {
	job.Spec = job.SpecAt(cl.Spec)
	return u.Spec(job)
}

// SecretsOf returns the sealed secrets of the spec that a cluster runs.
func SecretsOf(u recordcache.Reader, job record.Job, cl record.Cluster) (s record.Secrets, found bool, err error) {
	version := job.SpecAt(cl.Spec).Version
	s, found, err = recordcache.Get[record.Secrets](u, record.SecretsKey(job.ID, version))
	if err == nil && !found && version > 1 { // an update made before each version had its own secrets
		return recordcache.Get[record.Secrets](u, record.SecretsKey(job.ID, 1))
	}
	return s, found, err
}

// Rolling is the input of the next step of an update. Replicas are replaced one after the other. Each step waits
// until the previous replica is ready, so an update never reduces the number of ready replicas.
type Rolling struct {
	Job      record.Job
	Spec     *dag.Job
	tasks    []record.Task
	clusters []record.Cluster
}

// LoadRolling loads the input of the next step of a job's update.
func LoadRolling(u recordcache.Reader, job record.Job, spec *dag.Job) (r *Rolling, err error) {
	r = &Rolling{Job: job, Spec: spec}
	r.tasks, r.clusters, err = TasksNow(u, job.ID)
	return r, err
}

// update replaces a cluster and its task by their new values, which are not committed yet.
func (r *Rolling) update(cl record.Cluster, task record.Task) {
	for i := range r.clusters {
		if r.clusters[i].ID == cl.ID {
			r.clusters[i] = cl
		}
	}
	if i, ok := record.TaskAt(r.tasks, task.Index); ok {
		r.tasks[i] = task
	}
}

// cluster returns the cluster of a task's last attempt, or nil if it has none.
func (r *Rolling) cluster(t record.Task) *record.Cluster {
	for i := range r.clusters {
		if cl := &r.clusters[i]; cl.Task == t.Index && cl.Attempt == t.Attempt {
			return cl
		}
	}
	return nil
}

// Step hands over the first replica that runs an old version, if all replicas are ready. If none runs an old version,
// it marks the update as done.
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
			return d // a replica may be starting now with the previous spec
		}
		cl := r.cluster(r.tasks[at])
		if r.tasks[at].State != record.TaskRunning || cl == nil || !cl.Serves() {
			return d // continues when that replica is ready
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

// stopUpdate makes a job return to the previous spec, because the first replica of an update has ended before it was
// ready. The replica that it should have replaced keeps running until another one of the previous version has
// replaced it.
func stopUpdate(d *record.Decision, l Losing, name, reason string, now time.Time) {
	l.Job.StopUpdate(fmt.Sprintf("%s of version %d does not become ready: %s", name, l.Cluster.Spec, reason))
	d.PutJob(l.Job)
	l.Task.Misses, l.Task.ReadyAt = 0, now
	d.Requeue(l.Job, l.Task, l.Job.Plan.Version+1)
	d.Replan(l.Job, "the update was stopped: "+reason)
}
