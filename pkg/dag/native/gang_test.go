package native_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

const roles = `
apiVersion: tradewind/v1
name: roles
defaults: {nodes: 5, retries: 1}
tasks:
  data: {run: fetch}
  train:
    framework: tensorflow
    after: [data]
    env: {A: all, B: all}
    resources: {cpus: 2}
    gang:
      on: {podEvicted: restartGang, podFailed: [{action: abort, exitCodes: [3]}]}
      roles:
        chief: {run: lead, outputs: [{name: model}], on: {podFailed: restartGang}}
        worker: {run: work, replicas: 1000, env: {B: mine}, resources: {cpus: 8}}
  use: {run: y, nodes: 1, inputs: [{from: train, output: model}]}
  last: {run: z, nodes: 1, after: [train]}
`

func TestRolesBecomeTasksOfOneGang(t *testing.T) {
	j, err := native.Parse("roles.yaml", []byte(roles))
	if err != nil {
		t.Fatal(err)
	}
	chief, worker := j.Tasks[1], j.Tasks[2]
	if chief.Name != "train.chief" || worker.Name != "train.worker" || chief.Gang != "train" || worker.Gang != "train" ||
		worker.Role != "worker" || chief.Framework != dag.TensorFlow {
		t.Fatalf("read %+v and %+v", chief, worker)
	}
	if chief.Nodes != 1 || worker.Nodes != 1000 || worker.Retries != 1 || chief.Resources[0].CPUs.Min != 2 ||
		worker.Resources[0].CPUs.Min != 8 {
		t.Errorf("the roles have wrong machines: %+v and %+v", chief, worker)
	}
	if worker.Env["A"] != "all" || worker.Env["B"] != "mine" || chief.Env["B"] != "all" {
		t.Errorf("variables %v and %v", chief.Env, worker.Env)
	}
	if r, _ := chief.Reaction(dag.PodFailed, 3); r.Action != dag.RestartGang {
		t.Errorf("the role's own reaction is not first: %+v", r)
	}
	if r, _ := worker.Reaction(dag.PodFailed, 3); r.Action != dag.Abort {
		t.Errorf("the worker does not have the gang's reaction: %+v", worker.On)
	}
	if _, found := worker.Reaction(dag.PodFailed, 4); found {
		t.Error("an exit code that is not listed has a reaction")
	}
	if !j.Chief(1) || j.Chief(2) || j.Chief(0) {
		t.Error("the role chief is not the only chief")
	}
	g := j.Graph()
	if p := g.Parents(3); !reflect.DeepEqual(p, []int32{1}) {
		t.Errorf("the task that reads the model waits for %v", p)
	}
	if p := g.Parents(4); !reflect.DeepEqual(p, []int32{1, 2}) {
		t.Errorf("the task that waits for the gang waits for %v", p)
	}
	text, err := dag.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	again, err := native.Parse("roles.yaml", text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if !reflect.DeepEqual(j.Tasks, again.Tasks) || !reflect.DeepEqual(j.Edges, again.Edges) {
		t.Errorf("the round trip changes the job:\n%s", text)
	}
}

// A role with min and max must become one task with min machines, and one more task for each machine that may join.
func TestRoleWithMinAndMax(t *testing.T) {
	const text = `
apiVersion: tradewind/v1
name: grow
tasks:
  data: {run: fetch}
  train:
    framework: pytorch
    after: [data]
    gang:
      within: zone
      roles:
        worker: {run: torchrun train.py, %s, outputs: [{name: model}]}
  use: {run: y, inputs: [{from: train, output: model}]}
`
	for words, want := range map[string][]int{
		"min: 2, max: 4": {2, 2}, "max: 3": {1, 2}, "replicas: 5, minAvailable: 3": {3, 2}, "replicas: 2": {2, 0}, "min: 3, max: 3": {3, 0},
	} {
		j, err := native.Parse("grow.yaml", fmt.Appendf(nil, text, words))
		if err != nil {
			t.Fatalf("%s: %v", words, err)
		}
		joining := j.Joining("train")
		if j.Tasks[1].Nodes != want[0] || len(joining) != want[1] || len(j.Gang(1)) != 1 {
			t.Errorf("%s: starts with %d, and %d join", words, j.Tasks[1].Nodes, len(joining))
		}
		for k, i := range joining {
			of := j.Tasks[i]
			if of.Name != fmt.Sprintf("train.worker.%d", want[0]+k) || of.Gang != "" || of.RoleName() != "worker" || of.Nodes != 1 || j.Lead(i) != 1 || of.Within != dag.WithinZone ||
				of.Outputs != nil || j.Chief(i) || len(j.Graph().Parents(i)) != 1 || len(j.Graph().Children(i)) != 0 {
				t.Errorf("%s: %+v", words, of)
			}
		}
		written, err := dag.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		again, err := native.Parse("grow.yaml", written)
		if err != nil || !reflect.DeepEqual(j.Tasks, again.Tasks) {
			t.Errorf("%s: %v: the round trip changes the job:\n%s", words, err, written)
		}
	}
	for words, want := range map[string]string{
		"min: 4, max: 2":               "grow.yaml:12:47: tasks.train.gang.roles.worker.min: min 4 is more than max 2 (write min: 2 and max: 4)",
		"min: 2":                       "has min and no max",
		"minAvailable: 2":              "has minAvailable and no replicas",
		"replicas: 2, max: 4":          "has replicas and min or max",
		"replicas: 2, minAvailable: 3": "minAvailable 3 is more than replicas 2 (write minAvailable: 2 and replicas: 3)",
		"min: 0, max: 2":               "tasks.train.gang.roles.worker.min",
		"min: 1, max: 66":              "65 machines more than it starts with",
		"min: [1], max: 2":             "tasks.train.gang.roles.worker.min",
	} {
		if _, err := native.Parse("grow.yaml", fmt.Appendf(nil, text, words)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", words, err, want)
		}
	}
}

// minAvailable of a gang reduces the machines of roles with a fixed number, or adds machines to roles with a maximum.
func TestMinAvailableOfGang(t *testing.T) {
	const text = `
apiVersion: tradewind/v1
name: enough
tasks:
  t:
    gang: {minAvailable: %d, roles: {a: {run: x, %s}, b: {run: y, %s}}}
`
	for _, c := range []struct {
		enough  int
		a, b    string
		a0, aj  int // number of machines at the start, and of machines that may join
		b0, bj  int
		problem string
	}{
		{6, "replicas: 2", "replicas: 6", 2, 0, 4, 2, ""},
		{8, "replicas: 2", "replicas: 6", 2, 0, 6, 0, ""},
		{2, "replicas: 2", "replicas: 6", 1, 1, 1, 5, ""},
		{1, "replicas: 2", "replicas: 6", 1, 1, 1, 5, ""},
		{5, "replicas: 1", "min: 2, max: 6", 1, 0, 4, 2, ""},
		{2, "replicas: 1", "min: 2, max: 6", 1, 0, 2, 4, ""},
		{4, "max: 2", "replicas: 3, minAvailable: 1", 2, 0, 2, 1, ""},
		{9, "replicas: 2", "replicas: 6", 0, 0, 0, 0, "is 9, but all roles together have 8 machines"},
		{2, "replicas: 2", "replicas: 99", 0, 0, 0, 0, "allows 98 machines to join a role"},
	} {
		j, err := native.Parse("enough.yaml", fmt.Appendf(nil, text, c.enough, c.a, c.b))
		if c.problem != "" {
			if err == nil || !strings.Contains(err.Error(), "tasks.t.gang.minAvailable: "+c.problem) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		begins, joins := map[string]int{}, map[string]int{}
		for _, task := range j.Tasks {
			if task.Joins != "" {
				joins[task.RoleName()]++
			} else {
				begins[task.RoleName()] = task.Nodes
			}
		}
		if begins["a"] != c.a0 || joins["a"] != c.aj || begins["b"] != c.b0 || joins["b"] != c.bj {
			t.Errorf("%+v: starts with %v, and %v join", c, begins, joins)
		}
	}
}

func TestInvalidJoinsAreRejected(t *testing.T) {
	const text = `
apiVersion: tradewind/v1
name: grow
tasks:
  data: {run: fetch}
  lead: {run: x, gang: g, role: worker, framework: %s, after: [data]}
  more: {run: x, %s}
  last: {run: x%s}
`
	for _, c := range []struct{ framework, more, last, want string }{
		{"pytorch", "joins: g, role: worker, framework: pytorch, after: [data]", "", ""},
		{"mpi", "joins: g, role: worker, framework: mpi, after: [data]", "", "a running program of mpi cannot get more machines"},
		{"pytorch", "joins: h, role: worker, framework: pytorch, after: [data]", "", `role "worker" of gang "h", but no task of the gang has that role`},
		{"pytorch", "joins: g, framework: pytorch, after: [data]", "", `role "more" of gang "g", but no task of the gang has that role`},
		{"pytorch", "joins: g, role: worker, framework: ray, after: [data]", "", `has a different framework than "lead"`},
		{"pytorch", "joins: g, role: worker, framework: pytorch", "", `does not wait for the same tasks as "lead"`},
		{"pytorch", "joins: g, gang: h, framework: pytorch, after: [data]", "", "has both gang and joins"},
		{"pytorch", "joins: g, role: worker, framework: pytorch, after: [data]", ", after: [more]", "another task waits for it"},
	} {
		_, err := native.Parse("grow.yaml", fmt.Appendf(nil, text, c.framework, c.more, c.last))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.more, err, c.want)
		}
	}
}
