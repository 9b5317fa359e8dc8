package kubernetes_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// TestStories plays testdata/stories. Its commands are:
//
//	read         what a manifest becomes, in the native form, with warnings; or what is wrong with it
//	list         the same, but for what tasks run
//	where FIELD  the line of the manifest read before that is named when no machine has the FIELD that a task asks for
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		var j *dag.Job
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "read", "list":
				read, err := kubernetes.Parse("job.yaml", []byte(d.Input))
				if err != nil {
					return err.Error() + "\n"
				}
				j = read
				dagtest.ReadBack(t, j)
				return told(t, j, d.Cmd == "read")
			case "where":
				var b strings.Builder
				for i := range j.Tasks {
					fmt.Fprintln(&b, j.ErrorAt(i, 0, d.CmdArgs[0].Key, "no machine has it", ""))
				}
				return b.String()
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

// told is the job in the native form, but for what every job has, and perhaps for the scripts of its tasks.
func told(t *testing.T, j *dag.Job, scripts bool) string {
	t.Helper()
	shown := *j
	if !scripts {
		shown.Tasks = append([]dag.Task(nil), j.Tasks...)
		for i := range shown.Tasks {
			shown.Tasks[i].Run = "…"
		}
	}
	text, err := native.Marshal(&shown)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range bytes.Lines(text) {
		switch s := strings.TrimRight(string(line), "\n"); s {
		case "apiVersion: tradewind/v1", "objective: cost", "    run: …":
		default:
			fmt.Fprintln(&b, s)
		}
	}
	for _, w := range j.Warnings {
		fmt.Fprintln(&b, "# "+strings.TrimPrefix(w, "job.yaml:"))
	}
	return b.String()
}
