package client

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Builder makes a job, task by task. Calls can be chained: Job returns the first error of any of them.
type Builder struct {
	job  dag.Job
	task []*Task
	bad  error // the first error
}

// Task is one task of a job being built. Its methods return it.
type Task struct {
	b     *Builder
	t     dag.Task
	after []string
	// estimate computes its time; nil for none.
	estimate Estimator
}

// refuse records an error; only the first is kept.
func (b *Builder) refuse(err error) {
	if b.bad == nil {
		b.bad = err
	}
}

// NewJob starts a job. By default, its plan is as cheap as its deadline allows.
func NewJob(name string) *Builder {
	return &Builder{job: dag.Job{Name: name, Objective: dag.MinimizeCost, Infeasible: dag.Retry, Format: dag.Native}}
}

// Deadline sets the time from submission in which the job must finish.
func (b *Builder) Deadline(d time.Duration) *Builder { b.job.Deadline = d; return b }

// Budget sets the maximum cost of the job.
func (b *Builder) Budget(usd dag.USD) *Builder { b.job.Budget = usd; return b }

// Fastest makes the job as fast as its budget allows, instead of as cheap as its deadline allows.
func (b *Builder) Fastest() *Builder {
	b.job.Objective, b.job.Weights = dag.MinimizeMakespan, nil
	return b
}

// Weigh makes the plan minimise a weighted sum of the job's USD and hours.
func (b *Builder) Weigh(w dag.Weights) *Builder {
	b.job.Objective, b.job.Weights = dag.MinimizeWeighted, &w
	return b
}

// Keep sets how long the job's records, logs and outputs are kept after its end, or dag.KeepForever.
func (b *Builder) Keep(d time.Duration) *Builder { b.job.Keep = d; return b }

// KeepOnFailure sets how long the machines of a failed task are kept for inspection, within the budget.
func (b *Builder) KeepOnFailure(d time.Duration) *Builder { b.job.KeepOnFailure = d; return b }

// Patience sets how long the job waits at most while none of its tasks runs and no offer is available.
func (b *Builder) Patience(d time.Duration) *Builder { b.job.Patience = d; return b }

// Queue sets the queue in which it waits.
func (b *Builder) Queue(name string) *Builder { b.job.Queue = name; return b }

// Priority sets the task's priority in the queue; a higher one is served first.
func (b *Builder) Priority(p int) *Builder { b.job.Priority = p; return b }

// Regions limits all tasks to places: "aws", "gcp:europe-west4", "eu".
func (b *Builder) Regions(places ...string) *Builder { b.job.Regions = places; return b }

// Place adds a rule for how machines of several tasks are placed relative to each other: dag.Placement{Spread:
// dag.LevelZone, Of: []string{"a", "b"}}.
func (b *Builder) Place(rule dag.Placement) *Builder {
	b.job.Placement = append(b.job.Placement, rule)
	return b
}

// Secret sets the value of a secret, or a reference to where the value is stored
// ("ssm:/team/token"). The tasks that name the secret get it, or all tasks if none names it.
// SubmitJob sends it separately from the job, so it is never displayed.
func (b *Builder) Secret(name, value string) *Builder {
	if b.job.Stated == nil {
		b.job.Stated = dag.SecretValues{}
	}
	if err := dag.CheckSecret(value); err != nil {
		b.refuse(fault.Within(dag.SecretField(name), err))
	}
	b.job.Stated[name] = value
	return b
}

// Task adds a task that runs a shell script, by default on one machine of any kind.
func (b *Builder) Task(name, run string) *Task {
	t := &Task{b: b, t: dag.Task{Name: name, Run: run, Nodes: 1}}
	b.task = append(b.task, t)
	return t
}

// Job returns the job, or the first error of the calls before it; a *dag.Error if a field of the job is wrong. For a
// job with estimators use JobFor.
func (b *Builder) Job() (*dag.Job, error) {
	for _, t := range b.task {
		if t.estimate != nil {
			return nil, cmp.Or(b.bad, t.within("time", fault.New("is an estimator, which needs the offers of a broker",
				"call JobFor with a client in place of Job")))
		}
	}
	return b.build()
}

