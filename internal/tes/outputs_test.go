package tes_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/tes"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// left returns the contents of the files below a folder, by relative path.
func left(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	if err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p) //nolint:gosec // of a test
		name, _ := filepath.Rel(dir, p)
		all[name] = string(b)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFailedTaskKeepsOutputs: a task fails. Engines must be able to read its output files. If one of the files is
// missing, the task must keep its exit code.
func TestFailedTaskKeepsOutputs(t *testing.T) {
	at := t.TempDir()
	task := tes.Task{
		Executors: []tes.Executor{{Image: "i", Workdir: at, Command: []string{"sh", "-c", "echo why >err; exit 7"}}},
		Outputs: []tes.Output{
			{Path: at + "/none", Type: tes.Directory, URL: "file:///none"},
			{Path: at + "/result", URL: "file:///result"},
			{Path: at + "/err", URL: "file:///err"},
		},
	}
	log, output, err := run(t, task)
	if err == nil || err.Error() != "exit status 7" {
		t.Errorf("ended with %v", err)
	}
	if got := left(t, output); !reflect.DeepEqual(got, map[string]string{"2": "why\n"}) {
		t.Errorf("left %q", got)
	}
	if strings.Contains(string(log), "tes output") {
		t.Errorf("the log lists the outputs as if the task had succeeded: %s", log)
	}
	job, err := tes.Job(task)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range job.Tasks[0].Outputs {
		if !out.OnFailure {
			t.Errorf("%s is not saved if the command fails", out.Name)
		}
	}
}

// TestMissingOutputs: a missing output must fail the task, in its script or in the agent. Exceptions are Nextflow's
// tasks: Nextflow also names optional files, and checks the files itself.
func TestMissingOutputs(t *testing.T) {
	at := t.TempDir()
	task := tes.Task{
		Executors: []tes.Executor{{Image: "i", Command: []string{"true"}, Workdir: at}},
		Outputs:   []tes.Output{{Path: at + "/optional", URL: "file:///optional"}},
	}
	_, output, err := run(t, task)
	if _, there := os.Stat(output + "/0"); err != nil || there == nil {
		t.Errorf("a missing file: %v, and its place is not empty: %v", err, there)
	}
	task.Outputs[0].Type = tes.Directory
	if log, _, err := run(t, task); err == nil || err.Error() != "exit status 125" ||
		!strings.Contains(string(log), "there is no directory "+at+"/optional") {
		t.Errorf("a directory that is not there: %v, %s", err, log)
	}
	task.Inputs = []tes.Input{{Path: at + "/.command.run", Content: "true"}}
	task.Outputs = append(task.Outputs, tes.Output{Path: at + "/more", URL: "file:///more"},
		tes.Output{Path: at + "/.exitcode", URL: "file:///.exitcode"})
	log, output, err := run(t, task)
	if err != nil {
		t.Fatalf("of Nextflow: %v, %s", err, log)
	}
	if entries, err := os.ReadDir(output); err != nil || len(entries) != 3 || len(left(t, output)) != 0 {
		t.Errorf("of Nextflow: %v, %v", entries, err)
	}
}

// An output of type DIRECTORY is a file. The task must fail, also if the output's path has wildcards.
func TestDirectoryOutputThatIsFileFails(t *testing.T) {
	at := t.TempDir()
	for _, out := range []tes.Output{
		{Path: at + "/f*", PathPrefix: at, Type: tes.Directory, URL: "file:///x"},
		{Path: at + "/file", Type: tes.Directory, URL: "file:///x"},
	} {
		task := tes.Task{
			Executors: []tes.Executor{{Image: "i", Command: []string{"touch", "file"}, Workdir: at}},
			Outputs:   []tes.Output{out},
		}
		log, _, err := run(t, task)
		if err == nil || err.Error() != "exit status 125" || !strings.Contains(string(log), at+"/file is no directory") {
			t.Errorf("%s: %v, %s", out.Path, err, log)
		}
		task.Outputs[0].Type = ""
		if log, _, err := run(t, task); err != nil {
			t.Errorf("%s as a file: %v, %s", out.Path, err, log)
		}
	}
}

// The reason of a failure ends with the last output of the task. It must not contain lines of the task's script.
func TestSystemLogsHaveNoLinesOfScript(t *testing.T) {
	for reason, want := range map[string]string{
		"exit code 1: bad\n== tes executor 0 2026-01-01T00:00:00Z 2026-01-01T00:00:01Z 1 4 0\nbad": "exit code 1: bad\nbad",
		"exit code 1:\n== tes executor 0 a b 1 0 0\n":                                              "exit code 1",
		"exit code 1: x\n== tes output 0 4 dir/f\n== tes output 1 4":                               "exit code 1: x",
		"no machine": "no machine",
	} {
		if got := tes.SystemLog(reason); got != want {
			t.Errorf("%q is %q, want %q", reason, got, want)
		}
	}
}

