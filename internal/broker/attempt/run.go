package attempt

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/internal/sparkrun"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// DecideRun commands the agents of a cluster to start. Repeating it changes nothing.
func DecideRun(cl record.Cluster, now time.Time) (d record.Decision) {
	if cl.State != record.ClusterUp || cl.Command != "" {
		return d
	}
	cl.Run()
	if now.After(cl.Since) { // if the decision had to wait, now may be older than the records
		cl.Since = now
	}
	d.Put(record.ClusterKey(cl.ID), cl)
	return d
}

// Assignment returns the work of a cluster's nodes. It is made from records that do not change during the attempt,
// except the checkpoint, which only this attempt writes.
func Assignment(cfg config.Config, job record.Job, spec *dag.Job, cl record.Cluster, task record.Task,
	attempt apitypes.Attempt, in Inherited) *wire.Assignment {
	t := &spec.Tasks[cl.Task]
	a := &wire.Assignment{
		Job: job.ID, JobName: job.Name, Task: t.Name, Attempt: cl.ID,
		Setup: t.Setup, Run: t.Run, Login: t.Login, Timeout: cfg.Wall(t.Timeout), Env: maps.Clone(t.Env),
		Accelerators: cl.Offer.AccelCount,
		Workdir:      t.Workdir, Store: cmp.Or(cl.Store, cfg.StoreURL), Prefix: taskPrefix(job.ID, t.Name),
		Parents: in.Parents, PartialParents: in.Only, EmptyParents: in.Nothing, ListedParents: in.Listed,
		Pace:    cfg.Pace,
		Service: serviceOf(cfg, spec, cl.Task),
	}
	if a.Store != cfg.StoreURL {
		a.Packs = cfg.StoreURL
	}
	if t.Worker != nil {
		return workerAssignment(a, cl, attempt)
	}
	if t.Spark != nil {
		a.Run, a.FirstHasOutputs = sparkrun.Script(t.Spark), true
	}
	if member := spec.MemberEnv(cl.Task); member != nil {
		a.Env = dag.MergeEnv(a.Env, member)
	}
	if cl.Quiet {
		a.Pace.Quiet = cfg.Wall(min(quietMost*time.Duration(1+cl.Chunk), max(cfg.Chunk, quietMost)))
	}
	a.MemoryBytes, a.VCPUs = limits(cfg, t, cl, attempt)
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
			Restore: locationFor(cfg, cl, attempt.ResumedFrom), Next: task.Checkpoint.Seq + 1,
		}
	}
	if t.StandIn() {
		// A stand-in's files have only sizes, so nothing is staged.
		took := float64(t.Recorded)
		if cl.Offer.Accelerator == "" && cl.Offer.Speed > 0 {
			took /= cl.Offer.Speed // as in the plan
		}
		a.StandIn = max(time.Duration(took*cfg.StandInScale), 1) // 0 would mean that the task is no stand-in
		a.Progress, a.Workdir, a.Parents, a.PartialParents, a.EmptyParents = attempt.Resumed, "", nil, nil, nil
		a.ListedParents = nil
		return a
	}
	a.Inputs, a.Outputs = inputsOf(t), outputsOf(t)
	for i := cl.Task + 1; i <= cl.Task+cl.Chunk; i++ {
		m := &spec.Tasks[i]
		a.Chunk = append(a.Chunk, wire.ChunkMember{
			Task: m.Name, Attempt: record.ClusterID(job.ID, i, cl.Attempt), Prefix: taskPrefix(job.ID, m.Name),
			Env: spec.MemberEnv(i), Inputs: inputsOf(m), Outputs: outputsOf(m),
		})
	}
	return a
}

func inputsOf(t *dag.Task) (inputs []wire.Input) {
	for _, in := range t.Inputs {
		inputs = append(inputs, wire.Input{URI: in.URI, Path: in.Path, Mount: string(in.Mount), Source: in.Source})
	}
	return inputs
}

