package dag

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

// Service makes a task a replica of a long-running service: it runs until its job is cancelled. If it ends, or the
// cloud takes its machine, it is replaced.
type Service struct {
	// Of is the name of the service: all tasks with the same Of are its replicas.
	Of string `json:"of"`
	// Port is the port on which the replica listens. With 0 it does not listen, and is ready as soon as it runs.
	Port      int       `json:"port,omitempty"`
	Readiness Readiness `json:"readiness,omitzero"`
}

// Readiness states how the broker finds out whether a replica is ready. Without a path, it opens a TCP connection to
// the port.
type Readiness struct {
	Path    string            `json:"path,omitempty"` // of an HTTP request
	Post    string            `json:"post,omitempty"` // body of a POST; empty is a GET
	Headers map[string]string `json:"headers,omitempty"`
	// InitialDelay is the maximum time from the start of a replica until it is ready for the first time; 0 is
	// 20 minutes.
	InitialDelay time.Duration `json:"initialDelay,omitempty"`
	Timeout      time.Duration `json:"timeout,omitempty"` // of one probe; 0 is 15 s
}

// The defaults of a Readiness.
const (
	defaultInitialDelay = 20 * time.Minute
	defaultProbeTimeout = 15 * time.Second
)

// Limits of services.
const (
	maxHeaders = 32
	maxPort    = 65535
)

// Delay returns the maximum time until a replica is ready for the first time.
func (r *Readiness) Delay() time.Duration { return cmp.Or(r.InitialDelay, defaultInitialDelay) }

// Patience returns the maximum time of one probe.
func (r *Readiness) Patience() time.Duration { return cmp.Or(r.Timeout, defaultProbeTimeout) }

// checkPort checks the port of a service.
func checkPort(port int) error { return jobtext.CheckCount(port, 1, maxPort) }

// Check returns an error if the readiness is invalid.
func (r *Readiness) Check() error {
	if err := cmp.Or(
		fault.Within("path", ifSet(r.Path, jobtext.CheckProbePath)),
		fault.Within("initialDelay", ifSet(r.InitialDelay, checkDuration)),
		fault.Within("timeout", ifSet(r.Timeout, checkDuration)),
	); err != nil {
		return err
	}
	switch {
	case r.Path == "" && r.Post != "":
		return fault.Within("post", fault.New("needs a path", "add the path of the request: path"))
	case r.Path == "" && len(r.Headers) > 0:
		return fault.Within("headers", fault.New("need a path", "add the path of the request: path"))
	case len(r.Post) > jobtext.MaxTextBytes:
		return fault.Within("post", fault.OverLimit(
			fmt.Sprintf("has %d bytes, more than %d", len(r.Post), jobtext.MaxTextBytes), ""))
	case len(r.Headers) > maxHeaders:
		return fault.Within("headers", fault.OverLimit(
			fmt.Sprintf("%d headers, more than %d", len(r.Headers), maxHeaders), ""))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		if err := jobtext.CheckHeader(name, r.Headers[name]); err != nil {
			return fault.Within("headers", fault.WithinKey(http.CanonicalHeaderKey(name), err))
		}
	}
	return fault.Within("post", fault.CheckString(r.Post))
}

// CheckService returns an error if the task is a replica of a service and has fields that a service cannot have.
func (t *Task) CheckService() error {
	s := t.Service
	if s == nil {
		return nil
	}
	if err := cmp.Or(
		fault.Within("of", jobtext.CheckName(s.Of)),
		fault.Within("port", ifSet(s.Port, checkPort)),
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
		return fault.Within("service", fault.Within("readiness", fault.New("needs a port",
			"add the port on which the service listens: port")))
	case t.Spark != nil:
		return refused("spark", "runs a script that never ends", "remove service, or spark")
	case t.Run == "":
		return fault.Within("run", fault.New("is missing: a service needs a run script", ""))
	case t.Gang != "" || t.Joins != "":
		return refused("gang", "replaces each replica separately", "leave gang, joins and role out")
	case len(t.On) > 0:
		return refused("on", "is replaced after any failure", "leave it out")
	case t.Checkpoint != nil:
		return refused("checkpoint", "starts from the beginning on another machine", "leave it out")
	case len(t.Outputs) > 0:
		return refused("outputs", "never ends by itself", "have it write to a bucket that it mounts")
	case !t.Time.Unknown():
		return refused("time", "runs until it is cancelled", "leave it out")
	case t.Retries != 0:
		return refused("retries", "is replaced without limit", "leave it out")
	case t.Timeout != 0:
		return refused("timeout", "runs until it is cancelled", "leave it out")
	}
	return nil
}

