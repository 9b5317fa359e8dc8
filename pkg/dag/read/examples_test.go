package read_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// The scripts of the examples must run in plain sh, with the directories and variables that the agent sets, and print
// the lines that their comments state.
func TestExamplesRunInSh(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("sh is not installed")
	}
	bin := t.TempDir() // a sleep that returns at once
	if err := os.WriteFile(filepath.Join(bin, "sleep"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		"train-infer.yaml": "inferring with weights after 5 steps",
		"fan-out.yaml":     "22 words in all",
		"array.yaml":       "the sum is 2870",
		"multi-node.yaml":  "all machines together: 465",
	} {
		t.Run(file, func(t *testing.T) {
			j, err := read.File(filepath.Join("..", "..", "..", "examples", file))
			if err != nil {
				t.Fatal(err)
			}
			r := exampleRun{sh: sh, path: bin + ":" + os.Getenv("PATH"), dir: t.TempDir(), job: j}
			var log strings.Builder
			for _, i := range j.Order() {
				for rank := range j.Tasks[i].Nodes {
					out, err := r.run(i, rank)
					if err != nil {
						t.Fatalf("task %s: %v\n%s", j.Tasks[i].Name, err, out)
					}
					log.Write(out)
				}
			}
			if !strings.Contains(log.String(), want) {
				t.Errorf("%q is not in the output of the tasks:\n%s", want, log.String())
			}
		})
	}
}

// exampleRun runs the tasks of a job one after the other.
type exampleRun struct {
	sh, path, dir string
	job           *dag.Job
}

// outputs returns the directory of a task's outputs. If the task has several machines, it is that of one machine.
func (r *exampleRun) outputs(task, rank int) string {
	dir := filepath.Join(r.dir, "outputs", r.job.Tasks[task].Name)
	if r.job.Tasks[task].Nodes > 1 {
		dir = filepath.Join(dir, strconv.Itoa(rank))
	}
	return dir
}

func (r *exampleRun) run(task, rank int) ([]byte, error) {
	t := &r.job.Tasks[task]
	work := filepath.Join(r.dir, "work", t.Name, strconv.Itoa(rank))
	inputs := filepath.Join(r.dir, "inputs", t.Name)
	for _, dir := range []string{work, inputs, r.outputs(task, rank)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	for _, parent := range r.job.Graph().Parents(task) {
		name := r.job.Tasks[parent].Name
		link := filepath.Join(inputs, name)
		if err := os.Symlink(filepath.Join(r.dir, "outputs", name), link); err != nil && !os.IsExist(err) {
			return nil, err
		}
	}
	cmd := exec.Command(r.sh, "-c", t.Setup+"\n"+t.Run)
	cmd.Dir = work
	cmd.Env = []string{
		"PATH=" + r.path, "TRADEWIND_INPUTS=" + inputs, "TRADEWIND_OUTPUT=" + r.outputs(task, rank),
		"TRADEWIND_NODE_RANK=" + strconv.Itoa(
			rank,
		), "TRADEWIND_NUM_NODES=" + strconv.Itoa(t.Nodes), "TRADEWIND_HEAD=localhost", "TRADEWIND_PORT=1",
	}
	env := dag.MergeEnv(t.Env, r.job.MemberEnv(task))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, name+"="+env[name])
	}
	return cmd.CombinedOutput()
}
