package native_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// TestStories runs testdata/stories. The command read prints the job that it reads in the native format, with
// warnings and secrets, or the error; where is the other command.
func TestStories(t *testing.T) {
	dagtest.Stories(t, native.Parse, map[string]func(*testing.T, *dag.Job) string{"read": told})
}

// told returns the job in the native format, without the fields that every job has.
func told(t *testing.T, j *dag.Job) string {
	t.Helper()
	var b strings.Builder
	for _, s := range dagtest.Lines(t, j) {
		if s == "" {
			s = "." // datadriven ends a result at an empty line
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