func outputsOf(t *dag.Task) (outputs []wire.Output) {
	for _, out := range t.Outputs {
		outputs = append(outputs, wire.Output{
			Name: out.Name, Path: out.Path, URI: out.URI, OnFailure: out.OnFailure,
		})
	}
	return outputs
}

// workerAssignment completes the assignment of a worker, so that it becomes a machine of its job's pool.
func workerAssignment(a *wire.Assignment, cl record.Cluster, made apitypes.Attempt) *wire.Assignment {
	a.Worker = &wire.Worker{
		Pool: record.JobPool(cl.Job), Machine: record.WorkerName(cl.Task, cl.Attempt), Type: cl.Offer.InstanceType,
		Capacity: wire.PoolCapacity{CPUs: cl.VCPU, MemoryGiB: made.Hold[apitypes.MemoryGiB]},
	}
	for _, n := range cl.Nodes {
		a.Nodes = append(a.Nodes, n.Address)
	}
	return a
}

// Limited reports whether agents of a cluster limit the resources of their task, because the machines are shared.
func Limited(cfg config.Config, cl record.Cluster) bool {
	return cl.Assigned() || slices.Contains(cfg.Shared, cl.Offer.Cloud)
}

// limits returns the memory limit of a task on each node of a cluster in bytes, and its share of the CPU in vCPUs.
// Both are 0 if the task has the machines to itself. The memory is 0 if the task requests none, because then only a
// default was reserved.
func limits(cfg config.Config, t *dag.Task, cl record.Cluster, made apitypes.Attempt) (memory int64, vcpus float64) {
	if !Limited(cfg, cl) {
		return 0, 0
	}
	if cl.Shared() {
		vcpus, _ = t.Hold()
		return int64(requested(t) * (1 << 30)), vcpus
	}
	nodes, gib := float64(max(len(cl.Nodes), 1)), 0.0
	if r := Alternative(t, cl.Offer); r != nil && !cl.Assigned() {
		if gib = r.Memory.Min; gib > 0 { // the task has the whole simulated machine
			gib = max(gib, made.Hold[apitypes.MemoryGiB]/nodes)
		}
	} else {
		gib = requested(t)
	}
	return int64(gib * (1 << 30)), cl.VCPU / nodes
}

// requested returns the memory in GiB that a task holds of a machine of a pool. It is the maximum over its
// alternatives, because any of them may have been chosen. It is 0 if one of them requests no memory.
func requested(t *dag.Task) (gib float64) {
	for i := range t.Resources {
		if t.Resources[i].Memory.Min == 0 {
			return 0
		}
		gib = max(gib, t.Resources[i].Memory.Min)
	}
	return gib
}

