package tes_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/tes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// run runs the script of a task's job like the agent. It returns the log and the output folder.
func run(t *testing.T, task tes.Task) (log []byte, output string, failed error) {
	t.Helper()
	job, err := tes.Job(task)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	output = filepath.Join(dir, "output")
	if err := os.Mkdir(output, 0o755); err != nil { //nolint:gosec // of a test
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", job.Tasks[0].Run)
	c.Dir, c.Env = dir, append(os.Environ(), "TRADEWIND_OUTPUT="+output)
	log, failed = c.CombinedOutput()
	return log, output, failed
}

// TestExecutorsRunInOrder runs a task with all features of a script: content, a volume, stdin, stdout, an ignored
// error, wildcards and a directory.
func TestExecutorsRunInOrder(t *testing.T) {
	at := t.TempDir()
	task := tes.Task{
		Inputs:  []tes.Input{{Path: at + "/in/it's", Content: "one 'two'\n$HOME\n"}},
		Volumes: []string{at + "/vol"},
		Executors: []tes.Executor{
			{Image: "i", Command: []string{"cat"}, Stdin: at + "/in/it's", Stdout: at + "/vol/copy"},
			{Image: "i", Command: []string{"sh", "-c", "echo '== tes executor 2 a b 0 0 0'; echo $X >&2; exit 3"},
				Env: map[string]string{"X": "a b"}, IgnoreError: true},
			{Image: "i", Command: []string{"sh", "-c", "mkdir sub; echo 1 >x.txt; echo 22 >sub/y.txt; pwd"},
				Workdir: at + "/vol/work"},
		},
		Outputs: []tes.Output{
			{Path: at + "/vol/copy", URL: "file://" + at + "/kept"},
			{Path: at + "/vol/work/*.txt", PathPrefix: at + "/vol", URL: "file://" + at + "/some/"},
			{Path: at + "/vol/work", Type: tes.Directory, URL: "file://" + at + "/all"},
		},
	}
	log, output, err := run(t, task)
	if err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	logs, left := task.ReadLog(log)
	if len(logs) != 3 || logs[0].Stdout != "one 'two'\n$HOME\n" || logs[1].ExitCode != 3 || logs[1].Stderr != "a b\n" ||
		logs[2].Stdout != at+"/vol/work\n" || logs[2].StartTime == "" {
		t.Errorf("logs %+v", logs)
	}
	got := map[string]string{}
	for _, f := range left {
		got[f.URL] = f.SizeBytes
	}
	url := "file://" + at
	want := map[string]string{
		url + "/kept": "16", url + "/some/work/x.txt": "2", url + "/all/x.txt": "2", url + "/all/sub/y.txt": "3",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("left %v, want %v", got, want)
	}
	for name, text := range map[string]string{"0": "one 'two'\n$HOME\n", "1/work/x.txt": "1\n", "2/sub/y.txt": "22\n"} {
		if b, err := os.ReadFile(filepath.Join(output, name)); err != nil || string(b) != text { //nolint:gosec // of a test
			t.Errorf("%s has %q, %v", name, b, err)
		}
	}
}

// TestStopsAfterFailedExecutor: an executor fails. No further one may run, and the task must have the executor's exit
// code.
func TestStopsAfterFailedExecutor(t *testing.T) {
	task := tes.Task{Executors: []tes.Executor{
		{Image: "i", Command: []string{"sh", "-c", "exit 7"}}, {Image: "i", Command: []string{"echo", "never"}},
	}}
	log, _, err := run(t, task)
	if err == nil || err.Error() != "exit status 7" {
		t.Errorf("ended with %v", err)
	}
	if logs, _ := task.ReadLog(log); len(logs) != 1 || logs[0].ExitCode != 7 {
		t.Errorf("logs %+v", logs)
	}
}

// TestResources: a job's resources must follow from the task's resources and their parameters.
func TestResources(t *testing.T) {
	no := false
	task := tes.Task{Name: "align: 1/2", Executors: []tes.Executor{{Image: "ubuntu", Command: []string{"true"}}},
		Resources: &tes.Resources{CPUCores: 4, RAMGB: 8, Preemptible: &no, Zones: []string{"aws:us-east-1"},
			BackendParameters: map[string]string{"Deadline": "6h", "budget": "2.5", "vmsize": "x"}}}
	job, err := tes.Job(task)
	if err != nil {
		t.Fatal(err)
	}
	r := job.Tasks[0].Resources
	if job.Name != "align--1-2" || job.Deadline.Hours() != 6 || job.Budget != 2.5 || len(job.Warnings) != 1 ||
		len(r) != 2 || r[0].Region != "us-east-1" || r[1].Zone != "us-east-1" || r[0].Market != dag.MarketOnDemand ||
		r[0].Container() != "ubuntu" || strings.Contains(job.Document, "vmsize") {
		t.Errorf("job %+v", job)
	}
	task.Resources.BackendParametersStrict = true
	if _, err := tes.Job(task); err == nil || !strings.Contains(err.Error(), "resources.backend_parameters.vmsize") {
		t.Errorf("a strict task: %v", err)
	}
}

// TestRejectsInvalidTasks: the error of an invalid task must name the field.
func TestRejectsInvalidTasks(t *testing.T) {
	ok := tes.Executor{Image: "i", Command: []string{"true"}}
	with := func(key, value string) tes.Task {
		return tes.Task{Executors: []tes.Executor{ok},
			Resources: &tes.Resources{BackendParameters: map[string]string{key: value}}}
	}
	other := ok
	other.Image = "j"
	for field, task := range map[string]tes.Task{
		"executors":                                 {},
		"executors[1].image":                        {Executors: []tes.Executor{ok, other}},
		"executors[0].command":                      {Executors: []tes.Executor{{Image: "i"}}},
		"inputs[0].path":                            {Executors: []tes.Executor{ok}, Inputs: []tes.Input{{Path: "a", URL: "s3://b/k"}}},
		"inputs[0].url":                             {Executors: []tes.Executor{ok}, Inputs: []tes.Input{{Path: "/a", URL: "ftp://b/k"}}},
		"resources.backend_parameters.budget":       with("budget", "lots"),
		"resources.backend_parameters.accelerators": with("accelerators", "V100:four"),
		"resources.backend_parameters.Accelerators": with("Accelerators", "A10H:1"),
		"outputs[0].path_prefix":                    {Executors: []tes.Executor{ok}, Outputs: []tes.Output{{Path: "/a*", URL: "s3://b/k"}}},
	} {
		if _, err := tes.Job(task); err == nil || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestAllFaultsOfTaskAreReported(t *testing.T) {
	_, err := tes.Job(tes.Task{
		Executors: []tes.Executor{{Image: "i"}, {Image: "i", Command: []string{"true"}, Workdir: "x"}},
		Inputs:    []tes.Input{{Path: "a", URL: "ftp://b/k"}},
		Outputs:   []tes.Output{{Path: "/a", URL: "here"}},
		Resources: &tes.Resources{
			BackendParametersStrict: true, BackendParameters: map[string]string{"budget": "lots", "vm": "x"}, Zones: []string{"a b"},
		},
	})
	for _, field := range []string{"executors[0].command", "executors[1].workdir", "inputs[0].path", "inputs[0].url", "outputs[0].url",
		"resources.backend_parameters.budget", "resources.backend_parameters.vm", "resources.zones[0]"} {
		if err == nil || !strings.Contains(err.Error(), "task: "+field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// FuzzReadLog checks that every text can be read as a log.
func FuzzReadLog(f *testing.F) {
	f.Add([]byte("== tes executor 0 a b 0 3 9\nout"))
	f.Add([]byte("== tes output 0 12 x/y\n"))
	task := tes.Task{Executors: make([]tes.Executor, 2), Outputs: make([]tes.Output, 1)}
	f.Fuzz(func(t *testing.T, log []byte) {
		if logs, _ := task.ReadLog(log); len(logs) > 2 {
			t.Errorf("%d logs of 2 executors", len(logs))
		}
	})
}
