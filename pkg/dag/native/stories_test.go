package native_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// TestStories runs testdata/stories. The command "read" reads a job and prints it in the native format, with warnings
// and secrets, or prints the error. "where" prints positions. "members" prints the tasks with the fields that their
// arrays add.
func TestStories(t *testing.T) {
	dagtest.Stories(t, native.Parse, map[string]func(*testing.T, *dag.Job) string{"read": told, "members": members})
}

// members prints each task with the variables of its place in an array, its inputs and its outputs.
func members(_ *testing.T, j *dag.Job) string {
	var b strings.Builder
	for i := range j.Tasks {
		t := &j.Tasks[i]
		fmt.Fprint(&b, t.Name)
		env := j.MemberEnv(i)
		for _, name := range slices.Sorted(maps.Keys(env)) {
			fmt.Fprintf(&b, " %s=%q", strings.TrimPrefix(name, "TRADEWIND_"), env[name])
		}
		for _, in := range t.Inputs {
			fmt.Fprint(&b, " from ", in.URI)
		}
		for _, out := range t.Outputs {
			fmt.Fprint(&b, " to ", out.URI)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// told returns the job in the native format, without the fields that every job has.
func told(t *testing.T, j *dag.Job) string {
	t.Helper()
	var b strings.Builder
	for _, s := range dagtest.Lines(t, j) {
		if s == "" {
			s = "." // because datadriven ends a result at an empty line
		}
		if strings.HasSuffix(s, " ") {
			t.Errorf("%q ends with a space", s)
		}
		fmt.Fprintln(&b, s)
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
