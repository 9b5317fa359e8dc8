package wfformat_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/wfformat"
)

// TestLimitsOfFile checks that the maximum of each limit is accepted, and that one more is rejected.
func TestLimitsOfFile(t *testing.T) {
	member := func(name string) func(int) string {
		return func(n int) string { return fmt.Sprintf(`"%s": %d`, name, n) }
	}
	for name, c := range map[string]struct {
		most int
		text func(n int) string
	}{
		"time":   {int(dag.MaxDuration.Seconds()), member("runtimeInSeconds")},
		"cores":  {jobtext.MaxCPUs, member("coreCount")},
		"memory": {jobtext.MaxMemoryGiB * (1 << 30), member("memoryInBytes")},
		// A task is already four levels deep: it is in an array in an object in the file's object.
		"depth": {64, func(n int) string { return `"x": ` + strings.Repeat("[", n-4) + strings.Repeat("]", n-4) }},
	} {
		for n, want := range map[int]bool{c.most: true, c.most + 1: false} {
			text := fmt.Sprintf(`{"schemaVersion": "1.4", "workflow": {"tasks": [{"name": "a", %s}]}}`, c.text(n))
			if _, err := wfformat.Parse("j.json", []byte(text)); (err == nil) != want {
				t.Errorf("%s: %d of them: %v", name, n, err)
			}
		}
	}
}