// TestOutputNames covers directories that match wildcards, links, and names with brackets.
func TestOutputNames(t *testing.T) {
	at := t.TempDir()
	task := tes.Task{
		Executors: []tes.Executor{{Image: "i", Workdir: at, Command: []string{"sh", "-c", `mkdir -p dir-1/sub dir-2
			echo 1 >dir-1/sub/f; echo 2 >dir-2/g; ln -s "$PWD/dir-2/g" dir-1/l; echo b >'a[1].txt'`}}},
		Outputs: []tes.Output{
			{Path: at + "/dir-*", PathPrefix: at, URL: "file:///w"},
			{Path: at + "/a[1].txt", URL: "file:///w/a[1].txt"},
			{Path: at + "/dir-1", URL: "file:///d"},
		},
	}
	log, output, err := run(t, task)
	if err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	want := map[string]string{
		"0/dir-1/sub/f": "1\n", "0/dir-1/l": "2\n", "0/dir-2/g": "2\n", "1": "b\n", "2/sub/f": "1\n", "2/l": "2\n",
	}
	if got := left(t, output); !reflect.DeepEqual(got, want) {
		t.Errorf("left %q, want %q", got, want)
	}
	told := map[string]bool{}
	_, outputs := task.ReadLog(log)
	for _, f := range outputs {
		told[f.URL] = true
	}
	wantTold := map[string]bool{
		"file:///w/dir-1/sub/f": true, "file:///w/dir-1/l": true, "file:///w/dir-2/g": true, "file:///w/a[1].txt": true,
		"file:///d/sub/f": true, "file:///d/l": true,
	}
	if !reflect.DeepEqual(told, wantTold) {
		t.Errorf("listed %v, want %v", told, wantTold)
	}
}

// TestAcceptsAbsolutePathAsURL: a local file may be named by only its path. TES allows that, and Nextflow does it.
func TestAcceptsAbsolutePathAsURL(t *testing.T) {
	job, err := tes.Job(tes.Task{
		Executors: []tes.Executor{{Image: "i", Command: []string{"true"}}},
		Inputs: []tes.Input{
			{Path: "/work/in", URL: "/data/it's 100%.txt"}, {Path: "/work/d", URL: "/data/d", Type: tes.Directory},
		},
		Outputs: []tes.Output{{Path: "/work/out", URL: "/data/out #1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	task := job.Tasks[0]
	if task.Inputs[0].URI != "/data/it's 100%.txt" || task.Inputs[1].URI != "/data/d/" ||
		task.Outputs[0].URI != "/data/out #1" {
		t.Errorf("%+v, %+v", task.Inputs, task.Outputs)
	}
	for _, relative := range []string{"data/in", "~/in"} {
		if _, err := tes.Job(tes.Task{
			Executors: []tes.Executor{{Image: "i", Command: []string{"true"}}},
			Inputs:    []tes.Input{{Path: "/work/in", URL: relative}},
		}); err == nil || !strings.Contains(err.Error(), "inputs[0].url:") {
			t.Errorf("%s: %v", relative, err)
		}
	}
}

// TestExplainFailedTask: the reason of a failure must be in the field that clients show, even if there was no
// attempt.
func TestExplainFailedTask(t *testing.T) {
	const reason = "no feasible plan: no offer has 5000 vCPUs"
	d := &apitypes.JobDetail{TaskList: []apitypes.TaskView{{State: "cancelled"}}}
	d.State, d.Reason = apitypes.JobFailed, reason
	failed := tes.Task{State: tes.StateOf(d)}
	failed.Explain(d.Reason)
	if len(failed.Logs) != 1 || !reflect.DeepEqual(failed.Logs[0].SystemLogs, []string{reason}) ||
		failed.Logs[0].Logs == nil {
		t.Errorf("%+v", failed.Logs)
	}
	again := tes.Task{State: tes.ExecutorError, Logs: []tes.TaskLog{{}, {SystemLogs: []string{reason}}}}
	again.Explain(reason)
	if len(again.Logs) != 2 || again.Logs[0].SystemLogs != nil || len(again.Logs[1].SystemLogs) != 1 {
		t.Errorf("%+v", again.Logs)
	}
	done := tes.Task{State: tes.Canceled}
	if done.Explain("cancelled by a TES client"); done.Logs != nil {
		t.Errorf("%+v", done.Logs)
	}
}

// TestLogsForNextflowAreReversed: the first machine of a Nextflow task is preempted, and the second succeeds. The
// logs must be in reverse order, so that Nextflow sees the success.
func TestLogsForNextflowAreReversed(t *testing.T) {
	attempts := []tes.TaskLog{
		{Metadata: map[string]string{"attempt": "1"}}, {Metadata: map[string]string{"attempt": "2"}},
	}
	other := tes.Task{State: tes.Complete, Logs: append([]tes.TaskLog{}, attempts...)}
	of := tes.Task{
		State: tes.Complete, Logs: append([]tes.TaskLog{}, attempts...),
		Inputs:  []tes.Input{{Path: "/work/.command.run", URL: "/w/.command.run"}},
		Outputs: []tes.Output{{Path: "/work/.exitcode", URL: "/w/.exitcode"}},
	}
	other.Explain("")
	of.Explain("")
	if other.Logs[0].Metadata["attempt"] != "1" || of.Logs[0].Metadata["attempt"] != "2" || len(of.Logs) != 2 {
		t.Errorf("of Nextflow %v, of others %v", of.Logs, other.Logs)
	}
}
