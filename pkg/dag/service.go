package dag

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/fault"
)

// Service says that a task is a replica of a long-running service: it runs until its job is cancelled. One that ends,
// or whose machine is taken, is replaced.
type Service struct {
	// Of is the name of the service: the tasks that have the same are its replicas.
	Of string `json:"of"`
	// Port is where it listens; 0 is nowhere. It is ready as soon as it runs then.
	Port      int       `json:"port,omitempty"`
	Readiness Readiness `json:"readiness,omitzero"`
}

// Readiness says how it is found out whether a replica can be used. Without a path it is by a TCP connection to its
// port.
type Readiness struct {
	Path    string            `json:"path,omitempty"` // of an HTTP request
	Post    string            `json:"post,omitempty"` // body of a POST; empty is a GET
	Headers map[string]string `json:"headers,omitempty"`
	// InitialDelay is how long it may take from its start until it is ready for the first time; 0 is
	// DefaultInitialDelay.
	InitialDelay time.Duration `json:"initialDelay,omitempty"`
	Timeout      time.Duration `json:"timeout,omitempty"` // of one probe; 0 is DefaultProbeTimeout
}

// What holds of a readiness that says nothing else.
const (
	DefaultInitialDelay = 20 * time.Minute
	DefaultProbeTimeout = 15 * time.Second
)

// Limits of services.
const (
	MaxReplicas = 100 // of a service
	maxHeaders  = 32
	maxPort     = 65535
)

// Delay is how long a replica may take until it is ready for the first time.
func (r *Readiness) Delay() time.Duration { return cmp.Or(r.InitialDelay, DefaultInitialDelay) }

// Patience is how long one probe may take.
func (r *Readiness) Patience() time.Duration { return cmp.Or(r.Timeout, DefaultProbeTimeout) }

// CheckPort is for ports that something listens on.
func CheckPort(port int) error { return checkCount(port, 1, maxPort) }

// CheckProbePath is for the path of a readiness.
func CheckProbePath(s string) error {
	if err := CheckText(s); err != nil {
		return err
	}
	if !strings.HasPrefix(s, "/") || strings.ContainsAny(s, " \t#") {
		return fault.New(fault.Quote(s)+" is not the path of a request", "such as /health")
	}
	return nil
}

// CheckHeader says what is wrong with a header of a request.
func CheckHeader(name, value string) error {
	ok := name != "" && len(name) <= maxNameBytes
	for i := 0; ok && i < len(name); i++ {
		ok = fault.IsAlnum(name[i]) || strings.IndexByte("!#$%&'*+-.^_`|~", name[i]) >= 0
	}
	if !ok {
		return fault.New(fault.Quote(name)+" is not the name of a header", "")
	}
	if value == "" {
		return nil
	}
	return CheckText(value)
}

// Check says what is wrong with a readiness.
func (r *Readiness) Check() error {
	if err := cmp.Or(
		fault.Within("path", ifSet(r.Path, CheckProbePath)),
		fault.Within("initialDelay", ifSet(r.InitialDelay, checkDuration)),
		fault.Within("timeout", ifSet(r.Timeout, checkDuration)),
	); err != nil {
		return err
	}
	switch {
	case r.Path == "" && r.Post != "":
		return fault.Within("post", fault.New("stands beside no path", "say where it is posted to: path"))
	case r.Path == "" && len(r.Headers) > 0:
		return fault.Within("headers", fault.New("stand beside no path", "say what is asked for: path"))
	case len(r.Post) > MaxTextBytes:
		return fault.Within("post", fault.OverLimit(
			fmt.Sprintf("has %d bytes, more than %d", len(r.Post), MaxTextBytes), ""))
	case len(r.Headers) > maxHeaders:
		return fault.Within("headers", fault.OverLimit(
			fmt.Sprintf("%d headers, more than %d", len(r.Headers), maxHeaders), ""))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		if err := CheckHeader(name, r.Headers[name]); err != nil {
			return fault.Within("headers", fault.WithinKey(http.CanonicalHeaderKey(name), err))
		}
	}
	return fault.Within("post", fault.CheckString(r.Post))
}

// CheckService says what a replica of a service has that no service can have.
func (t *Task) CheckService() error {
	s := t.Service
	if s == nil {
		return nil
	}
	if err := cmp.Or(
		fault.Within("of", CheckName(s.Of)),
		fault.Within("port", ifSet(s.Port, CheckPort)),
		fault.Within("readiness", s.Readiness.Check()),
	); err != nil {
		return fault.Within("service", err)
	}
	refused := func(field, why, hint string) error {
		return fault.Within(field, fault.New("a service "+why, hint))
	}
	r := &s.Readiness
	switch {
	case s.Port == 0 && (r.Path != "" || r.InitialDelay != 0 || r.Timeout != 0):
		return fault.Within("service", fault.Within("readiness", fault.New("stands beside no port",
			"say where the service listens: port")))
	case t.Run == "":
		return fault.Within("run", fault.New("is missing, and a service runs it", ""))
	case t.Gang != "" || t.Joins != "":
		return refused("gang", "has replicas that come and go by themselves", "leave gang, joins and role out")
	case len(t.On) > 0:
		return refused("on", "is replaced whatever happens to it", "leave it out")
	case t.Checkpoint != nil:
		return refused("checkpoint", "begins anew elsewhere", "leave it out")
	case len(t.Outputs) > 0:
		return refused("outputs", "never ends by itself", "have it write to a bucket that it mounts")
	case t.Time.Default != 0 || len(t.Time.On) > 0:
		return refused("time", "runs until it is cancelled", "leave it out")
	case t.Retries != 0:
		return refused("retries", "is replaced for as long as it takes", "leave it out")
	}
	return nil
}

