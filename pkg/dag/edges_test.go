package dag

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
)

func TestOutputSizes(t *testing.T) {
	j := tasksNamed("a", "none", "one")
	j.Tasks[0].Outputs = []Output{{Name: "model", Size: 2}, {Name: "log", Size: 3}, {Name: "x", Size: MaxSize}}
	j.Tasks[2].Outputs = []Output{{Name: "all", Size: 5}}
	s := NewOutputSizes(j)
	for range 2 { // the second time is answered by the cache
		for _, c := range []struct {
			task  int
			names []string
			want  GiB
			err   string
		}{
			{0, []string{"model"}, 2, ""}, {0, []string{"model", "log"}, 5, ""}, {0, []string{}, 0, ""},
			{1, nil, 0, ""}, {2, nil, 5, ""},
			{0, nil, MaxSize + 5, "a size of more than 1EiB"},
			{0, []string{"x", "log"}, MaxSize + 3, "a size of more than 1EiB"},
			{0, []string{"modl"}, 0, `task "a" has no output "modl" (did you mean`},
			{0, []string{"zzzzzz"}, 0, `task "a" has no output "zzzzzz" (it has log and 2 more)`},
			{1, []string{"m"}, 0, `task "none" has no output "m" (it has no outputs)`},
			{2, []string{"zzzzzz"}, 0, `task "one" has no output "zzzzzz" (it has all)`},
		} {
			got, err := s.Total(c.task, c.names)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%v of %d: %v, %v; want %v, %s", c.names, c.task, got, err, c.want, c.err)
			}
		}
	}
}

func TestNamerReturnsUniqueNames(t *testing.T) {
	n := jobtext.NewNamer(4)
	long := strings.Repeat("x", 200)
	for _, c := range []struct{ s, want string }{
		{"a b", "a-b"}, {"a.b_c", "a.b_c"}, {" -a ", "a"}, {"äöü", "none"},
		{"", "none-2"}, {"a b", "a-b-2"}, {"a-b-2", "a-b-2-2"}, {"a b", "a-b-3"},
		{long, long[:128]}, {long, long[:126] + "-2"},
	} {
		if got := n.Name(c.s, "none"); got != c.want {
			t.Errorf("%q is named %q, not %q", c.s, got, c.want)
		}
	}
	for file, want := range map[string]string{
		"a/b.yaml": "b", "b.xml.gz": "b", ".yaml": "yaml", "b": "b", "-": "job", "b.c.yaml": "b.c",
	} {
		if got := jobtext.NameFromFile(file); got != want {
			t.Errorf("%s is job %q, not %q", file, got, want)
		}
	}
}

func TestErrorAtAndLocateFindPositions(t *testing.T) {
	j := tasksNamed("a", "ab")
	j.Tasks[1].Resources = make([]Resources, 2)
	at := func(line int32) fault.Position { return fault.Position{Line: line, Column: 1} }
	j.origin = &Origin{File: "f.yaml", Tasks: []fault.Position{at(10), at(20)}, Marks: []Mark{
		{Task: 0, Alternative: FilesOfTask, Pos: at(11), Field: "workdir", Path: "workdir"},
		{Task: 0, Alternative: 0, Pos: at(12), Path: "resources"},
		{Task: 0, Alternative: 0, Pos: at(13), Field: "cpus", Path: "resources.cores"},
		{Task: 1, Alternative: 1, Pos: at(22), Path: "resources[1]"},
	}}
	for _, c := range []struct{ field, want string }{
		{"tasks.a", "f.yaml:10:1: tasks.a: x"},
		{"tasks.a.run", "f.yaml:10:1: tasks.a.run: x"},
		{"tasks.a.workdir", "f.yaml:11:1: tasks.a.workdir: x"},
		{"tasks.a.resources", "f.yaml:12:1: tasks.a.resources: x"},
		{"tasks.a.resources.memory", "f.yaml:12:1: tasks.a.resources.memory: x"},
		{"tasks.a.resources.cpus", "f.yaml:13:1: tasks.a.resources.cores: x"},
		{"tasks.ab.resources.anyOf[1].cpus", "f.yaml:22:1: tasks.ab.resources[1].cpus: x"},
		{"tasks.ab.resources[0].cpus", "f.yaml:20:1: tasks.ab.resources[0].cpus: x"},
		{"tasks.abc", "f.yaml: tasks.abc: x"},
		{"queue", "f.yaml: queue: x"},
	} {
		if got := j.Locate(c.field, "x", "").Error(); got != c.want {
			t.Errorf("%s: %s, not %s", c.field, got, c.want)
		}
	}
	if got := j.ErrorAt(2, 0, "", "x", "").Error(); got != "x" {
		t.Error(got)
	}
	if got := j.ErrorAt(-1, 0, "", "x", "").Error(); got != "x" {
		t.Error(got)
	}
	j.Format = DAX
	if got := j.Locate("tasks.a.run", "x", "").Error(); got != "f.yaml:10:1: tasks.a: x" {
		t.Error(got)
	}
	j.origin.Paths = []string{"adag/job[1]", "adag/job[2]"}
	if got := j.Locate("tasks.ab.run", "x", "").Error(); got != "f.yaml:20:1: adag/job[2]: x" {
		t.Error(got)
	}
	j.origin = nil
	if got := j.Locate("tasks.a.run", "x", "").Error(); got != "tasks.a.run: x" {
		t.Error(got)
	}
}

