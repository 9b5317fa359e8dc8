package jobstate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/jobstate"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// chunked returns a running job with an array. Each member takes 30 s, and a chunk of members takes at most five
// minutes.
func chunked(phases string, slots int) jobstate.Advancing {
	n := len(phases)
	spec := &dag.Job{Tasks: make([]dag.Task, n), Arrays: []dag.Array{{Name: "a", Size: n}}}
	for i := range spec.Tasks {
		spec.Tasks[i].Time.Default, spec.Tasks[i].Run = 30*time.Second, "true"
	}
	job := record.Job{ID: "j", State: apitypes.JobRunning, Started: true, Tasks: n, Arrays: record.ArraysOf(spec)}
	return jobstate.Advancing{Job: job, Spec: spec, Progress: record.Progress{Phases: []byte(phases)},
		Slots: []int{slots}, ChunkFor: 5 * time.Minute}
}

// readied lists the announcements of a decision as TASK+OTHERS#ATTEMPT, where the attempt is the chunk that the task
// ran in.
func readied(d record.Decision) string {
	var out []string
	for _, e := range d.Emits {
		if r, ok := e.(events.TaskReady); ok {
			one := fmt.Sprint(r.Task)
			if r.Chunk > 0 {
				one += fmt.Sprintf("+%d", r.Chunk)
			}
			if r.Past > 0 {
				one += fmt.Sprintf("#%d", r.Past)
			}
			if r.Try > 1 {
				one += fmt.Sprintf(" try %d", r.Try)
			}
			out = append(out, one)
		}
	}
	return strings.Join(out, " ")
}

// phasesOf returns the phases that a decision writes, or "".
func phasesOf(d record.Decision) string {
	for _, w := range d.Writes {
		if p, ok := w.Value.(record.Progress); ok {
			return string(p.Phases)
		}
	}
	return ""
}

func TestShortMembersAreAnnouncedInChunksThatGetSmaller(t *testing.T) {
	for _, c := range []struct {
		waiting, slots int
		ready          string
	}{
		// ten members of 30 s take five minutes; a quarter more than fit are announced
		{200, 4, "0+9 10+9 20+9 30+9 40+9"},
		{20, 4, "0+4 5+2 8+2 11+1 13"},
		{5, 4, "0 1 2 3 4"},
		{3, 4, "0 1 2"},
	} {
		d := jobstate.DecideAnnounce(chunked(strings.Repeat("w", c.waiting), c.slots), 0)
		if got := readied(d); got != c.ready {
			t.Errorf("of %d members on %d slots: %s, not %s", c.waiting, c.slots, got, c.ready)
		}
	}
}

func TestMembersHaveOwnAttemptsUnlessChunksSaveCalls(t *testing.T) {
	all := strings.Repeat("w", 100)
	for name, change := range map[string]func(st *jobstate.Advancing){
		"calls are free":       func(st *jobstate.Advancing) { st.ChunkFor = 0 },
		"they do not share":    func(st *jobstate.Advancing) { st.Slots = nil },
		"they are long":        func(st *jobstate.Advancing) { st.Spec.Tasks[0].Time.Default = 2 * time.Minute },
		"their time is open":   func(st *jobstate.Advancing) { st.Spec.Tasks[0].Time.Default = 0 },
		"few may run":          func(st *jobstate.Advancing) { st.Job.Arrays[0].MaxParallel = 50 },
		"they save their work": func(st *jobstate.Advancing) { st.Spec.Tasks[0].Checkpoint = &dag.Checkpoint{} },
		"failures are kept":    func(st *jobstate.Advancing) { st.Spec.KeepOnFailure = time.Hour },
		"others wait for each": func(st *jobstate.Advancing) {
			st.Spec.Tasks = append(st.Spec.Tasks, dag.Task{})
			st.Spec.Edges = []dag.Edge{{From: 0, To: 100, Each: true}}
		},
	} {
		st := chunked(all, 4)
		change(&st)
		if got := readied(jobstate.DecideAnnounce(st, 0)); strings.Contains(got, "+") {
			t.Errorf("%s, and %s are announced", name, got)
		}
	}
	st := chunked(all, 4)
	if got := readied(jobstate.DecideAnnounce(st, 0)); !strings.Contains(got, "+") {
		t.Errorf("no chunk in %s", got)
	}
}

func TestEndOfChunk(t *testing.T) {
	d := jobstate.DecideSucceeded(chunked("rcccrcwww", 2), events.TaskSucceeded{Job: "j", Task: 0, Attempt: 3, Also: []int{1, 3}})
	if got := phasesOf(d); got != "ssrsrcrcw" && got != "ssrsrcrww" {
		t.Errorf("phases are %s", got)
	}
	if got := readied(d); !strings.HasPrefix(got, "2#3 6") {
		t.Errorf("%s are announced", got)
	}
	again := chunked("ssrsrcrww", 2)
	if d := jobstate.DecideSucceeded(again, events.TaskSucceeded{Job: "j", Task: 0, Attempt: 3, Also: []int{1, 3}}); len(d.Emits) > 0 || len(d.Writes) > 0 {
		t.Errorf("a second delivery emits %v", d.Emits)
	}
}

// TestMembersBehindFailedOneRunAgain: a member of a chunk fails, and this is handled before the end of the chunk. The
// members behind it have not run, so they must be announced again.
func TestMembersBehindFailedOneRunAgain(t *testing.T) {
	d := jobstate.DecideSucceeded(chunked("rcrcccrc", 2), events.TaskSucceeded{Job: "j", Task: 0, Attempt: 1, Also: []int{1, 3},
		NotRun: []int{4, 5}})
	if got := phasesOf(d); got != "ssrsrrrc" || readied(d) != "4#1 5#1" {
		t.Errorf("phases are %s, and %s are announced", got, readied(d))
	}
}

func TestLastChunkEndsTheJob(t *testing.T) {
	d := jobstate.DecideSucceeded(chunked("ssrc", 2), events.TaskSucceeded{Job: "j", Task: 2, Also: []int{3}})
	ends := slices.ContainsFunc(d.Emits, func(e events.Data) bool { _, ok := e.(events.DAGEnding); return ok })
	if !ends || phasesOf(d) != "ssss" {
		t.Errorf("phases %s, events %v", phasesOf(d), d.Emits)
	}
	if d := jobstate.DecideSucceeded(chunked("ssrcrc", 2), events.TaskSucceeded{Job: "j", Task: 2, Also: []int{3}}); len(d.Emits) > 0 {
		t.Errorf("with a chunk that runs, it emits %v", d.Emits)
	}
}

func TestFailureInChunk(t *testing.T) {
	retried := func(phases string, task int) record.Decision {
		st := chunked(phases, 2)
		for i := range st.Spec.Tasks {
			st.Spec.Tasks[i].Retries = 1
		}
		return jobstate.DecideFailed(st, record.Task{State: record.TaskFailed, Try: 1, Attempt: 2},
			events.TaskFailed{Job: "j", Task: task, Attempt: 2, ExitCode: 1})
	}
	// The first member fails: the others have not run.
	if d := retried("rccrc", 0); readied(d) != "1#2 2#2 0 try 2" || phasesOf(d) != "rrrrc" {
		t.Errorf("%s are announced, phases %s", readied(d), phasesOf(d))
	}
	// Another member fails. The report at the end of the chunk has the outcomes of the others.
	if d := retried("rccrc", 1); readied(d) != "1 try 2" || phasesOf(d) != "rrcrc" {
		t.Errorf("%s are announced, phases %s", readied(d), phasesOf(d))
	}
}