// HasServices says whether a task of the job is a replica of a service.
func (j *Job) HasServices() bool {
	return slices.ContainsFunc(j.Tasks, func(t Task) bool { return t.Service != nil })
}

// Replicas are the tasks of a task's service, itself among them, as indexes; nil if it is none.
func (j *Job) Replicas(task int) (out []int) {
	s := j.Tasks[task].Service
	if s == nil {
		return nil
	}
	for i := range j.Tasks {
		if of := j.Tasks[i].Service; of != nil && of.Of == s.Of {
			out = append(out, i)
		}
	}
	return out
}

// CheckDeadline refuses a deadline of a job that never ends by itself.
func (j *Job) CheckDeadline() error {
	if j.Deadline != 0 && j.HasServices() {
		return fault.New("a job with a service has no end", "leave the deadline out")
	}
	return ifSet(j.Deadline, checkDuration)
}

// CheckServices says which edge waits for a service, and which service has too many replicas, by the task that the
// error is of. Both are negative if none.
func (j *Job) CheckServices() (task, edge int, err error) {
	if !j.HasServices() {
		return -1, -1, nil
	}
	for k := range j.Edges {
		if from := &j.Tasks[j.Edges[k].From]; from.Service != nil {
			return j.Edges[k].To, k, fault.New(
				"waits for service "+fault.Quote(from.Service.Of)+", which never ends by itself",
				"a task that needs a service while it runs is a job of its own")
		}
	}
	count := map[string]int{}
	for i := range j.Tasks {
		s := j.Tasks[i].Service
		if s == nil {
			continue
		}
		if count[s.Of]++; count[s.Of] > MaxReplicas {
			return i, -1, fault.OverLimit(fmt.Sprintf("service %s has more than %d replicas", fault.Quote(s.Of),
				MaxReplicas), "")
		}
	}
	return -1, -1, nil
}

// CheckUpdate says what of a job cannot be when it takes the place of another one whose services run: what they are may
// be another, how many there are and what is beside them is the same.
func (j *Job) CheckUpdate(old *Job) error {
	if !old.HasServices() {
		return fault.New("the job has no services: nothing of it can be updated", "hand the file in as another job")
	}
	if err := j.checkKept(old); err != nil {
		return err
	}
	if !slices.EqualFunc(j.Edges, old.Edges, func(a, b Edge) bool {
		return a.From == b.From && a.To == b.To && slices.Equal(a.Outputs, b.Outputs)
	}) {
		return j.Locate("tasks", "wait for others than before", "an update keeps what waits for what")
	}
	if !reflect.DeepEqual(j.Placement, old.Placement) {
		return j.Locate("placement", "is another than before", "an update keeps the rules of placement")
	}
	for i := range j.Tasks {
		t, was := &j.Tasks[i], &old.Tasks[i]
		same := func(field, what string, is bool) error {
			if is {
				return nil
			}
			return j.AtTask(i, fault.Within(field, fault.New("an update keeps "+what, "")))
		}
		kept := func() bool {
			a, b := *t, *was
			a.Learned, b.Learned, a.Time, b.Time = nil, nil, TimeEstimate{}, TimeEstimate{}
			return reflect.DeepEqual(a, b)
		}
		if err := cmp.Or(
			same("", "the names of tasks: it was "+fault.Quote(was.Name), t.Name == was.Name),
			same("service", "which tasks are replicas of what", t.Service == nil && was.Service == nil ||
				t.Service != nil && was.Service != nil && t.Service.Of == was.Service.Of),
			same("nodes", "how many machines a replica has", t.Nodes == was.Nodes),
			same("labels", "labels", maps.Equal(t.Labels, was.Labels)),
			same("placement", "the rules of placement", reflect.DeepEqual(t.Placement, was.Placement)),
			same("", "what is no service as it is", t.Service != nil || kept()),
		); err != nil {
			return err
		}
	}
	return nil
}

// checkKept says which task has come or is gone, or which service has another number of replicas, since old.
func (j *Job) checkKept(old *Job) error {
	const hint = "an update keeps the tasks, and how many replicas a service has; another number is another job"
	now, before := j.names(), old.names()
	for i := range j.Tasks {
		t := &j.Tasks[i]
		name := t.keptAs()
		n, was := now[name], before[name]
		switch {
		case n == was:
		case t.Service == nil, was == 0:
			return j.AtTask(i, fault.New("is new: the job that runs has no "+fault.Quote(name), hint))
		default:
			return j.AtTask(i, fault.Within("service", fault.New(
				fmt.Sprintf("has %d replicas, and %d run", n, was), hint)))
		}
	}
	for i := range old.Tasks {
		if name := old.Tasks[i].keptAs(); now[name] == 0 {
			return j.Locate("tasks", fault.Quote(name)+" is missing, and runs", hint)
		}
	}
	return nil
}

// names counts the tasks by what an update knows them by.
func (j *Job) names() map[string]int {
	count := map[string]int{}
	for i := range j.Tasks {
		count[j.Tasks[i].keptAs()]++
	}
	return count
}

// keptAs is what an update knows the task by: the service that it is a replica of, else its name.
func (t *Task) keptAs() string {
	if t.Service != nil {
		return t.Service.Of
	}
	return t.Name
}
