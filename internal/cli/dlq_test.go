package cli

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// addLetter adds a dead letter.
func addLetter(p *program, id, queue, reason string) {
	p.hosts.dead.Add(bus.DeadLetter{
		Message: bus.Message{
			ID: id, Type: "tradewind.task.admitted.v1", Group: "train-infer-4k7q2a",
			Body: []byte(`{"specversion":"1.0","id":"` + id + `","data":{"job":"train-infer-4k7q2a","task":1}}`),
		},
		Queue: queue, Reason: reason, Attempts: 20, At: at(30),
	})
}

func TestCompleteDeadLetters(t *testing.T) {
	p := newProgram(t)
	p.hosts.up(1)
	addLetter(p, "aa1", "provision", "x")
	addLetter(p, "aa2", "schedule", "x")
	addLetter(p, "bb1", "", "x")
	for line, want := range map[string]string{
		"dlq show a":                    "aa1\tprovision task.admitted.v1\naa2\tschedule task.admitted.v1\n:36\n",
		"dlq show aa1 a":                ":4\n",
		"dlq redrive aa1 a":             "aa2\tschedule task.admitted.v1\n:36\n",
		"dlq redrive --queue schedule ": "aa2\tschedule task.admitted.v1\n:36\n",
		"dlq redrive b":                 "bb1\ttask.admitted.v1\n:36\n",

		"dlq list --output ": "table\njson\nyaml\n:4\n",
	} {
		if r := p.run(append([]string{"__complete"}, splitWords(line)...)...); r.out != want {
			t.Errorf("%q: got %q, want %q\n%s", line, r.out, want, r.err)
		}
	}
}

// splitWords splits a command line like a shell does for completion: the last word may be empty.
func splitWords(line string) []string { return strings.Split(line, " ") }
