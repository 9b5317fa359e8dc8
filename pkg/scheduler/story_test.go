package scheduler_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	. "github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// policyOf returns a policy from the names of actions and tiers of plugins, or from text.
func policyOf(t *testing.T, actions, tiers []string, text string) *Policy {
	t.Helper()
	if strings.TrimSpace(text) == "" {
		text = "actions: [" + strings.Join(actions, ", ") + "]\ntiers:\n"
		for _, tier := range tiers {
			text += "  - [" + strings.ReplaceAll(tier, "+", ", ") + "]\n"
		}
	}
	p, err := ReadPolicy("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestStories runs testdata/*.txt. The commands are
//
//	world            starts a new world with nodes, queues and jobs
//	add              adds to it
//	run actions=(…) tiers=(a+b,c)   runs a session under that policy or the one in its text, and applies its decisions
//	release          stops the tasks that are being evicted
//	advance d=10m    advances the clock
//	set              changes a node or task: node a closed=false, task j/0 state=pending
//	why job=j        prints why a job waits
//	policy           reads a policy and prints it, or the error
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { runStory(t, path) })
	}
}

func runStory(t *testing.T, path string) {
	w := newWorld(t)
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		w.t = t
		switch d.Cmd {
		case "world":
			*w = *newWorld(t)
			w.add(d.Input)
			if len(w.snap.Queues) == 0 {
				w.snap.Queues = []Queue{{Name: "default"}}
			}
			return ""
		case "add":
			w.add(d.Input)
			return ""
		case "run":
			return told(w.run(policyOf(t, values(d, "actions", "enqueue", "allocate"), values(d, "tiers", "gang", "predicates+binpack"), d.Input)))
		case "release":
			w.release()
			return ""
		case "advance":
			w.snap.Now = w.snap.Now.Add(w.span(values(d, "d", "0s")[0]))
			return ""
		case "set":
			w.set(d.Input)
			return ""
		case "why":
			var b strings.Builder
			for _, r := range w.last.Why(values(d, "job", "")[0]) {
				fmt.Fprintf(&b, "%s: %s\n", r.Plugin, r.Text)
			}
			return b.String()
		case "policy":
			p, err := ReadPolicy("policy.yaml", []byte(d.Input))
			if err != nil {
				return err.Error() + "\n"
			}
			return fmt.Sprintf("{%v %v}\n", p.Actions, p.Tiers)
		}
		t.Fatalf("%s: unknown command %q", d.Pos, d.Cmd)
		return ""
	})
}

func values(d *datadriven.TestData, key string, otherwise ...string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == key {
			return a.Vals
		}
	}
	return otherwise
}

func (w *world) set(lines string) {
	for line := range strings.Lines(lines) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, set := attributes(rest)
		switch kind {
		case "node":
			for i := range w.snap.Nodes {
				if n := &w.snap.Nodes[i]; n.Name == name {
					n.Closed = set["closed"] == "true"
				}
			}
		case "task":
			job, id, _ := strings.Cut(name, "/")
			task := w.task(job, id)
			state, ok := ParseState(set["state"])
			if !ok {
				w.t.Fatalf("no state %q", set["state"])
			}
			task.State = state
			if state == Pending {
				task.Node, task.OnDevices = "", nil
			}
			if node := set["on"]; node != "" {
				task.Node = node
			}
		}
	}
}
