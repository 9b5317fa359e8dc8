package native_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// TestStories plays testdata/stories. Its commands are:
//
//	read           what a file is read as, in the native form, with warnings and secrets; or what is wrong with it
//	where [FIELD]  the line of the file read before that is named when no machine has the FIELD that a task asks for
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		var j *dag.Job
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "read":
				read, err := native.Parse("job.yaml", []byte(d.Input))
				if err != nil {
					return err.Error() + "\n"
				}
				j = read
				return told(t, j)
			case "where":
				field := ""
				for _, arg := range d.CmdArgs {
					field = arg.Key
				}
				var b strings.Builder
				for i := range j.Tasks {
					fmt.Fprintln(&b, j.ErrorAt(i, 0, field, "no machine has it", ""))
				}
				return b.String()
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

// told is the job in the native form, but for what every job has.
func told(t *testing.T, j *dag.Job) string {
	t.Helper()
	text, err := native.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for line := range bytes.Lines(text) {
		s := strings.TrimRight(string(line), "\n")
		if s == "" {
			s = "." // datadriven ends a result at an empty line
		}
		if strings.HasSuffix(s, " ") {
			t.Errorf("%q ends with a space", s)
		}
		if s != "apiVersion: tradewind/v1" && s != "objective: cost" {
			fmt.Fprintln(&b, s)
		}
	}
	for _, w := range j.Warnings {
		fmt.Fprintln(&b, "# "+w)
	}
	for _, name := range j.SecretNames() {
		if value, stated := j.Stated[name]; stated {
			fmt.Fprintf(&b, "# secret %s: %s\n", name, value)
		}
	}
	return b.String()
}
