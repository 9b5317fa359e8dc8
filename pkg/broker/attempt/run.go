package attempt

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// DecideRun tells the agents of a cluster to start, once.
func DecideRun(cl record.Cluster, now time.Time) (d record.Decision) {
	if cl.State != record.ClusterUp || cl.Command != "" {
		return d
	}
	cl.Run()
	if now.After(cl.Since) { // a decision may have waited for longer than its records
		cl.Since = now
	}
	d.Put(record.ClusterKey(cl.ID), cl)
	return d
}

// Assignment is what the nodes of a cluster have to run. It follows from records that do not change while the
// attempt lasts, except the checkpoint, which only this attempt writes.
func Assignment(cfg record.Config, job record.Job, spec *dag.Job, cl record.Cluster, task record.Task,
	attempt apitypes.Attempt, in Inherited) *wire.Assignment {
	t := &spec.Tasks[cl.Task]
	a := &wire.Assignment{
		Job: job.ID, JobName: job.Name, Task: t.Name, Attempt: cl.ID,
		Setup: t.Setup, Run: t.Run, Login: t.Login, Env: maps.Clone(t.Env), Accelerators: cl.Offer.AccelCount,
		Workdir: t.Workdir, Store: cmp.Or(cl.Store, cfg.StoreURL), Prefix: taskPrefix(job.ID, t.Name),
		Parents: in.Parents, Only: in.Only, Nothing: in.Nothing, Pace: cfg.Pace,
		Service: serviceOf(cfg, spec, cl.Task),
	}
	if a.Service == nil {
		a.KeepOnFailure = cfg.Wall(spec.KeepOnFailure)
	}
	if r := Alternative(t, cl.Offer); r != nil {
		a.Image = r.Container()
	}
	for _, n := range cl.Nodes {
		a.Nodes = append(a.Nodes, n.Address)
	}
	if t.Checkpoint != nil {
		a.Checkpoint = &wire.Checkpoint{
			Every: cfg.Wall(t.Checkpoint.Every), Path: t.Checkpoint.Path,
			Restore: from(cfg, cl, attempt.ResumedFrom), Next: task.Checkpoint.Seq + 1,
		}
	}
	if t.StandIn() {
		// Its files are only sizes: there is nothing to stage.
		a.StandIn = max(time.Duration(float64(t.Recorded)*cfg.StandInScale), 1) // no time at all, but a stand-in
		a.Progress, a.Workdir, a.Parents, a.Only, a.Nothing = attempt.Resumed, "", nil, nil, nil
		return a
	}
	for _, in := range t.Inputs {
		a.Inputs = append(a.Inputs, wire.Input{
			URI: in.URI, Path: in.Path, Mount: string(in.Mount), Source: in.Source,
		})
	}
	for _, out := range t.Outputs {
		a.Outputs = append(a.Outputs, wire.Output{
			Name: out.Name, Path: out.Path, URI: out.URI, OnFailure: out.OnFailure,
		})
	}
	return a
}

// from is what an agent is told of where something lies: a path in the store that its own attempt keeps its data in,
// else a URI.
func from(cfg record.Config, cl record.Cluster, where string) string {
	store := cmp.Or(cl.Store, cfg.StoreURL)
	if where == "" || store == cfg.StoreURL {
		return where
	}
	uri := cfg.At(where)
	if path, ok := strings.CutPrefix(uri, strings.TrimSuffix(store, "/")+"/"); ok {
		return path
	}
	return uri
}

// Alternative is the first of a task's that an offer is one of by its name and place; nil where there is none, as on
// machines of a pool.
func Alternative(t *dag.Task, o apitypes.Offer) *dag.Resources {
	is := func(asked, has string) bool { return asked == "" || strings.EqualFold(asked, has) }
	for i := range t.Resources {
		r := &t.Resources[i]
		if is(r.Cloud, o.Cloud) && is(r.Region, o.Region) && is(r.Zone, o.Zone) && is(r.InstanceType, o.InstanceType) &&
			is(r.Accelerator, o.Accelerator) {
			return r
		}
	}
	return nil
}

// taskPrefix is a task's own place in the job's store.
func taskPrefix(job, task string) string { return job + "/" + task }

// Inherited is what an agent is told of the outputs of its task's parents, by their names.
type Inherited struct {
	// Parents are where they lie, and Only the paths of what is read of those of which not all is.
	Parents map[string]string
	Only    map[string][]string
	// Nothing are parents that left nothing, or of which nothing is read.
	Nothing []string
}

// ParentOutputs finds where the outputs of the parents of a cluster's task lie, as its agent is told.
func ParentOutputs(u book.Reader, cfg record.Config, job record.Job, spec *dag.Job, cl record.Cluster) (Inherited,
	error) {
	in := Inherited{Parents: map[string]string{}, Only: map[string][]string{}}
	var parents []int32
	for _, k := range spec.EdgesTo(cl.Task) {
		edge := &spec.Edges[k]
		p := int32(edge.From) //nolint:gosec // a task of the job
		parent := &spec.Tasks[p]
		if parent.StandIn() {
			continue // its files are only sizes
		}
		paths, all := read(parent, edge.Outputs)
		switch {
		case all:
			parents = append(parents, p)
		case len(paths) == 0:
			in.Nothing = append(in.Nothing, parent.Name)
		default:
			parents = append(parents, p)
			in.Only[parent.Name] = paths
		}
	}
	found, err := LoadTasks(u, job, parents)
	for _, parent := range found {
		if name := spec.Tasks[parent.Index].Name; parent.Output != "" {
			in.Parents[name] = from(cfg, cl, parent.Output)
		} else {
			delete(in.Only, name)
			in.Nothing = append(in.Nothing, name)
		}
	}
	return in, err
}

// read tells which paths of a parent's output an edge carries, where it does not carry all of it.
func read(parent *dag.Task, outputs []string) (paths []string, all bool) {
	if outputs == nil {
		return nil, true
	}
	for i := range parent.Outputs {
		if out := &parent.Outputs[i]; slices.Contains(outputs, out.Name) {
			if path.Clean(out.Path) == "." {
				return nil, true
			}
			paths = append(paths, out.Path)
		}
	}
	return paths, false
}

// manyTasks is from how many on the tasks of a job may be read as pages of its partition: a request for so many keys
// brings less than a page, and a store that is paid by the record bills each key as much as several records of a page.
const manyTasks = 100

// LoadTasks loads those of a job's tasks that have a record, all together: pages of them where most are wanted.
func LoadTasks(u book.Reader, job record.Job, tasks []int32) (found []record.Task, err error) {
	if len(tasks) > manyTasks && len(tasks) > job.Tasks/8 {
		wanted := make([]bool, job.Tasks)
		for _, i := range tasks {
			wanted[i] = true
		}
		found, err = book.List[record.Task](u, record.JobPart(job.ID), "task#", 0)
		return slices.DeleteFunc(found, func(t record.Task) bool { return !wanted[t.Index] }), err
	}
	keys := make([]record.Key, len(tasks))
	for i, t := range tasks {
		keys[i] = record.TaskKey(job.ID, int(t))
	}
	if err := u.Preload(keys...); err != nil {
		return nil, err
	}
	for _, key := range keys {
		t, ok, err := book.Get[record.Task](u, key)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, t)
		}
	}
	return found, nil
}
