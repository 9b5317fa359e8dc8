package native_test

import (
	"reflect"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/framework"
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

func TestRolesAreTasksOfOneGang(t *testing.T) {
	j, err := native.Parse("roles.yaml", []byte(roles))
	if err != nil {
		t.Fatal(err)
	}
	chief, worker := j.Tasks[1], j.Tasks[2]
	if chief.Name != "train.chief" || worker.Name != "train.worker" || chief.Gang != "train" || worker.Gang != "train" ||
		worker.Role != "worker" || chief.Framework != framework.TensorFlow {
		t.Fatalf("read %+v and %+v", chief, worker)
	}
	if chief.Nodes != 1 || worker.Nodes != 1000 || worker.Retries != 1 || chief.Resources[0].CPUs.Min != 2 ||
		worker.Resources[0].CPUs.Min != 8 {
		t.Errorf("machines are not those of the roles: %+v and %+v", chief, worker)
	}
	if worker.Env["A"] != "all" || worker.Env["B"] != "mine" || chief.Env["B"] != "all" {
		t.Errorf("variables %v and %v", chief.Env, worker.Env)
	}
	if r, _ := chief.Reacts(dag.PodFailed, 3); r.Action != dag.RestartGang {
		t.Errorf("what the role says comes second: %+v", r)
	}
	if r, _ := worker.Reacts(dag.PodFailed, 3); r.Action != dag.Abort {
		t.Errorf("the gang's reaction is not the worker's: %+v", worker.On)
	}
	if _, found := worker.Reacts(dag.PodFailed, 4); found {
		t.Error("an exit code that is not named has a reaction")
	}
	if !j.Chief(1) || j.Chief(2) || j.Chief(0) {
		t.Error("the chief is the role chief, and no other")
	}
	g := j.Graph()
	if p := g.Parents(3); !reflect.DeepEqual(p, []int32{1}) {
		t.Errorf("who reads the model waits for %v", p)
	}
	if p := g.Parents(4); !reflect.DeepEqual(p, []int32{1, 2}) {
		t.Errorf("who waits for the gang waits for %v", p)
	}
	text, err := native.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	again, err := native.Parse("roles.yaml", text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if !reflect.DeepEqual(j.Tasks, again.Tasks) || !reflect.DeepEqual(j.Edges, again.Edges) {
		t.Errorf("written and read again it is another:\n%s", text)
	}
}
