package dag_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// manyTasks returns a job file of n tasks. Each task has the given fields.
func manyTasks(n int, fields string) string {
	var b strings.Builder
	b.WriteString("apiVersion: tradewind/v1\nname: many\ntasks:\n")
	for i := range n {
		fmt.Fprintf(&b, "  t%d: {run: x%s}\n", i, fields)
	}
	return b.String()
}

// sharing returns the number of tasks that share machines, after a job file has been read, written and read again.
func sharing(t *testing.T, file string) int {
	t.Helper()
	job, err := native.Parse("many.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	written, err := dag.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	again, err := native.Parse("again.yaml", written)
	if err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	count := 0
	for i := range job.Tasks {
		if job.Tasks[i].Share != again.Tasks[i].Share {
			t.Errorf("task %d has share %q, and %q when it is written and read again", i, job.Tasks[i].Share,
				again.Tasks[i].Share)
		}
		if job.Tasks[i].Shares() {
			count++
		}
	}
	return count
}

func TestManyAlikeTasksShareMachines(t *testing.T) {
	enough := dag.ShareTogether
	for _, c := range []struct {
		name string
		file string
		want int
	}{
		{"too few", manyTasks(enough-1, ""), 0},
		{"enough", manyTasks(enough, ", resources: {cpus: 1}"), enough},
		{"a setup", manyTasks(enough, ", setup: y"), 0},
		{"accelerators", manyTasks(enough, ", resources: {accelerators: V100:1}"), 0},
		{"a machine type", manyTasks(enough, ", resources: {instanceType: g5.xlarge}"), 0},
		{"the file says no", manyTasks(enough, ", share: false"), 0},
		{"one says no", manyTasks(enough, "") + "  alone: {run: x, share: false}\n", enough},
		{"another machine", manyTasks(enough, "") + "  other: {run: x, resources: {disk: 900}}\n", enough},
		{"defaults say no", strings.Replace(manyTasks(enough, ""), "tasks:", "defaults: {share: false}\ntasks:", 1), 0},
		{"some say yes", manyTasks(enough-1, "") + "  last: {run: x, share: true}\n", enough},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sharing(t, c.file); got != c.want {
				t.Errorf("%d tasks share machines, want %d", got, c.want)
			}
		})
	}
}
