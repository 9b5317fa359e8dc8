package dag

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestValidateRejectsConflictingInputs(t *testing.T) {
	in := func(in ...Input) func(*Task) { return func(t *Task) { t.Inputs = in } }
	for _, c := range []struct {
		want   string
		change func(*Task)
	}{
		{"", in(Input{URI: "s3://b/x", Mount: MountRead}, Input{URI: "s3://b/y", Mount: MountCached, Path: "/data"})},
		{"", in(Input{URI: "file:///x", Mount: MountWrite})},
		{"", in(Input{URI: "x"}, Input{URI: "y", Path: "x/y"}, Input{URI: "z", Path: "x"})}, // two files in one folder
		{"", in(Input{URI: "s3://b/x", Bucket: BucketCreate, Source: "dir", Mount: MountWrite})},
		{"", in(Input{URI: "s3://b", Path: "~/data"}, Input{URI: "s3://c", Path: "~/more", Mount: MountRead})},
		{`inputs[0].mount: "x" is not a way to mount`, in(Input{URI: "s3://b", Mount: "x"})},
		{"inputs[0].mount: a path of this computer", in(Input{URI: "x", Mount: MountRead})},
		{"inputs[0].mount: a path of this computer", in(Input{URI: "pack://x", Mount: MountRead})},
		{`inputs[0].uri: "s3://b/x?y" cannot be mounted`, in(Input{URI: "s3://b/x?y", Mount: MountRead})},
		{`inputs[0].uri: "s3://b/x#y" cannot be mounted`, in(Input{URI: "s3://b/x#y", Mount: MountRead})},
		{`inputs[0].uri: "s3://b/%zz" cannot be mounted`, in(Input{URI: "s3://b/%zz", Mount: MountRead})},
		{"inputs[0].path: would be mounted over the task's", in(Input{URI: "s3://b", Path: "./", Mount: MountRead})},
		{`inputs[0].path: "/" cannot be a mount point`, in(Input{URI: "s3://b", Path: "/", Mount: MountRead})},
		{`inputs[0].path: "~/" cannot be a mount point`, in(Input{URI: "s3://b", Path: "~/", Mount: MountRead})},
		{"inputs[0].bucket: unknown bucket", in(Input{URI: "s3://b", Bucket: "x"})},
		{`inputs[0].bucket: "file:///x" is not in a bucket`, in(Input{URI: "file:///x", Bucket: BucketCreate})},
		{`inputs[0].bucket: "x" is not in a bucket`, in(Input{URI: "x", Bucket: BucketTemporary})},
		{"inputs[0].source: is uploaded to a bucket", in(Input{URI: "x", Source: "y"})},
		{`inputs[0].source: "s3://y" is not a local path`, in(Input{URI: "s3://x", Source: "s3://y"})},
		{"", in(Input{URI: "s3://x", Source: "pack://y"})},
		{"inputs[0].source: must be one line", in(Input{URI: "s3://x", Source: "a\nb"})},
		{
			"inputs[1]: would be inside x, the path of \"s3://b\"",
			in(Input{URI: "s3://b", Path: "x", Mount: MountRead}, Input{URI: "y", Path: "x/y/z"}),
		},
		{
			"inputs[1]: would be inside x, the path of \"y\"",
			in(Input{URI: "y", Path: "x"}, Input{URI: "s3://b", Path: "x/y", Mount: MountRead}),
		},
		{
			"inputs[1]: would hide x/y, the path of \"y\"",
			in(Input{URI: "y", Path: "x/y"}, Input{URI: "s3://b", Path: "x", Mount: MountRead}),
		},
		{"inputs[1]: has the same path as \"s3://b\", $TRADEWIND_INPUTS/b", in(Input{URI: "s3://b"}, Input{URI: "/x/b"})},
		{"inputs[1]: has the same path as \"s3://b/\", $TRADEWIND_INPUTS/b", in(Input{URI: "s3://b/"}, Input{URI: "b"})},
		{"inputs[0].mount: pods of a cluster cannot mount", func(t *Task) {
			in(Input{URI: "s3://b", Mount: MountRead})(t)
			t.Resources = []Resources{{Cloud: "kubernetes"}, {Cloud: "kubernetes"}}
		}},
		{"", func(t *Task) {
			in(Input{URI: "s3://b", Mount: MountRead})(t)
			t.Resources = []Resources{{Cloud: "kubernetes"}, {Cloud: "aws"}}
		}},
		{"inputs[0].path: overlaps the folder of the task's checkpoints, ckpt", func(t *Task) {
			in(Input{URI: "s3://b", Path: "ckpt/x", Mount: MountRead})(t)
			t.Checkpoint = &Checkpoint{Path: "ckpt"}
		}},
		{"inputs[0].path: overlaps the folder of the task's checkpoints, ckpt/x", func(t *Task) {
			in(Input{URI: "s3://b", Path: "ckpt", Mount: MountRead})(t)
			t.Checkpoint = &Checkpoint{Path: "ckpt/x"}
		}},
		{"inputs[0].path: overlaps the folder of the task's checkpoints, checkpoint", func(t *Task) {
			in(Input{URI: "s3://b", Path: "checkpoint", Mount: MountRead})(t)
			t.Checkpoint = &Checkpoint{Path: "."}
		}},
		{"", func(t *Task) {
			in(
				Input{URI: "s3://b", Path: "ckpt-x", Mount: MountRead},
				Input{URI: "s3://ckpt", Mount: MountRead},
				Input{URI: "y", Path: "ckpt"},
			)(t)
			t.Checkpoint = &Checkpoint{Path: "ckpt"}
		}},
	} {
		j := tasksNamed("a")
		c.change(&j.Tasks[0])
		err := j.Validate()
		if c.want != "" {
			c.want = "tasks.a." + c.want
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v\nwant\n%s", err, c.want)
		}
	}
}

func TestParseMount(t *testing.T) {
	for _, c := range []struct {
		word, stored string
		want         Mount
		writes       bool
	}{
		{"No", "false", Copied, false}, {"true", "true", MountRead, false}, {"read", `"read"`, MountRead, false},
		{"write", `"write"`, MountWrite, true}, {"cached", `"cached"`, MountCached, true},
	} {
		var m Mount
		got, err := ParseMount(c.word)
		if err := json.Unmarshal([]byte(c.stored), &m); err != nil {
			t.Fatal(err)
		}
		if err != nil || got != c.want || m != c.want || got.Writes() != c.writes {
			t.Errorf("%s is %q (writes: %v), %v; stored %q", c.word, got, got.Writes(), err, m)
		}
	}
	if _, err := ParseMount("x"); err == nil {
		t.Error("x is accepted as a mount")
	}
	task := Task{Inputs: []Input{{URI: "x"}}}
	if task.Mounts() {
		t.Error("a copied input counts as mounted")
	}
	task.Inputs = append(task.Inputs, Input{URI: "y", Mount: MountRead})
	if !task.Mounts() {
		t.Error("a mounted input counts as copied")
	}
}