// HasServices reports whether a task of the job is a replica of a service.
func (j *Job) HasServices() bool {
	return slices.ContainsFunc(j.Tasks, func(t Task) bool { return t.Service != nil })
}

// Replicas returns the tasks of a task's service, including the task, as indexes, or nil if it is not a replica.
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

// CheckDeadline returns an error if the job has a deadline but never ends by itself, or if the deadline is invalid.
func (j *Job) CheckDeadline() error {
	if j.Deadline != 0 && j.HasServices() {
		return fault.New("a job with a service has no end", "leave the deadline out")
	}
	return ifSet(j.Deadline, checkDuration)
}

// CheckServices returns an error if a task waits for a service, with the task and the edge, or if a service has too
// many replicas, with the task. Task and edge are -1 if they do not apply.
func (j *Job) CheckServices() (task, edge int, err error) {
	if !j.HasServices() {
		return -1, -1, nil
	}
	for k := range j.Edges {
		if from := &j.Tasks[j.Edges[k].From]; from.Service != nil {
			return j.Edges[k].To, k, fault.New(
				"waits for service "+fault.Quote(from.Service.Of)+", which never ends by itself",
				"submit a task that needs the service as a separate job")
		}
	}
	count := map[string]int{}
	for i := range j.Tasks {
		s := j.Tasks[i].Service
		if s == nil {
			continue
		}
		if count[s.Of]++; count[s.Of] > jobtext.MaxReplicas {
			return i, -1, fault.OverLimit(fmt.Sprintf("service %s has more than %d replicas", fault.Quote(s.Of),
				jobtext.MaxReplicas), "")
		}
	}
	return -1, -1, nil
}

// CheckUpdate returns an error if j cannot replace old, a job whose services are running. The services may change;
// the number of their replicas and all other tasks must stay the same.
func (j *Job) CheckUpdate(old *Job) error {
	if !old.HasServices() {
		return fault.New("the job has no services, so it cannot be updated", "submit the file as another job")
	}
	if err := j.checkSameTasks(old); err != nil {
		return err
	}
	if !slices.EqualFunc(j.Edges, old.Edges, func(a, b Edge) bool {
		return a.From == b.From && a.To == b.To && slices.Equal(a.Outputs, b.Outputs)
	}) {
		return j.Locate("tasks", "have other dependencies than before", "an update keeps the dependencies of tasks")
	}
	if !reflect.DeepEqual(j.Arrays, old.Arrays) {
		return j.Locate("tasks", "have other arrays than before", "an update keeps the arrays")
	}
	if !reflect.DeepEqual(j.Placement, old.Placement) {
		return j.Locate("placement", "differs from the running job", "an update keeps the rules of placement")
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
			same("service", "the service of each task", t.Service == nil && was.Service == nil ||
				t.Service != nil && was.Service != nil && t.Service.Of == was.Service.Of),
			same("nodes", "the number of machines of a replica", t.Nodes == was.Nodes),
			same("labels", "labels", maps.Equal(t.Labels, was.Labels)),
			same("placement", "the rules of placement", reflect.DeepEqual(t.Placement, was.Placement)),
			same("", "tasks that are not services unchanged", t.Service != nil || kept()),
		); err != nil {
			return err
		}
	}
	return nil
}

// checkSameTasks returns an error if a task is new or missing, or a service has another number of replicas than in old.
func (j *Job) checkSameTasks(old *Job) error {
	const hint = "an update keeps the tasks and the number of replicas; to change them, submit another job"
	now, before := j.names(), old.names()
	for i := range j.Tasks {
		t := &j.Tasks[i]
		name := t.updateName()
		n, was := now[name], before[name]
		switch {
		case n == was:
		case t.Service == nil, was == 0:
			return j.AtTask(i, fault.New("is new: the running job has no "+fault.Quote(name), hint))
		default:
			return j.AtTask(i, fault.Within("service", fault.New(
				fmt.Sprintf("has %d replicas, but %d are running", n, was), hint)))
		}
	}
	for i := range old.Tasks {
		if name := old.Tasks[i].updateName(); now[name] == 0 {
			return j.Locate("tasks", fault.Quote(name)+" is missing, but it is running", hint)
		}
	}
	return nil
}

// names counts the tasks by the name that an update must keep.
func (j *Job) names() map[string]int {
	count := map[string]int{}
	for i := range j.Tasks {
		count[j.Tasks[i].updateName()]++
	}
	return count
}

// updateName returns the name that an update must keep: the task's service, or else its own name.
func (t *Task) updateName() string {
	if t.Service != nil {
		return t.Service.Of
	}
	return t.Name
}
