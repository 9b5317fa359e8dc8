package scheduler_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// world is a cluster that applies the decisions of sessions.
type world struct {
	t    *testing.T
	snap Snapshot
	last *Session
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.snap = Snapshot{
		Now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), Resources: []string{"cpu", "mem", "gpu"}, Units: Vector{1000, 1000, 1000}, GPU: 2,
	}
	return w
}

// attributes splits "name a=1 b=2" into its name and settings.
func attributes(line string) (name string, set map[string]string) {
	set = map[string]string{}
	for i, f := range strings.Fields(line) {
		if k, v, ok := strings.Cut(f, "="); ok && i > 0 {
			set[k] = v
		} else if i == 0 {
			name = f
		} else {
			set[f] = "true"
		}
	}
	return name, set
}

func (w *world) number(s string) int64 {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		w.t.Fatalf("%q is not a number", s)
	}
	return int64(x * 1000)
}

// vector reads amounts such as cpu=1 mem=2, in thousandths.
func (w *world) vector(set map[string]string, prefix string) (v Vector, l Limit) {
	for i, name := range w.snap.Resources {
		if s, ok := set[prefix+name]; ok {
			v[i] = w.number(s)
			l.Amount[i], l.Set[i] = v[i], true
		}
	}
	return v, l
}

func labels(s string) map[string]string {
	out := map[string]string{}
	for _, kv := range list(s) {
		k, v, _ := strings.Cut(kv, ":")
		out[k] = v
	}
	return out
}

