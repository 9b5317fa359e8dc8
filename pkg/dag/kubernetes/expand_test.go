package kubernetes_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// run runs a task like the node with a rank, and returns its output.
func run(t *testing.T, task *dag.Task, rank string) string {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir() // stands for the container's /etc
	cmd := exec.CommandContext(t.Context(), sh, "-c", strings.ReplaceAll(task.Run, "/etc/", dir+"/"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TRADEWIND_NODE_RANK="+rank, "TRADEWIND_HEAD=10.0.0.1", "TRADEWIND_NODES=",
		"KEY=it's \"one\"")
	for name, value := range task.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, text, task.Run)
	}
	return string(text)
}

// Controllers add their variables after those of the template. The kubelet expands them in command and args. It does
// not expand them in values of the template's variables, because these come earlier.
func TestCommandsUseVariablesOfControllers(t *testing.T) {
	const indexed = `
apiVersion: batch/v1
kind: Job
metadata: {name: j}
spec:
  completions: 3
  parallelism: 3
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
`
	const torch = `
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: j}
spec:
  pytorchReplicaSpecs:
    Master: {template: {spec: {containers: [{name: c, image: i, command: [echo, "$(RANK) of $(WORLD_SIZE)"]}]}}}
    Worker:
      replicas: 2
      template:
        spec:
          containers:
            - name: c
              image: i
              command: [echo]
              args: ["$(RANK) at $(MASTER_ADDR):$(MASTER_PORT), $$(RANK) $(KEY) $(NOBODY)"]
              env: [{name: KEY, valueFrom: {secretKeyRef: {name: keys, key: a}}}]
`
	const volcano = `
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: v}
spec:
  plugins: {env: [], svc: []}
  tasks:
    - {name: ps, template: {spec: {containers: [{name: c, image: i, command: [echo, ps, $(VC_TASK_INDEX)]}]}}}
    - name: worker
      replicas: 2
      template: {spec: {containers: [{name: c, image: i, command: [echo, $(VC_TASK_INDEX), --ps=$(VC_PS_HOSTS)]}]}}
`
	const set = `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: s}
spec:
  replicatedJobs:
    - name: w
      replicas: 2
      template:
        spec:
          completions: 2
          parallelism: 2
          template: {spec: {containers: [{name: c, image: i, command: [echo, "i$(JOB_COMPLETION_INDEX)"]}]}}
`
	const train = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainingRuntime
metadata: {name: torch}
spec:
  mlPolicy: {numNodes: 2, torch: {}}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            spec:
              template: {spec: {containers: [{name: node, image: i, command: [echo, "$(A) $(PET_NNODES)"]}]}}
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: t}
spec:
  runtimeRef: {name: torch}
  trainer: {env: [{name: A, value: b}]ARGS}
`
	for _, c := range []struct {
		name, file string
		task       int
		rank, want string
	}{
		{
			"a Job's index", indexed + `
      containers:
        - name: c
          image: i
          command: [echo, "--shard=$(JOB_COMPLETION_INDEX)"]
          args: ["$(BEFORE)"]
          env: [{name: BEFORE, value: "$(JOB_COMPLETION_INDEX)"}]
`, 2, "0", "--shard=2 $(JOB_COMPLETION_INDEX)\n",
		},
		{
			"its init containers, and a value of the template's own", indexed + `
      initContainers: [{name: a, image: i, command: [echo], args: ["init $(JOB_COMPLETION_INDEX)"]}]
      containers:
        - {name: c, image: i, command: [echo, $(JOB_COMPLETION_INDEX)], env: [{name: JOB_COMPLETION_INDEX, value: x}]}
`, 1, "0", "init 1\nx\n",
		},
		{"a master's rank", torch, 0, "0", "0 of 3\n"},
		{"a worker's rank", torch, 0, "2", "2 at 10.0.0.1:23456, $(RANK) it's \"one\" $(NOBODY)\n"},
		{"a task's index in Volcano", volcano, 0, "2", "1 --ps=v-ps-0.v\n"},
		{"a replicated job's index", set, 0, "3", "i1\n"},
		{"the command of a runtime", strings.Replace(train, "ARGS", "", 1), 0, "1", "b 2\n"},
		{
			"the arguments of a training",
			strings.Replace(train, "ARGS", `, command: [echo], args: ["$(A)$(PET_NODE_RANK)"]`, 1), 0, "1", "b1\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := kubernetes.Parse("job.yaml", []byte(c.file))
			if err != nil {
				t.Fatal(err)
			}
			if got := run(t, &j.Tasks[c.task], c.rank); got != c.want {
				t.Errorf("%q, not %q, of\n%s", got, c.want, j.Tasks[c.task].Run)
			}
		})
	}
}

// A variable that is given at submission must override the variable in the file, also in texts that refer to it.
func TestGivenVariablesOverrideFile(t *testing.T) {
	const file = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {MODE: slow}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: j}
spec:
  pytorchReplicaSpecs:
    Master: {template: {spec: {containers: [{name: c, image: i, command: [sh, -c, 'echo "$LR $MODE $NEW"']}]}}}
    Worker:
      template:
        spec:
          initContainers:
            - {name: a, image: i, command: [sh, -c, 'echo "$LR $RATE"'], env: [{name: RATE, value: "1"}]}
          containers:
            - name: c
              image: i
              command: [sh, -c, 'echo "$LR $MODE $NEW $NAMED $RATE $0 $1"']
              args: [--lr=$(LR), "$(NEW)$(RANK)"]
              envFrom: [{configMapRef: {name: settings}}]
              env: [{name: LR, value: "0.01"}, {name: NAMED, value: "lr-$(LR)"}, {name: RATE, value: "2"}]
`
	for _, c := range []struct {
		name, rank string
		env        map[string]string
		want       string
	}{
		{"none", "1", nil, "0.01 1\n0.01 slow  lr-0.01 2 --lr=0.01 $(NEW)1\n"},
		{
			"of the file, and new", "1", map[string]string{"LR": "it's 0.1", "MODE": "", "NEW": "n"},
			"it's 0.1 1\nit's 0.1  n lr-it's 0.1 2 --lr=it's 0.1 n1\n",
		},
		{"of a role that has none", "0", map[string]string{"LR": "0.1", "MODE": "fast"}, "0.1 fast \n"},
		{
			"of an init container, and of the controller's", "1", map[string]string{"RATE": "3", "RANK": "7"},
			"0.01 3\n0.01 slow  lr-0.01 3 --lr=0.01 $(NEW)7\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := read.JobWithEnv("job.yaml", strings.NewReader(file), c.env)
			if err != nil {
				t.Fatal(err)
			}
			if got := run(t, &j.Tasks[0], c.rank); got != c.want {
				t.Errorf("%q, not %q, of\n%v\n%s", got, c.want, j.Tasks[0].Env, j.Tasks[0].Run)
			}
			dagtest.ReadBack(t, j)
		})
	}
}
