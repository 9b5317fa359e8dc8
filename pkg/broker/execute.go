package broker

import (
	"maps"
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/dag"
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
func (b *Broker) assignment(job Job, spec *dag.Job, cl Cluster, task Task, attempt Attempt, parents map[string]string) *wire.Assignment {
	t := &spec.Tasks[cl.Task]
	a := &wire.Assignment{
		Job: job.ID, JobName: job.Name, Task: t.Name, Attempt: cl.ID,
		Setup: t.Setup, Run: t.Run, Env: maps.Clone(t.Env), Accelerators: cl.Offer.AccelCount,
		Workdir: t.Workdir, Store: b.cfg.StoreURL, Prefix: taskPrefix(job.ID, t.Name), Parents: parents, Pace: b.cfg.Pace,
	}
	for _, n := range cl.Nodes {
		a.Nodes = append(a.Nodes, n.Address)
	}
	if t.Checkpoint != nil {
		a.Checkpoint = &wire.Checkpoint{
			Every: b.cfg.wall(t.Checkpoint.Every), Path: t.Checkpoint.Path,
			Restore: attempt.ResumedFrom, Next: task.Checkpoint.Seq + 1,
		}
	}
	if t.StandIn() {
		// Its files are only sizes: there is nothing to stage.
		a.StandIn = max(time.Duration(float64(t.Recorded)*b.cfg.StandInScale), 1) // no time at all, but a stand-in
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
func (b *Broker) parentOutputs(u *unit, job Job, spec *dag.Job, task int) (map[string]string, error) {
	out := map[string]string{}
	for _, p := range spec.Graph().Parents(task) {
		if spec.Tasks[p].StandIn() {
			continue // its files are only sizes
		}
		parent, found, err := get[Task](u, taskKey(job.ID, int(p)))
		if err != nil {
			return nil, err
		}
		if found && parent.Output != "" {
			out[spec.Tasks[p].Name] = parent.Output
		}
	}
	return out, nil
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
