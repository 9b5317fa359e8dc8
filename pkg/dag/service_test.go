package dag

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// web returns a job with a service of two replicas.
func web() *Job {
	j := tasksNamed("web-0", "web-1", "load")
	for i := range 2 {
		j.Tasks[i].Service = &Service{Of: "web", Port: 80, Readiness: Readiness{Path: "/health"}}
	}
	return j
}

func TestValidateRejectsInvalidServices(t *testing.T) {
	a := func(change func(*Task)) func(*Job) { return func(j *Job) { change(&j.Tasks[0]) } }
	r := func(change func(*Readiness)) func(*Job) {
		return func(j *Job) { change(&j.Tasks[0].Service.Readiness) }
	}
	for _, c := range []struct {
		want   string
		change func(*Job)
	}{
		{"", func(*Job) {}},
		{"", func(j *Job) { j.Tasks[0].Service = &Service{Of: "web"} }},
		{"", r(func(r *Readiness) { r.Post, r.Headers = "x", map[string]string{"A": ""} })},
		{"tasks.web-0.service.of: ", a(func(t *Task) { t.Service.Of = "" })},
		{"tasks.web-0.service.port: -1 is out of bounds", a(func(t *Task) { t.Service.Port = -1 })},
		{"tasks.web-0.service.readiness.path: ", r(func(r *Readiness) { r.Path = "x" })},
		{"tasks.web-0.service.readiness.initialDelay: a time cannot be negative", r(func(r *Readiness) {
			r.InitialDelay = -1
		})},
		{"tasks.web-0.service.readiness.timeout: a time cannot be negative", r(func(r *Readiness) { r.Timeout = -1 })},
		{"tasks.web-0.service.readiness.post: needs a path", r(func(r *Readiness) { r.Path, r.Post = "", "x" })},
		{"tasks.web-0.service.readiness.headers: need a path", r(func(r *Readiness) {
			r.Path, r.Headers = "", map[string]string{"A": "b"}
		})},
		{"tasks.web-0.service.readiness.headers.A: must be one line", r(func(r *Readiness) {
			r.Headers = map[string]string{"a": "b\nc"}
		})},
		{"tasks.web-0.service.readiness: needs a port", a(func(t *Task) { t.Service.Port = 0 })},
		{"tasks.web-0.service.readiness: needs a port", a(func(t *Task) {
			t.Service = &Service{Of: "web", Readiness: Readiness{Timeout: 1}}
		})},
		{"tasks.web-0.service.readiness: needs a port", a(func(t *Task) {
			t.Service = &Service{Of: "web", Readiness: Readiness{InitialDelay: 1}}
		})},
		{"tasks.web-0.run: is missing: a service needs a run script", a(func(t *Task) { t.Run, t.Setup = "", "x" })},
		{"tasks.web-0.gang: a service replaces each replica", a(func(t *Task) { t.Gang = "g" })},
		{"tasks.web-0.gang: a service replaces each replica", a(func(t *Task) { t.Joins = "g" })},
		{"tasks.web-0.on: a service is replaced", a(func(t *Task) { t.On = []Reaction{{Event: TaskFailed, Action: Abort}} })},
		{"tasks.web-0.checkpoint: a service starts from the beginning", a(func(t *Task) { t.Checkpoint = &Checkpoint{Path: "x"} })},
		{"tasks.web-0.outputs: a service never ends", a(func(t *Task) { t.Outputs = []Output{{Name: "o"}} })},
		{"tasks.web-0.time: a service runs until", a(func(t *Task) { t.Time.Default = 1 })},
		{"tasks.web-0.time: a service runs until", a(func(t *Task) { t.Time.On = map[string]time.Duration{"V100": 1} })},
		{"tasks.web-0.retries: a service is replaced", a(func(t *Task) { t.Retries = 1 })},
		{"deadline: a job with a service has no end", func(j *Job) { j.Deadline = 1 }},
		{`tasks.load.after: waits for service "web"`, func(j *Job) { j.Edges = []Edge{{From: 0, To: 2}} }},
		{"", func(j *Job) { j.Edges = []Edge{{From: 2, To: 0}, {From: 2, To: 1}} }},
	} {
		j := web()
		c.change(j)
		err := j.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v\nwant\n%s", err, c.want)
		}
	}
}

func TestReplicas(t *testing.T) {
	j := web()
	if got := j.Replicas(1); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("%v", got)
	}
	if got := j.Replicas(2); got != nil {
		t.Errorf("%v", got)
	}
	j.Tasks[2].Service = &Service{Of: "other"}
	if got := j.Replicas(2); !slices.Equal(got, []int{2}) {
		t.Errorf("%v", got)
	}
	ready := Readiness{}
	if ready.Delay() != defaultInitialDelay || ready.Patience() != defaultProbeTimeout {
		t.Errorf("%v %v", ready.Delay(), ready.Patience())
	}
	if !j.HasServices() || tasksNamed("a").HasServices() {
		t.Error("HasServices is wrong")
	}
}

func TestCheckUpdate(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(j *Job)
	}{
		{"", func(*Job) {}},
		{"", func(j *Job) { j.Tasks[0].Run, j.Tasks[1].Run = "y", "y" }},
		{"", func(j *Job) { j.Tasks[2].Time.Default = time.Hour }},
		{"tasks.load: an update keeps tasks that are not services", func(j *Job) { j.Tasks[2].Run = "y" }},
		{"tasks.web-0.nodes: an update keeps the number of machines", func(j *Job) { j.Tasks[0].Nodes = 2 }},
		{"tasks.web-1.labels: an update keeps labels", func(j *Job) { j.Tasks[1].Labels = map[string]string{"a": "b"} }},
		{"tasks.web-1.placement: an update keeps", func(j *Job) { j.Tasks[1].Placement = []Placement{{Pack: LevelZone}} }},
		{"tasks.web-9: an update keeps the names of tasks", func(j *Job) { j.Tasks[1].Name = "web-9" }},
		{"placement: differs", func(j *Job) { j.Placement = []Placement{{Pack: LevelZone}} }},
		{"tasks: have other dependencies", func(j *Job) { j.Edges = nil }},
		{"tasks: have other dependencies", func(j *Job) { j.Edges[0].Outputs = []string{}; j.Edges[0].To = 1 }},
		{"tasks: have other dependencies", func(j *Job) { j.Edges[0].Outputs = []string{"o"} }},
		{`tasks.more: is new: the running job has no "more"`, func(j *Job) {
			j.Tasks = append(j.Tasks, tasksNamed("more").Tasks...)
		}},
		{`tasks: "load" is missing, but it is running`, func(j *Job) { j.Tasks = j.Tasks[:2] }},
		{"tasks.web-0.service: has 1 replicas, but 2 are running", func(j *Job) { j.Tasks = slices.Delete(j.Tasks, 1, 2) }},
		{`tasks.web-0: is new: the running job has no "shop"`, func(j *Job) {
			j.Tasks[0].Service, j.Tasks[1].Service = &Service{Of: "shop"}, &Service{Of: "shop"}
		}},
	} {
		old, now := web(), web()
		old.Edges, now.Edges = []Edge{{From: 2, To: 0}}, []Edge{{From: 2, To: 0}}
		c.change(now)
		err := now.CheckUpdate(old)
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v\nwant\n%s", err, c.want)
		}
	}
	if err := web().CheckUpdate(tasksNamed("a")); err == nil || !strings.Contains(err.Error(), "has no services") {
		t.Error(err)
	}
}
