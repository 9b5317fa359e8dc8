package read_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// Planning finds an error in a request. The error must have the line in the request.
func TestErrorAtFindsLine(t *testing.T) {
	readJob := func(text string) *dag.Job {
		t.Helper()
		j, err := read.Job("job.yaml", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	native := readJob(`apiVersion: tradewind/v1
tasks:
  first: {run: x}
  train:
    run: x
    resources:
      cpus: 4+
      anyOf:
        - {accelerators: V100}
        - accelerators: A100
          cpus: 8+
  last:
    run: x
    resources: {memory: 1}
`)
	sky := readJob(`name: chain
---
run: x
resources: {infra: gcp/us-central1, accelerators: {V100: 1, T4: 4}}
---
run: x
resources:
  cpus: 4
  any_of:
    - {image_id: ami-1}
`)
	wf, err := read.File("../internal/wfformat/testdata/workflows/wfformat-1.5.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		j                 *dag.Job
		task, alternative int
		field, want       string
	}{
		{native, 1, 0, "accelerators", "job.yaml:9:26: tasks.train.resources.anyOf[0].accelerators: no"},
		{native, 1, 0, "cpus", "job.yaml:7:13: tasks.train.resources.cpus: no"},
		{native, 1, 1, "cpus", "job.yaml:11:17: tasks.train.resources.anyOf[1].cpus: no"},
		{native, 1, 1, "zone", "job.yaml:10:11: tasks.train.resources.anyOf[1].zone: no"},
		{native, 1, 1, "", "job.yaml:10:11: tasks.train.resources.anyOf[1]: no"},
		{native, 1, -1, "", "job.yaml:4:3: tasks.train: no"},
		{native, 2, 0, "memory", "job.yaml:14:25: tasks.last.resources.memory: no"},
		{native, 2, 0, "cpus", "job.yaml:14:16: tasks.last.resources.cpus: no"},
		{native, 0, 0, "cpus", "job.yaml:3:3: tasks.first.resources.cpus: no"},
		{native, 9, 0, "cpus", "no"},
		{sky, 0, 1, "accelerators", "job.yaml:4:61: resources.accelerators: no"},
		{sky, 0, 0, "region", "job.yaml:4:20: resources.infra: no"},
		{sky, 1, 0, "cpus", "job.yaml:8:9: resources.cpus: no"},
		{sky, 1, 0, "image", "job.yaml:10:18: resources.any_of[0].image_id: no"},
		{wf, 0, 0, "cpus", "../internal/wfformat/testdata/workflows/wfformat-1.5.json:20:29: workflow.specification.tasks[0]: no"},
	} {
		if got := c.j.ErrorAt(c.task, c.alternative, c.field, "no", "").Error(); got != c.want {
			t.Errorf("task %d, alternative %d, %s:\n%s\nwant\n%s", c.task, c.alternative, c.field, got, c.want)
		}
	}
}

// A job was converted to the native format. An error in it must have the line of the original file.
func TestLocateFindsLineInOriginalFile(t *testing.T) {
	first, err := read.Job("sky.yaml", strings.NewReader(`# of two tasks
name: chain
---
name: a
run: x
secrets: {TOKEN: t}
---
name: a1
# far below
workdir: code
run: x
file_mounts:
  data: {source: "s3://b/data", mode: COPY}
resources:
  any_of:
    - {cpus: 1+}
    - {cpus: 2+, image_id: ami-1}
`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := dag.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	second, err := read.Job("sky.yaml", bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		task, alternative int
		field, want       string
	}{
		{0, dag.FilesOfTask, dag.SecretField("TOKEN"), "sky.yaml:6:11: secrets.TOKEN: no"},
		{0, dag.FilesOfTask, "", "sky.yaml:4:1: no"},
		{1, dag.FilesOfTask, "workdir", "sky.yaml:10:10: workdir: no"},
		{1, dag.FilesOfTask, dag.InputField(0), "sky.yaml:13:9: file_mounts.data: no"},
		{1, 1, "image", "sky.yaml:17:28: resources.any_of[1].image_id: no"},
		{1, 0, "cpus", "sky.yaml:16:14: resources.any_of[0].cpus: no"},
		{9, 0, "cpus", "sky.yaml: no"},
	} {
		told := second.ErrorAt(c.task, c.alternative, c.field, "no", "")
		if got := first.Locate(told.Field, told.Reason, told.Hint).Error(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", told, got, c.want)
		}
	}
}

// Errors must never contain the values of secrets.
func TestErrorsDoNotContainSecrets(t *testing.T) {
	for _, text := range []string{
		"run: x\nsecrets: {TOKEN: hunter2}\nnope: 1\n",
		"run: x\nsecrets: {TOKEN: [hunter2]}\n",
		"run: x\nsecrets: {TOKEN: \"hunter2\\0\"}\n",
		"run: x\nsecrets: {TOKEN: !x hunter2}\n",
		"run: x\nsecrets: {TOKEN: hunter2" + strings.Repeat("2", dag.MaxEnvBytes) + "}\n",
		"run: x\nsecrets: hunter2\n",
		"apiVersion: tradewind/v1\ntasks: {a: {run: x, secrets: {TOKEN: \"hunter2\\0\"}}}\n",
		"apiVersion: tradewind/v1\ntasks: {a: {run: x, secrets: {TOKEN: hunter2}, env: {TOKEN: hunter2}}}\n",
	} {
		_, err := read.Job("x.yaml", strings.NewReader(text))
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