// locationFor returns a location in the form that an agent needs: a path if it is in the attempt's store, and a URI
// otherwise.
func locationFor(cfg config.Config, cl record.Cluster, where string) string {
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

// Alternative returns the first of a task's resources that an offer matches by name and location. It returns nil if
// none matches, as for machines of pools.
func Alternative(t *dag.Task, o apitypes.Offer) *dag.Resources {
	for i := range t.Resources {
		if r := &t.Resources[i]; matches(r, o) {
			return r
		}
	}
	return nil
}

func matches(r *dag.Resources, o apitypes.Offer) bool {
	is := func(asked, has string) bool { return asked == "" || strings.EqualFold(asked, has) }
	return is(r.Cloud, o.Cloud) && is(r.Region, o.Region) && is(r.Zone, o.Zone) && is(r.InstanceType, o.InstanceType) &&
		is(r.Accelerator, o.Accelerator) &&
		(r.Family == "" || hardware.IsFamily(hardware.Family(o.Cloud, o.InstanceType), r.Family)) &&
		(r.CPU == "" || hardware.IsCPU(hardware.Default().Speed(o.Cloud, o.InstanceType, 0).CPU, r.CPU))
}

// MaxUSDPerHour returns the maximum price of one machine of an offer for a task, in USD per hour. It is the highest
// limit of the alternatives that the offer matches, and 0 (no limit) if one of them sets none.
func MaxUSDPerHour(t *dag.Task, o apitypes.Offer) (most float64) {
	for i := range t.Resources {
		if r := &t.Resources[i]; matches(r, o) {
			if r.MaxUSDPerHour == 0 {
				return 0
			}
			most = max(most, float64(r.MaxUSDPerHour))
		}
	}
	return most
}

// taskPrefix returns the prefix of a task's data in the job's store.
func taskPrefix(job, task string) string { return job + "/" + folderOf(task) }

// folderOf returns a task's name in the form that URLs use: a~17 for the member a[17] of an array. No task name
// contains a ~.
func folderOf(task string) string { return strings.NewReplacer("[", "~", "]", "").Replace(task) }

// Inherited has the outputs of a task's parents that an agent needs, by the parents' names.
type Inherited struct {
	// Parents has the locations of the outputs. Only has, for parents that are read in part, the paths to read.
	Parents map[string]string
	Only    map[string][]string
	// Nothing lists the parents that have no output, or none that the task reads.
	Nothing []string
	// Listed has the locations of the outputs of parents on services. These have no manifest.
	Listed map[string]string
}

// ParentOutputs returns the locations of the outputs of the parents of a cluster's task, in the form its agent needs.
func ParentOutputs(
	u recordcache.Reader,
	cfg config.Config,
	job record.Job,
	spec *dag.Job,
	cl record.Cluster,
) (Inherited,
	error) {
	in := Inherited{Parents: map[string]string{}, Only: map[string][]string{}}
	var parents []int32
	for _, k := range spec.EdgesTo(cl.Task) {
		edge := &spec.Edges[k]
		p := int32(edge.From) //nolint:gosec // a task of the job
		parent := &spec.Tasks[p]
		if parent.StandIn() {
			continue // its files have only sizes
		}
		paths, all := carriedPaths(parent, edge.Outputs)
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
		name := spec.Tasks[parent.Index].Name
		if parent.Output != "" && parent.Listed {
			if in.Listed == nil {
				in.Listed = map[string]string{}
			}
			in.Listed[name] = cfg.At(parent.Output)
			delete(in.Only, name)
		} else if parent.Output != "" {
			in.Parents[name] = locationFor(cfg, cl, parent.Output)
		} else {
			delete(in.Only, name)
			in.Nothing = append(in.Nothing, name)
		}
	}
	return in, err
}

// carriedPaths returns the paths of a parent's output that an edge carries. all is true if the edge carries the whole
// output.
func carriedPaths(parent *dag.Task, outputs []string) (paths []string, all bool) {
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

// manyTasks is the number of keys above which it may be better to read pages of the job's partition. A request for
// many keys returns less than a page, and a store that bills by the record bills a key like several records of a
// page.
const manyTasks = 100

// LoadTasks loads the given tasks that have a record. If these are most of the job's tasks, it reads pages.
func LoadTasks(u recordcache.Reader, job record.Job, tasks []int32) (found []record.Task, err error) {
	if len(tasks) > manyTasks && len(tasks) > job.Tasks/8 {
		wanted := make([]bool, job.Tasks)
		for _, i := range tasks {
			wanted[i] = true
		}
		found, err = recordcache.List[record.Task](u, record.JobPart(job.ID), "task#", 0)
		return slices.DeleteFunc(found, func(t record.Task) bool {
			return t.Index >= len(wanted) || !wanted[t.Index]
		}), err
	}
	keys := make([]record.Key, len(tasks))
	for i, t := range tasks {
		keys[i] = record.TaskKey(job.ID, int(t))
	}
	if err := u.Preload(keys...); err != nil {
		return nil, err
	}
	for _, key := range keys {
		t, ok, err := recordcache.Get[record.Task](u, key)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, t)
		}
	}
	return found, nil
}
