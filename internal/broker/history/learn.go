package history

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Limits for the history of the jobs of a name.
const (
	// MaxSample is the maximum number of tasks of one job from which the history learns.
	MaxSample = 64
	// maxNamed is the maximum number of tasks whose names differ only in numbers and that are learned one by one:
	// step-1 and step-2 may do different work. More than that are the members of one array, of which ofArray are
	// enough to learn the run time. Each sampled task costs two record reads when its job ends.
	maxNamed, ofArray = 16, 8
	// maxTasks is the maximum number of stored task names, and maxMachines the maximum number of machine kinds for
	// each. The most recent are kept.
	maxTasks, maxMachines = 2 * MaxSample, 4
	// maxWeight is the maximum number of runs that an average counts, so that the average follows changes.
	maxWeight = 24
)

// Run is the complete run of one task.
type Run struct {
	Task  int // index of the task in its job
	Hours float64
	Nodes int // number of machines that ran it together
	// Machine is the machine on which it ran, as a key of dag.TimeEstimate.On.
	Machine string
	// Speed is the speed of the machine's vCPUs. 0 means 1, or a machine with accelerators.
	Speed float64
}

// Machine returns the name of a machine in estimates: the accelerator with its count, or the instance type.
func Machine(instanceType, accelerator string, count float64) string {
	if accelerator != "" {
		return dag.AcceleratorKey(accelerator, count)
	}
	return instanceType
}

// names returns the two names under which the run times of a task are stored: its own, and the one that it shares
// with tasks whose names differ only in numbers. Both are equal if its name has no number. The number of machines is
// part of each.
func names(t *dag.Task, machines int) (own, like string) {
	var b strings.Builder
	inNumber := false
	for _, c := range t.Name {
		if c >= '0' && c <= '9' {
			if !inNumber {
				b.WriteByte('#')
			}
			inNumber = true
			continue
		}
		inNumber = false
		b.WriteRune(c)
	}
	own, like = t.Name, b.String()
	if machines > 1 {
		nodes := " x" + strconv.Itoa(machines)
		own, like = own+nodes, like+nodes
	}
	return own, like
}

// Sample returns the indexes of the tasks from which the history learns, at most MaxSample. They are spread evenly
// over the names, in the order of the file. Stand-ins are excluded, because their run times are given.
func Sample(spec *dag.Job) []int {
	groups := map[string][]int{}
	var order []string
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if t.StandIn() || t.Worker != nil {
			continue
		}
		_, like := names(t, t.Nodes)
		if groups[like] == nil {
			order = append(order, like)
		}
		groups[like] = append(groups[like], i)
	}
	if len(order) > MaxSample {
		order = order[:MaxSample]
	}
	var sample []int
	for n, name := range order {
		of := groups[name]
		take := min((MaxSample-len(sample))/(len(order)-n), len(of))
		if len(of) > maxNamed {
			take = min(take, ofArray)
		}
		for k := range take {
			sample = append(sample, of[k*len(of)/take])
		}
	}
	return sample
}

// RunOf returns the complete run of a task, from the records of the task and its last attempt. Work from which the
// attempt resumed counts with the time at which it was estimated when it was saved.
func RunOf(t *dag.Task, task record.Task, a apitypes.Attempt) (r Run, ok bool) {
	machine := Machine(a.Offer.InstanceType, a.Offer.Accelerator, a.Offer.AccelCount)
	if task.State != record.TaskSucceeded || a.Number != task.Attempt || a.Started.IsZero() || machine == "" {
		return r, false
	}
	hours := record.Hours(task.EndedAt.Sub(a.Started))
	hours += a.Resumed * record.Hours(record.TimeOn(t, a.Offer))
	r = Run{Task: task.Index, Hours: hours, Nodes: a.Nodes, Machine: machine}
	if a.Offer.Accelerator == "" {
		r.Speed = a.Offer.Speed
	}
	return r, hours > 0
}

// Learn adds runs of a job to a history. The result shares no memory with known.
func Learn(known apitypes.History, spec *dag.Job, runs []Run, now time.Time) apitypes.History {
	h := apitypes.History{Job: spec.Name, At: now, Tasks: map[string]map[string]apitypes.RunTimes{}}
	for name, machines := range known.Tasks {
		h.Tasks[name] = map[string]apitypes.RunTimes{}
		for m, t := range machines {
			h.Tasks[name][m] = t
		}
	}
	add := func(name string, r Run) {
		if h.Tasks[name] == nil {
			h.Tasks[name] = map[string]apitypes.RunTimes{}
		}
		h.Tasks[name][r.Machine] = observe(h.Tasks[name][r.Machine], r, now)
		forget(h.Tasks[name], maxMachines, func(t apitypes.RunTimes) int64 { return t.At })
	}
	for _, r := range runs {
		own, like := names(&spec.Tasks[r.Task], r.Nodes)
		add(own, r)
		if like != own {
			add(like, r)
		}
	}
	forget(h.Tasks, maxTasks, func(machines map[string]apitypes.RunTimes) (last int64) {
		for _, t := range machines {
			last = max(last, t.At)
		}
		return last
	})
	return h
}

// observe adds a run to an average. The run's weight is one divided by the number of runs, or by maxWeight if there
// are more.
func observe(t apitypes.RunTimes, r Run, now time.Time) apitypes.RunTimes {
	t.Runs++
	w := 1 / float64(min(t.Runs, maxWeight))
	d := math.Log(r.Hours) - t.Log
	t.Log += w * d
	t.Var = (1 - w) * (t.Var + w*d*d)
	t.At, t.Speed = now.Unix(), r.Speed
	return t
}

// forget removes the least recently seen entries until at most most remain. Of entries seen at the same time, the
// last in byte order is removed first.
func forget[T any](m map[string]T, most int, at func(T) int64) {
	for len(m) > most {
		oldest := ""
		for name, v := range m {
			if o := m[oldest]; oldest == "" || at(v) < at(o) || at(v) == at(o) && name > oldest {
				oldest = name
			}
		}
		delete(m, oldest)
	}
}