// build returns the job, without the times that estimators give.
func (b *Builder) build() (*dag.Job, error) {
	if b.bad != nil {
		return nil, b.bad
	}
	j := b.job
	j.Stated = maps.Clone(j.Stated)
	index := make(map[string]int, len(b.task))
	for i, t := range b.task {
		index[t.t.Name] = i
		made := t.t
		if len(made.Resources) == 0 {
			made.Resources = []dag.Resources{{}}
		}
		j.Tasks = append(j.Tasks, made)
	}
	for i, t := range b.task {
		for k, name := range t.after {
			from, found := index[name]
			if !found {
				return nil, t.within("after"+fault.Index(k), fault.New(
					"waits for "+fault.Quote(name)+", which is no task of the job",
					fault.DidYouMean(name, slices.Sorted(maps.Keys(index)))))
			}
			var size dag.GiB
			for _, o := range b.task[from].t.Outputs {
				size += o.Size
			}
			j.Edges = append(j.Edges, dag.Edge{From: from, To: i, Data: size})
		}
	}
	if err := j.Validate(); err != nil {
		return nil, err
	}
	j.MergeEdges()
	return &j, nil
}

// YAML returns the job as a file for `tradewind submit`. It contains only the names of secrets.
func (b *Builder) YAML() ([]byte, error) {
	j, err := b.Job()
	if err != nil {
		return nil, err
	}
	return dag.Marshal(j)
}

// After makes the task wait for the named tasks and gives it the outputs of each in
// $TRADEWIND_INPUTS/NAME. The named tasks may be added to the job later.
func (t *Task) After(names ...string) *Task {
	for _, n := range names {
		if !slices.Contains(t.after, n) {
			t.after = append(t.after, n)
		}
	}
	return t
}

// Time sets how long the task runs on machines for which TimeOn has no value.
func (t *Task) Time(d time.Duration) *Task { t.t.Time.Default = d; return t }

// TimeOn sets how long it runs on an accelerator ("V100", "V100:4") or an instance type.
func (t *Task) TimeOn(what string, d time.Duration) *Task {
	key, err := dag.TimeKey(what)
	if err != nil {
		t.b.refuse(t.within("time", err))
		return t
	}
	if t.t.Time.On == nil {
		t.t.Time.On = map[string]time.Duration{}
	}
	t.t.Time.On[key] = d
	return t
}

// Setup sets a script that runs once on each machine before the task's own.
func (t *Task) Setup(script string) *Task { t.t.Setup = script; return t }

// Env sets an environment variable of the task.
func (t *Task) Env(name, value string) *Task {
	if t.t.Env == nil {
		t.t.Env = map[string]string{}
	}
	t.t.Env[name] = value
	return t
}

// Secrets gives the task environment variables whose values are not part of the job. They come from Builder.Secret, or
// from the user who submits the file.
func (t *Task) Secrets(names ...string) *Task {
	t.t.Secrets = slices.Compact(slices.Sorted(slices.Values(slices.Concat(t.t.Secrets, names))))
	return t
}

// Workdir sets the folder that the task starts in, as a copy: a folder on this computer, which
// SubmitJob uploads, or one in a bucket. Files matched by .tradewindignore or .gitignore are not
// uploaded.
func (t *Task) Workdir(folder string) *Task { t.t.Workdir = folder; return t }

// Repository makes the task start in a git repository, which SubmitJob clones. The ref is a branch, tag or commit; ""
// is the default branch.
func (t *Task) Repository(url, ref string) *Task {
	t.t.Repository = &dag.Repository{URL: url, Ref: ref}
	return t
}

// Nodes sets the number of machines on which it runs at once.
func (t *Task) Nodes(n int) *Task { t.t.Nodes = n; return t }

// Retries sets how often the task is retried if its own script fails.
func (t *Task) Retries(n int) *Task { t.t.Retries = n; return t }

// Timeout ends an attempt whose setup and run together take longer. The task has then failed, and is not tried again.
func (t *Task) Timeout(d time.Duration) *Task { t.t.Timeout = d; return t }

