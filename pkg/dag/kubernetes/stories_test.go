package kubernetes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/kubernetes"
)

// TestStories runs testdata/stories. In addition to where, it has these commands:
//
//	read  prints the job of a manifest in the native format, with warnings; or the error
//	list  prints the same without scripts
func TestStories(t *testing.T) {
	tell := func(scripts bool) func(*testing.T, *dag.Job) string {
		return func(t *testing.T, j *dag.Job) string {
			dagtest.ReadBack(t, j)
			return told(t, j, scripts)
		}
	}
	dagtest.Stories(t, kubernetes.Parse, map[string]func(*testing.T, *dag.Job) string{
		"read": tell(true), "list": tell(false),
	})
}

// told returns the job in the native format, without the fields that every job has. Scripts are optional.
func told(t *testing.T, j *dag.Job, scripts bool) string {
	t.Helper()
	shown := *j
	if !scripts {
		shown.Tasks = slices.Clone(j.Tasks)
		for i := range shown.Tasks {
			shown.Tasks[i].Run = "…"
		}
	}
	var b strings.Builder
	for _, s := range dagtest.Lines(t, &shown) {
		if s != "    run: …" {
			fmt.Fprintln(&b, s)
		}
	}
	for _, w := range j.Warnings {
		fmt.Fprintln(&b, "# "+strings.TrimPrefix(w, "job.yaml:"))
	}
	return b.String()
}
