package broker

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// bringUp notes that every node of a cluster has dialled home, and hands its work to the agents in the same commit: nothing else has to be looked at
// (decision 6). That of a gang is execute's, which looks at all of it. A cluster that is given up already, as its attempt or its job is over, is only
// waiting to be released.
func (d *Decision) bringUp(job Job, task Task, cl *Cluster, now time.Time) {
	cl.State, cl.Since, cl.Up = ClusterUp, now, now
	switch {
	case cl.Outcome != "" || job.State == JobEnding || job.State.Over():
	case task.Gang != "":
		d.emit(events.ClusterUp{Cluster: cl.ID, Job: cl.Job})
	default:
		cl.run()
	}
}

// execute hands the work to the agents of a gang that is up: they poll for it.
func (b *Broker) execute(u *unit, data events.Data) error {
	e, ok := data.(events.ClusterUp)
	if !ok {
		return unexpected(events.FnExecute, data)
	}
	cl, found, err := get[Cluster](u, clusterKey(e.Cluster))
	if err != nil || !found {
		return orSkip(err)
	}
	return b.start(u, cl)
}

// decideRun tells the agents of a cluster to start, once.
func decideRun(cl Cluster, now time.Time) (d Decision) {
	if cl.State != ClusterUp || cl.Command != "" {
		return d
	}
	cl.run()
	cl.Since = now
	d.put(clusterKey(cl.ID), cl)
	return d
}

// run tells the agents of a cluster to start.
func (cl *Cluster) run() {
	cl.Seq++
	cl.Command = string(wire.Run)
}

// assignment is what the nodes of a cluster have to run. It follows from records that do not change while the
// attempt lasts, except the checkpoint, which only this attempt writes.
func assignment(cfg Config, job Job, spec *dag.Job, cl Cluster, task Task, attempt Attempt, parents map[string]string) *wire.Assignment {
	t := &spec.Tasks[cl.Task]
	a := &wire.Assignment{
		Job: job.ID, JobName: job.Name, Task: t.Name, Attempt: cl.ID,
		Setup: t.Setup, Run: t.Run, Env: maps.Clone(t.Env), Accelerators: cl.Offer.AccelCount,
		Workdir: t.Workdir, Store: cfg.StoreURL, Prefix: taskPrefix(job.ID, t.Name), Parents: parents, Pace: cfg.Pace,
	}
	for _, n := range cl.Nodes {
		a.Nodes = append(a.Nodes, n.Address)
	}
	if t.Checkpoint != nil {
		a.Checkpoint = &wire.Checkpoint{
			Every: cfg.wall(t.Checkpoint.Every), Path: t.Checkpoint.Path,
			Restore: attempt.ResumedFrom, Next: task.Checkpoint.Seq + 1,
		}
	}
	if t.StandIn() {
		// Its files are only sizes: there is nothing to stage.
		a.StandIn = max(time.Duration(float64(t.Recorded)*cfg.StandInScale), 1) // no time at all, but a stand-in
		a.Progress, a.Workdir, a.Parents = attempt.Resumed, "", nil
		return a
	}
	for _, in := range t.Inputs {
		a.Inputs = append(a.Inputs, wire.Input{URI: in.URI, Path: in.Path})
	}
	for _, out := range t.Outputs {
		a.Outputs = append(a.Outputs, wire.Output{Name: out.Name, Path: out.Path, URI: out.URI})
	}
	return a
}

// taskPrefix is a task's own place in the job's store.
func taskPrefix(job, task string) string { return job + "/" + task }

// parentOutputs finds where the outputs of a task's parents lie.
func parentOutputs(u reader, job Job, spec *dag.Job, task int) (map[string]string, error) {
	parents := slices.DeleteFunc(slices.Clone(spec.Graph().Parents(task)), func(p int32) bool {
		return spec.Tasks[p].StandIn() // its files are only sizes
	})
	found, err := loadTasks(u, job, parents)
	out := make(map[string]string, len(found))
	for _, parent := range found {
		if parent.Output != "" {
			out[spec.Tasks[parent.Index].Name] = parent.Output
		}
	}
	return out, err
}

// manyTasks is from how many on the tasks of a job may be read as pages of its partition: a request for so many keys
// brings less than a page, and a store that is paid by the record bills each key as much as several records of a page.
const manyTasks = 100

// loadTasks loads those of a job's tasks that have a record, all together: pages of them where most are wanted.
func loadTasks(u reader, job Job, tasks []int32) (found []Task, err error) {
	if len(tasks) > manyTasks && len(tasks) > job.Tasks/8 {
		wanted := make([]bool, job.Tasks)
		for _, i := range tasks {
			wanted[i] = true
		}
		found, err = list[Task](u, jobPart(job.ID), "task#", 0)
		return slices.DeleteFunc(found, func(t Task) bool { return !wanted[t.Index] }), err
	}
	keys := make([]store.Key, len(tasks))
	for i, t := range tasks {
		keys[i] = taskKey(job.ID, int(t))
	}
	if err := u.preload(keys...); err != nil {
		return nil, err
	}
	for _, key := range keys {
		t, ok, err := get[Task](u, key)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, t)
		}
	}
	return found, nil
}

// progressOf is what of a task's work need not be done again: known of stand-ins, estimated by time for
// tasks that keep checkpoints.
func progressOf(t *dag.Task, task Task, attempt Attempt, saved time.Time) float64 {
	if t.StandIn() || t.Checkpoint == nil || attempt.Started.IsZero() {
		return task.Progress
	}
	total := t.Time.For(attempt.Offer.InstanceType, attempt.Offer.Accelerator, attempt.Offer.AccelCount)
	done := attempt.Resumed + saved.Sub(attempt.Started).Seconds()/max(total.Seconds(), 1)
	// An estimate of the author's: never believed to the end.
	return math.Max(task.Progress, math.Min(done, maxEstimatedProgress))
}

const maxEstimatedProgress = 0.95