func list(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func (w *world) span(s string) time.Duration {
	if s == "" {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *world) count(s string) int {
	if s == "" {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// add takes lines such as "node a cpu=4 gpu=2", "queue q weight=2", "job j queue=q tasks=3 cpu=1 on=a,a".
func (w *world) add(lines string) {
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		name, set := attributes(rest)
		switch kind {
		case "node":
			w.addNode(name, set)
		case "queue":
			w.addQueue(name, set)
		case "namespace":
			w.snap.Namespaces = append(w.snap.Namespaces, Namespace{Name: name, Weight: w.count(set["weight"]), Usage: w.usage(set)})
		case "job":
			w.addJob(name, set)
		case "task":
			w.addTask(name, set)
		default:
			w.t.Fatalf("unknown line %q", line)
		}
	}
}

func (w *world) usage(set map[string]string) Usage {
	v, _ := w.vector(set, "used-")
	u := Usage{At: w.snap.Now}
	for i, x := range v {
		u.Held[i] = float64(x)
	}
	return u
}

func (w *world) addNode(name string, set map[string]string) {
	for i := range max(1, w.count(set["n"])) {
		n := Node{Name: name, Labels: labels(set["labels"]), Topology: list(set["at"]), Window: set["window"], Closed: set["closed"] != ""}
		if set["n"] != "" {
			n.Name = fmt.Sprint(name, i)
		}
		n.Capacity, _ = w.vector(set, "")
		n.Devices, n.Capacity[2] = int(n.Capacity[2]/1000), 0
		for k, v := range labels(set["taints"]) {
			n.Taints = append(n.Taints, Taint{Key: k, Value: v})
		}
		for k, v := range labels(set["soft"]) {
			n.Taints = append(n.Taints, Taint{Key: k, Value: v, Soft: true})
		}
		w.snap.Nodes = append(w.snap.Nodes, n)
	}
}

func (w *world) addQueue(name string, set map[string]string) {
	q := Queue{Name: name, Parent: set["parent"], Weight: w.count(set["weight"]), Priority: w.count(set["priority"]), Closed: set["closed"] != "", Usage: w.usage(set)}
	q.Guarantee, _ = w.vector(set, "guarantee-")
	_, q.Deserved = w.vector(set, "deserved-")
	_, q.Capability = w.vector(set, "capability-")
	w.snap.Queues = append(w.snap.Queues, q)
}

func (w *world) spec(set map[string]string) *Spec {
	s := &Spec{Role: set["role"], Priority: w.count(set["rank"]), Selector: labels(set["select"]), Labels: labels(set["labels"])}
	s.Request, _ = w.vector(set, "")
	if milli := s.Request[2]; milli > 0 {
		s.Devices, s.Share = 1, milli
		if milli >= 1000 {
			s.Devices, s.Share = int(milli/1000), 1000
		}
		s.Request[2] = 0
	}
	for _, k := range list(set["tolerate"]) {
		s.Tolerates = append(s.Tolerates, Toleration{Key: k})
	}
	for k, v := range labels(set["apart"]) {
		s.Apart = append(s.Apart, Pair{Key: k, Value: v})
	}
	for k, v := range labels(set["near"]) {
		s.Near = append(s.Near, Pair{Key: k, Value: v})
	}
	for k, v := range labels(set["want"]) {
		s.Affinity = append(s.Affinity, Term{Key: k, Op: In, Values: []string{v}, Weight: 1})
	}
	for k, v := range labels(set["never"]) {
		s.Affinity = append(s.Affinity, Term{Key: k, Op: NotIn, Values: []string{v}})
	}
	return s
}

func (w *world) addJob(name string, set map[string]string) {
	j := Job{
		ID: name, Queue: set["queue"], Namespace: set["namespace"], Priority: w.count(set["priority"]), Created: w.snap.Now.Add(-w.span(set["age"])),
		Phase: Inqueue, Min: w.count(set["min"]), Max: w.count(set["max"]), Batch: set["batch"] != "", Kept: set["kept"] != "",
		Duration: w.span(set["duration"]), MaxWait: w.span(set["wait"]), MaxRestarts: w.count(set["restarts"]),
		Close: Closeness{Depth: w.count(set["close"]), Required: set["required"] != ""},
	}
	if j.Queue == "" {
		j.Queue = "default"
	}
	switch set["onfailure"] {
	case "restart":
		j.OnFailure = Restart
	case "abort":
		j.OnFailure = Abort
	}
	if set["phase"] != "" {
		j.Phase, _ = ParsePhase(set["phase"])
	}
	for _, d := range list(set["after"]) {
		id, _, ignore := strings.Cut(d, "!")
		on := Abort
		if ignore {
			on = Ignore
		}
		j.After = append(j.After, Dependency{Job: id, OnFailure: on})
	}
	for k, v := range labels(set["roles"]) {
		j.Roles = append(j.Roles, Role{Name: k, Min: w.count(v)})
	}
	slices.SortFunc(j.Roles, func(a, b Role) int { return strings.Compare(a.Name, b.Name) })
	w.snap.Jobs = append(w.snap.Jobs, j)
	w.addTask(name, set)
}

// addTask adds pending tasks to the last job (tasks=N), and tasks in other states on nodes (on=a,b bound=c).
func (w *world) addTask(_ string, set map[string]string) {
	j := &w.snap.Jobs[len(w.snap.Jobs)-1]
	spec := w.spec(set)
	add := func(state State, node string) {
		t := Task{ID: strconv.Itoa(len(j.Tasks)), Spec: spec, State: state, Node: node, Since: w.snap.Now.Add(-w.span(set["ran"]))}
		if set["left"] != "" {
			t.Ends = w.snap.Now.Add(w.span(set["left"]))
		}
		j.Tasks = append(j.Tasks, t)
	}
	for _, key := range []string{"on", "bound", "binding", "releasing", "unknown"} {
		state, ok := ParseState(key)
		if !ok {
			state = Running
		}
		for _, node := range list(set[key]) {
			add(state, node)
			if j.Phase == Inqueue {
				j.Phase = Started
			}
		}
	}
	for range w.count(set["failed"]) {
		add(Failed, "")
	}
	for range w.count(set["done"]) {
		add(Succeeded, "")
	}
	for range w.count(set["tasks"]) {
		add(Pending, "")
	}
}

func (w *world) job(id string) *Job {
	i := slices.IndexFunc(w.snap.Jobs, func(j Job) bool { return j.ID == id })
	if i < 0 {
		w.t.Fatalf("job %q is missing", id)
	}
	return &w.snap.Jobs[i]
}

func (w *world) task(job, task string) *Task {
	j := w.job(job)
	i := slices.IndexFunc(j.Tasks, func(t Task) bool { return t.ID == task })
	return &j.Tasks[i]
}

// run runs a session and applies its decisions.
func (w *world) run(p *Policy) *Result {
	s, err := Open(&w.snap, p)
	if err != nil {
		w.t.Fatal(err)
	}
	s.Run()
	r := s.Close()
	w.last = s
	for _, b := range r.Nominations {
		w.task(b.Job, b.Task).Node = b.Node
	}
	for _, b := range r.Binds {
		t := w.task(b.Job, b.Task)
		t.State, t.Node, t.OnDevices, t.Since = Running, b.Node, b.Devices, w.snap.Now
	}
	for _, e := range r.Evictions {
		w.task(e.Job, e.Task).State = Releasing
	}
	for _, c := range r.Jobs {
		j := w.job(c.Job)
		j.Phase = c.Phase
		if c.Stranded {
			j.Stranded = w.snap.Now
		} else {
			j.Stranded = time.Time{}
		}
		if c.Restart {
			j.Restarts++
			for i := range j.Tasks {
				if j.Tasks[i].State == Failed {
					j.Tasks[i].State = Pending
				}
			}
			j.Phase = Inqueue
		}
	}
	w.snap.Reservations = r.Reservations
	return r
}

// release stops all evicted tasks, which then wait again.
func (w *world) release() {
	for i := range w.snap.Jobs {
		for k := range w.snap.Jobs[i].Tasks {
			if t := &w.snap.Jobs[i].Tasks[k]; t.State == Releasing {
				*t = Task{ID: t.ID, Spec: t.Spec}
			}
		}
	}
}

// told prints a result.
func told(r *Result) string {
	var b strings.Builder
	group := func(verb string, binds []Bind) {
		for _, x := range binds {
			fmt.Fprintf(&b, "%s %s/%s on %s", verb, x.Job, x.Task, x.Node)
			if len(x.Devices) > 0 {
				fmt.Fprintf(&b, " GPU %s", strings.Trim(fmt.Sprint(x.Devices), "[]"))
			}
			b.WriteByte('\n')
		}
	}
	group("bind", r.Binds)
	for _, e := range r.Evictions {
		fmt.Fprintf(&b, "evict %s/%s from %s: %s\n", e.Job, e.Task, e.Node, e.Reason)
	}
	group("keep room for", r.Nominations)
	for _, j := range r.Jobs {
		fmt.Fprintf(&b, "job %s is %s", j.Job, j.Phase)
		if j.Restart {
			b.WriteString(", restarts")
		}
		if j.Stranded {
			b.WriteString(", stranded")
		}
		if j.Reason != "" && j.Phase != Started {
			b.WriteString(": " + j.Reason)
		}
		b.WriteByte('\n')
	}
	for _, v := range r.Reservations {
		fmt.Fprintf(&b, "reserve %s for %s", strings.Join(v.Nodes, ","), v.Job)
		if !v.Start.IsZero() {
			fmt.Fprintf(&b, " from %s", v.Start.Format("15:04"))
		}
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		return "nothing\n"
	}
	return b.String()
}
