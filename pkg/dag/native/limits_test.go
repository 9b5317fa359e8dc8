package native_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/dagtest"
	"github.com/tradewind-broker/tradewind/pkg/dag/internal/jobtext"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// TestLimitsOfFile checks that the maximum of each field is accepted, and that one more is an error with the field's
// line.
func TestLimitsOfFile(t *testing.T) {
	list := func(n int, entry string) string { return "[" + strings.Repeat(entry+", ", n) + "]" }
	names := func(n int, entry string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, strings.ReplaceAll(entry, "N", "%[1]d")+", ", i)
		}
		return b.String()
	}
	for what, c := range map[string]struct {
		most int
		text func(n int) string // the file, from its third line on
		want string
	}{
		"reactions": {jobtext.MaxReactions, func(n int) string {
			return "  t: {run: x, gang: g, on: {podFailed: " + list(n, "abort") + "}}"
		}, "job.yaml:3:28: tasks.t.on: 65 reactions, more than 64"},
		"reactions of a gang": {jobtext.MaxReactions, func(n int) string {
			return "  t: {gang: {on: {podFailed: " + list(n, "abort") + "}, roles: {a: {run: x}}}}"
		}, "job.yaml:3:18: tasks.t.gang.on: 65 reactions, more than 64"},
		"alternatives": {jobtext.MaxAlternatives, func(n int) string {
			return "  t: {run: x, resources: {anyOf: " + list(n, "{cpus: 1}") + "}}"
		}, "tasks.t.resources.anyOf[100]: more than 100 alternatives"},
		"outputs": {jobtext.MaxFiles, func(n int) string {
			return "  t: {run: x, outputs: [" + names(n, "{name: oN}") + "]}"
		}, "tasks.t.outputs[10000]: more than 10000 outputs"},
		"inputs": {jobtext.MaxFiles, func(n int) string {
			return "  t: {run: x, inputs: [" + names(n, "'s3://b/N'") + "]}"
		}, "tasks.t.inputs[10000]: more than 10000 inputs"},
		"machines that may join": {jobtext.MaxJoining, func(n int) string {
			return fmt.Sprintf("  t: {gang: {roles: {a: {run: x, min: 30, max: %d}}}}", 30+n)
		}, "job.yaml:3:25: tasks.t.gang.roles.a: may have 65 machines more than it starts with, more than 64"},
		"machines that may join all": {jobtext.MaxJoining, func(n int) string {
			return fmt.Sprintf("  t: {gang: {minAvailable: 30, roles: {a: {run: x, replicas: %d}}}}", 30+n)
		}, "job.yaml:3:28: tasks.t.gang.minAvailable: allows 65 machines to join a role later, more than 64"},
		"letters of a name": {128, func(n int) string {
			return "  " + strings.Repeat("n", n-4) + ": {gang: {roles: {a: {run: x, min: 1, max: 2}}}}"
		}, "job.yaml:3:146: tasks." + strings.Repeat("n", 125) + ".gang.roles.a: "},
	} {
		for extra, want := range []string{"", c.want} {
			_, err := native.Parse("job.yaml", []byte("apiVersion: tradewind/v1\ntasks:\n"+c.text(c.most+extra)))
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%d %s: %v, want %q", c.most+extra, what, err, want)
			}
		}
	}
}

// TestLargeJobsRoundTrip writes jobs in parts and reads them again. No part may be empty.
func TestLargeJobsRoundTrip(t *testing.T) {
	for _, n := range []int{1, 255, 256, 257, 512} {
		j := &dag.Job{Name: "large", Objective: dag.MinimizeCost, Format: dag.Native}
		for i := range n {
			task := dag.Task{Name: fmt.Sprint("t", i), Run: "x", Nodes: 1, Resources: []dag.Resources{{}}}
			j.Tasks = append(j.Tasks, task)
		}
		dagtest.ReadBack(t, j)
		if text, err := dag.Marshal(j); err != nil || strings.Contains(string(text), "{}") && n > 1 {
			t.Errorf("%d tasks: %v, and an empty mapping", n, err)
		}
	}
}
