package native_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// TestStories plays testdata/stories. Its command, beside where, is read: what a file is read as, in the native form,
// with warnings and secrets; or what is wrong with it.
func TestStories(t *testing.T) {
	dagtest.Stories(t, native.Parse, map[string]func(*testing.T, *dag.Job) string{"read": told})
}

// told is the job in the native form, but for what every job has.
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