// Label gives the task a label, by which placement rules of other jobs can refer to it.
func (t *Task) Label(name, value string) *Task {
	if t.t.Labels == nil {
		t.t.Labels = map[string]string{}
	}
	t.t.Labels[name] = value
	return t
}

// Place adds a rule for how its machines are placed relative to each other or to those of other jobs:
// dag.Placement{Apart: map[string]string{"app": "db"}, By: dag.LevelZone}.
func (t *Task) Place(rule dag.Placement) *Task {
	t.t.Placement = append(t.t.Placement, rule)
	return t
}

// On adds an alternative set of resources for the task; without any, it runs on any machine.
func (t *Task) On(r Resources) *Task {
	made, err := r.read()
	if err != nil {
		t.b.refuse(t.within("resources", err))
		return t
	}
	t.t.Resources = append(t.t.Resources, made)
	return t
}

// Input copies data into the task's directory, at path: from a URI (s3://, gs://, azblob://), or from a file or folder
// on this computer, which SubmitJob uploads. The size may be 0 for local files; it is measured.
func (t *Task) Input(uri, path string, size dag.GiB) *Task {
	t.t.Inputs = append(t.t.Inputs, dag.Input{URI: uri, Path: path, Size: size})
	return t
}

// Mount mounts data of a bucket at a path of the task's directory: it is read when the task reads it. With
// dag.MountWrite or dag.MountCached it can also be written.
func (t *Task) Mount(uri, path string, how dag.Mount) *Task {
	in := dag.Input{URI: uri, Path: path, Mount: how}
	if how == dag.Copied {
		t.b.refuse(t.within(dag.InputField(len(t.t.Inputs)), fault.Within("mount",
			fault.New("says no way to mount", "dag.MountRead, dag.MountWrite or dag.MountCached; Input copies"))))
	}
	t.t.Inputs = append(t.t.Inputs, in)
	return t
}

// Output names an output of the task, in $TRADEWIND_OUTPUT, and its expected size.
func (t *Task) Output(name string, size dag.GiB) *Task {
	t.t.Outputs = append(t.t.Outputs, dag.Output{Name: name, Size: size})
	return t
}

// Checkpoint sets where the task saves its progress, relative to its directory, and how often.
func (t *Task) Checkpoint(path string, every time.Duration) *Task {
	t.t.Checkpoint = &dag.Checkpoint{Path: path, Every: every}
	return t
}

// within adds the task and the field to an error.
func (t *Task) within(field string, err error) error {
	return fault.Within("tasks", fault.WithinKey(t.t.Name, fault.Within(field, err)))
}

// Resources are the requirements on a machine, each written as in a job file. Empty fields require nothing.
type Resources struct {
	CPUs         string // 4, 4+ or 2-8
	Memory       string // GiB: 16+, or 512MB
	Accelerators string // A100 or A100:8
	Cloud        string
	Region       string
	InstanceType string
	Family       string     // of machine types: c7a, n2d
	CPU          string     // processor: genoa, graviton4
	Arch         string     // amd64 or arm64
	Market       dag.Market // how it is bought; empty means the cheapest way
	Image        string     // docker:REF is a container, in which the scripts run
	Disk         dag.GiB
}

func (r *Resources) read() (out dag.Resources, err error) {
	out = dag.Resources{Cloud: r.Cloud, Region: r.Region, InstanceType: r.InstanceType, Family: r.Family, CPU: r.CPU,
		Arch: r.Arch, Market: r.Market, Image: r.Image, DiskGiB: r.Disk}
	if r.CPUs != "" {
		if out.CPUs, err = dag.ParseCPUsAtLeast(r.CPUs); err != nil {
			return out, err
		}
	}
	if r.Memory != "" {
		if out.Memory, err = dag.ParseMemoryAtLeast(r.Memory); err != nil {
			return out, err
		}
	}
	if r.Accelerators != "" {
		out.Accelerator, out.AcceleratorCount, err = dag.ParseAccelerator(r.Accelerators)
	}
	return out, err
}
