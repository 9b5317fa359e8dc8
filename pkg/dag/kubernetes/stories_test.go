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

// TestStories plays testdata/stories. Its commands, beside where, are:
//
//	read  what a manifest becomes, in the native form, with warnings; or what is wrong with it
//	list  the same, but for what tasks run
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

// told is the job in the native form, but for what every job has, and perhaps for the scripts of its tasks.
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
