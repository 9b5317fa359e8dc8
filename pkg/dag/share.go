package dag

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Share states with which other tasks a task may run on one machine at the same time.
type Share string

// The values of Share.
const (
	ShareNone Share = ""    // each attempt has a machine for itself
	ShareJob  Share = "job" // with tasks of the same job that need the same machine: see Job.ShareGroups
)

// Worker marks a task of a job that is not work but a machine: the broker adds it, and the tasks of a share group run
// on it. A job file has none.
type Worker struct {
	// Group is the index of the share group, in the order of Job.ShareGroups.
	Group int `json:"group"`
}

// MaxWorkers is the maximum number of machines of a share group at the same time.
const MaxWorkers = 64

// The resources that a task holds of a shared machine if it requests none.
const (
	defaultHoldCPUs = 1
	defaultHoldGiB  = 2
)

// Hold returns the resources that a task holds of a shared machine while it runs: its vCPUs, and its memory in GiB. A
// task that requests only one of the two holds 2 GiB for each vCPU.
func (t *Task) Hold() (cpus, gib float64) {
	for i := range t.Resources {
		cpus, gib = max(cpus, t.Resources[i].CPUs.Min), max(gib, t.Resources[i].Memory.Min)
	}
	cpus = cmp.Or(cpus, max(gib/defaultHoldGiB, defaultHoldCPUs))
	return cpus, cmp.Or(gib, cpus*defaultHoldGiB)
}

// Shares reports whether the task may share machines. Tasks with accelerators or mounted buckets, tasks on several
// machines, gangs and services never share them, even if Share allows it (see WhyNotShared).
func (t *Task) Shares() bool {
	return t.Share == ShareJob && t.WhyNotShared() == ""
}

// WhyNotShared returns the reason why a task cannot share machines, or "".
func (t *Task) WhyNotShared() string {
	switch {
	case t.Worker != nil:
		return "it is a machine"
	case t.MostNodes() > 1:
		return "it has several nodes"
	case t.Gang != "" || t.Joins != "":
		return "it belongs to a gang"
	case t.Service != nil:
		return "it is a service"
	case t.Spark != nil:
		return "Spark uses all of its machine"
	case len(t.Placement) > 0 || len(t.Labels) > 0:
		return "it has placement rules or labels"
	case t.Mounts():
		return "it mounts a bucket"
	case t.Time.FLOPs > 0:
		return "its time depends on accelerators"
	case t.Time.Only:
		return "it has times for some machines only"
	case slices.ContainsFunc(t.Resources, func(r Resources) bool { return r.Accelerator != "" }):
		return "it has accelerators"
	}
	return ""
}

// ShareUnsaid returns how the members of an array, or one of many equal tasks, share machines if the file does not
// state it. They share with each other, except in three cases: WhyNotShared returns a reason; they have a setup,
// because on a shared machine they could not change the files of the setup; or they name a machine type, because they
// request that machine and not a part of it.
func (t *Task) ShareUnsaid() Share {
	named := slices.ContainsFunc(t.Resources, func(r Resources) bool { return r.InstanceType != "" })
	if t.Setup == "" && !named && t.WhyNotShared() == "" {
		return ShareJob
	}
	return ShareNone
}

// ShareTogether is the number of tasks of a job that must need the same machine to share it if the file does not say
// whether they do: below it, boot times and idle vCPUs cost little.
const ShareTogether = 16

// ShareMany sets ShareJob for tasks whose file does not set share, if ShareUnsaid allows it and at least minimum
// tasks of the job need the same machine. says reports whether the file sets share for the task with an index. If
// says is nil, no task has it set.
func (j *Job) ShareMany(minimum int, says func(task int) bool) {
	for _, i := range j.shareMany(minimum, says) {
		j.Tasks[i].Share = ShareJob
	}
}

// shareMany returns the indexes of the tasks for which ShareMany sets ShareJob.
func (j *Job) shareMany(minimum int, says func(task int) bool) []int {
	if len(j.Tasks) < minimum || j.HasServices() {
		return nil
	}
	groups := map[string][]int{}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if t.Share == ShareJob || (says == nil || !says(i)) && t.ShareUnsaid() == ShareJob {
			key := t.shareKey()
			groups[key] = append(groups[key], i)
		}
	}
	var many []int
	for _, tasks := range groups {
		if len(tasks) >= minimum {
			many = append(many, tasks...)
		}
	}
	return slices.DeleteFunc(many, func(i int) bool { return j.Tasks[i].Share == ShareJob })
}

// ShareGroups returns the tasks that share machines, by index, in groups of at least two: the tasks of a group need the
// same machine, apart from the number of its vCPUs and the size of its memory. The groups are in the order of their
// first tasks.
func (j *Job) ShareGroups() [][]int {
	var groups [][]int
	known := map[string]int{}
	for i := range j.Tasks {
		t := &j.Tasks[i]
		if !t.Shares() {
			continue
		}
		key := t.shareKey()
		g, found := known[key]
		if !found {
			g = len(groups)
			known[key], groups = g, append(groups, nil)
		}
		groups[g] = append(groups[g], i)
	}
	return slices.DeleteFunc(groups, func(g []int) bool { return len(g) < 2 })
}

// shareKey returns equal keys for tasks that need the same machine.
func (t *Task) shareKey() string {
	alternatives := slices.Clone(t.Resources)
	for i := range alternatives {
		alternatives[i].CPUs, alternatives[i].Memory = Range{}, Range{}
	}
	key, err := json.Marshal(struct {
		R       []Resources
		Ordered bool
		Setup   string
	}{alternatives, t.Ordered, t.Setup})
	if err != nil { // a job that a reader made has only values that JSON has
		panic(err)
	}
	return string(key)
}

// WithWorkers returns the job with worker tasks for the machines that its share groups may use. A group gets as many
// worker tasks as it has tasks, at most MaxWorkers. They come after the tasks of the file. If no tasks share
// machines, it returns the job itself.
func (j *Job) WithWorkers() *Job {
	groups := j.ShareGroups()
	if len(groups) == 0 || j.HasServices() || j.HasWorkers() {
		return j
	}
	out := *j
	out.Tasks = slices.Clip(slices.Clone(j.Tasks))
	taken := make(map[string]bool, len(j.Tasks))
	for i := range j.Tasks {
		taken[j.Tasks[i].Name] = true
	}
	number := 0
	for g, members := range groups {
		for _, i := range members {
			out.Tasks[i].ShareGroup = g + 1
		}
		for range min(len(members), MaxWorkers) {
			name := fmt.Sprintf("worker[%d]", number)
			for taken[name] {
				name = "shared-" + name
			}
			number++
			out.Tasks = append(out.Tasks, workerOf(&j.Tasks[members[0]], g, name))
		}
	}
	return &out
}

// workerOf returns a machine for the group of a task.
func workerOf(t *Task, group int, name string) Task {
	w := Task{Name: name, Nodes: 1, Worker: &Worker{Group: group}, Ordered: t.Ordered,
		Resources: slices.Clone(t.Resources)}
	for i := range w.Resources {
		w.Resources[i].CPUs, w.Resources[i].Memory = Range{}, Range{}
	}
	return w
}

// HasWorkers reports whether the job has the machines of WithWorkers.
func (j *Job) HasWorkers() bool { return len(j.Tasks) > 0 && j.Tasks[len(j.Tasks)-1].Worker != nil }

// Work returns the number of tasks of the job without its workers, which follow them.
func (j *Job) Work() int {
	n := len(j.Tasks)
	for n > 0 && j.Tasks[n-1].Worker != nil {
		n--
	}
	return n
}