func TestWarningsAreLimited(t *testing.T) {
	j := tasksNamed("a")
	j.origin = &Origin{File: "f"}
	for range 2 * MaxWarnings {
		j.Warn(fault.Position{Line: 3, Column: 4}, "x", "is not read")
	}
	if len(j.Warnings) != MaxWarnings || j.Warnings[0] != "f:3:4: x: is not read" ||
		j.Warnings[MaxWarnings-2] != j.Warnings[0] || j.Warnings[MaxWarnings-1] != "f: more warnings than 100 are not shown" {
		t.Errorf("%d warnings, the last %q", len(j.Warnings), j.Warnings[len(j.Warnings)-1])
	}
}

func TestMergeAndGiveEnv(t *testing.T) {
	j := tasksNamed("a", "b")
	j.Tasks[0].Env = map[string]string{"A": "1", "B": "2"}
	j.Tasks[1].Run, j.Tasks[1].Recorded = "", 1
	if err := j.AddEnv(map[string]string{"B": "3"}); err != nil {
		t.Fatal(err)
	}
	if got := j.Tasks[0].Env; got["A"] != "1" || got["B"] != "3" || j.Tasks[1].Env != nil {
		t.Errorf("%v, and of a stand-in %v", got, j.Tasks[1].Env)
	}
	j.Tasks[0].Env, j.Tasks[0].Secrets = nil, []string{"T"}
	err := j.AddEnv(map[string]string{"T": "x"})
	if err == nil || !strings.HasPrefix(err.Error(), "tasks.a.secrets.T: is a secret") {
		t.Error(err)
	}
	if got := jobtext.WithoutEnv(map[string]string{"A": "1"}, []string{"A"}); got != nil {
		t.Errorf("WithoutEnv of no variables returns %v", got)
	}
	if got := jobtext.WithoutEnv(map[string]string{"A": "1", "B": "2"}, []string{"A", "C"}); len(got) != 1 || got["B"] != "2" {
		t.Errorf("%v", got)
	}
	if got := MergeEnv(map[string]string{"A": "1"}, nil); got["A"] != "1" {
		t.Errorf("%v", got)
	}
}

func TestMachineAndContainerImages(t *testing.T) {
	for image, want := range map[string][2]string{
		"": {"", ""}, "ami-1": {"ami-1", ""}, "docker:a:1": {"", "a:1"},
	} {
		r := Resources{Image: image}
		if r.Machine() != want[0] || r.Container() != want[1] {
			t.Errorf("%q is machine %q, container %q", image, r.Machine(), r.Container())
		}
	}
	for image, want := range map[string]bool{
		"ubuntu:24.04": true, "ghcr.io/a/b:1": true, "docker:ubuntu:24.04": false, "ami-1": false,
	} {
		if jobtext.LikeContainer(image) != want {
			t.Errorf("%q is like a container: %v", image, !want)
		}
	}
	task := Task{Resources: []Resources{{DiskGiB: 3}, {DiskGiB: 7}, {}}}
	if task.DiskGiB() != 7 || task.Resumes() || (&Task{}).StandIn() || !(&Task{Recorded: 1}).StandIn() {
		t.Error("DiskGiB is not 7, or a task without checkpoints resumes")
	}
}
