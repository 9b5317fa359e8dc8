package history

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Bounds of what is kept of the jobs of a name.
const (
	// MaxSample is of how many tasks of one job is learned.
	MaxSample = 64
	// maxNamed is up to how many tasks whose names differ in numbers only are learned of one by one: step-1 and step-2
	// may do different things. More of them are the parts of one array, of which ofArray show what all of them take.
	// Each task that is learned of is two records read when its job ends.
	maxNamed, ofArray = 16, 8
	// maxTasks and maxMachines are of how many names of tasks, and kinds of machine of each, something is kept. Those
	// that ran last stay.
	maxTasks, maxMachines = 2 * MaxSample, 4
	// maxWeight is how many runs an average is of at most, so that what changes is learned anew.
	maxWeight = 24
)

// Run is one task's whole work.
type Run struct {
	Task  int // index in the job
	Hours float64
	// Machine is what it ran on, as dag.TimeEstimate.On has it.
	Machine string
}

// Machine is how estimates name what a task runs on: by accelerator with count, else by instance type.
func Machine(instanceType, accelerator string, count float64) string {
	if accelerator != "" {
		return dag.AcceleratorKey(accelerator, count)
	}
	return instanceType
}

// names are those that a task's run times are kept by: its own, and the one that it shares with tasks whose names
// differ in numbers only. Both are the same where there is no number. On more machines a task takes another time.
func names(t *dag.Task) (own, like string) {
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
	if t.Nodes > 1 {
		nodes := " x" + strconv.Itoa(t.Nodes)
		own, like = own+nodes, like+nodes
	}
	return own, like
}

// Sample returns the indexes of the tasks of a job that are learned of, at most MaxSample: of each name as evenly as it
// goes, in the order of the file. Stand-ins run for as long as they are told to, and teach nothing.
func Sample(spec *dag.Job) []int {
	groups := map[string][]int{}
	var order []string
	for i := range spec.Tasks {
		t := &spec.Tasks[i]
		if t.StandIn() {
			continue
		}
		_, like := names(t)
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

// Of returns the whole time that a task took, by its record and that of its last attempt. What an attempt went on from
// counts as long as it was taken to be when it was saved.
func Of(t *dag.Task, task record.Task, a apitypes.Attempt) (r Run, ok bool) {
	machine := Machine(a.Offer.InstanceType, a.Offer.Accelerator, a.Offer.AccelCount)
	if task.State != record.TaskSucceeded || a.Number != task.Attempt || a.Started.IsZero() || machine == "" {
		return r, false
	}
	hours := record.Hours(task.EndedAt.Sub(a.Started))
	hours += a.Resumed * record.Hours(t.Time.For(a.Offer.InstanceType, a.Offer.Accelerator, a.Offer.AccelCount))
	return Run{Task: task.Index, Hours: hours, Machine: machine}, hours > 0
}

// Learn adds runs of a job to what is known. It returns a value that shares nothing with the one it was given.
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
		h.Tasks[name][r.Machine] = observe(h.Tasks[name][r.Machine], r.Hours, now)
		forget(h.Tasks[name], maxMachines, func(t apitypes.RunTimes) int64 { return t.At })
	}
	for _, r := range runs {
		own, like := names(&spec.Tasks[r.Task])
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

// observe takes a run into an average, of which it is one part in as many as there are, maxWeight at most.
func observe(t apitypes.RunTimes, hours float64, now time.Time) apitypes.RunTimes {
	t.Runs++
	w := 1 / float64(min(t.Runs, maxWeight))
	d := math.Log(hours) - t.Log
	t.Log += w * d
	t.Var = (1 - w) * (t.Var + w*d*d)
	t.At = now.Unix()
	return t
}

// forget removes what was seen least recently until no more than most is left; of what was seen at the same time, what
// comes last in byte order.
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
