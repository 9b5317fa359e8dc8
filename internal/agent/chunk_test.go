package agent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// chunk returns an assignment of the members a to d of an array, from a broker that pays for each call.
func chunk(t *testing.T, run string) *wire.Assignment {
	t.Helper()
	w := task(t, "a", run)
	w.Env, w.Pace = map[string]string{"MEMBER": "a", "ALL": "1"}, wire.Pace{Tail: wire.MaxReportLog, Quiet: time.Minute}
	for _, m := range []string{"b", "c", "d"} {
		w.Chunk = append(w.Chunk, wire.ChunkMember{Task: "task-" + m, Attempt: m, Prefix: "jobs/job/" + m,
			Env: map[string]string{"MEMBER": m}})
	}
	return w
}

// TestChunkRunsItsMembersInTurn: each member has its own folder, variables, log and outputs. A member that fails does
// not stop the members after it.
func TestChunkRunsItsMembersInTurn(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	w := chunk(t, `echo "I am $MEMBER of $ALL, $TRADEWIND_ATTEMPT, $TRADEWIND_TASK"; ls
		touch here; [ $MEMBER = b ] || echo $MEMBER > $TRADEWIND_OUTPUT/f; [ $MEMBER != c ] || exit 7`)
	b.Run(node, w)
	r := b.Result(node, "a")
	if r.Event != wire.Succeeded || r.Ran <= 0 || len(r.Chunk) != 3 {
		t.Fatalf("%+v", r)
	}
	if log := string(r.Log); log != "I am a of 1, a, task\n" {
		t.Errorf("the log of the first is %q", log)
	}
	for i, m := range []string{"b", "c", "d"} {
		e := r.Chunk[i]
		if e.Attempt != m || e.Ran <= 0 || e.Failed != (m == "c") || e.Empty != (m == "b") && m != "c" {
			t.Errorf("%s ended as %+v", m, e)
		}
		if log := string(e.Log); log != "I am "+m+" of 1, "+m+", task-"+m+"\n" || e.LogFrom != 0 || e.LogTimes == "" {
			t.Errorf("the log of %s is %q from %d, at %q", m, log, e.LogFrom, e.LogTimes)
		}
	}
	if e := r.Chunk[1]; e.ExitCode != 7 || e.Phase != wire.PhaseRun || e.Message == "" {
		t.Errorf("the failure is %+v", e)
	}
	for prefix, want := range map[string]bool{"jobs/job/task/out/a": true, "jobs/job/b/out/b": false, "jobs/job/c/out/c": false,
		"jobs/job/d/out/d": true} {
		_, err := os.Stat(filepath.Join(storeDir(w), prefix, "0", "files", "f"))
		if (err == nil) != want {
			t.Errorf("outputs at %s: %v", prefix, err)
		}
	}
	if events := b.Events(node, "a"); !slices.Equal(events, []wire.Event{wire.Succeeded}) {
		t.Errorf("it reported %v", events)
	}
}

// TestOrderEndsChunk: a command ends a chunk. The members that have succeeded are reported, and the others are not.
func TestOrderEndsChunk(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the polls of an agent")
	}
	for _, command := range []wire.Command{wire.SaveAndStop, wire.Stop} {
		b := agenttest.New(t)
		start(t, b, node, agent.Config{Grace: 50 * time.Millisecond})
		ready := filepath.Join(t.TempDir(), "ready")
		b.Run(node, chunk(t, `[ $MEMBER != c ] || { echo > `+ready+`; sleep 1000; }`))
		b.Await("the third member", func() bool { _, err := os.Stat(ready); return err == nil })
		b.SendCommand(node, wire.Work{Command: command, Notice: time.Second})
		r := b.Result(node, "a")
		if r.Event != wire.Succeeded || len(r.Chunk) != 1 || r.Chunk[0].Attempt != "b" || r.Chunk[0].Failed {
			t.Errorf("after %s: %+v", command, r)
		}
	}
}

// TestFirstMemberFails: if the first member of a chunk fails, the others do not run, so that the broker can announce
// them again.
func TestFirstMemberFails(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	b.Run(node, chunk(t, `[ $MEMBER != a ]`))
	if r := b.Result(node, "a"); r.Event != wire.Failed || len(r.Chunk) > 0 {
		t.Errorf("%+v", r)
	}
}

// TestLongLogOfMemberIsSentByItself: a member's log that does not fit into the report is sent separately.
func TestLongLogOfMemberIsSentByItself(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	b.Run(node, chunk(t, `[ $MEMBER != b ] || for i in $(seq 5000); do echo line $i; done`))
	r := b.Result(node, "a")
	if len(r.Chunk) != 3 || len(r.Chunk[0].Log) > 0 {
		t.Fatalf("%+v", r)
	}
	if log := b.Log(node, "b"); strings.Count(log, "\n") != 5000 {
		t.Errorf("%d lines were sent", strings.Count(log, "\n"))
	}
}
