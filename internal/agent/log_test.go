package agent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

func TestLogKeepsOrderOfBothStreams(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	b.Run(node, task(t, "a1", `for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done`))
	b.Result(node, "a1")
	var want strings.Builder
	for _, i := range []string{"1", "2", "3", "4", "5"} {
		want.WriteString("out " + i + "\nerr " + i + "\n")
	}
	if got := b.Log(node, "a1"); got != want.String() {
		t.Errorf("log %q", got)
	}
}

func TestHugeLogLineIsShipped(t *testing.T) {
	const size = 4 << 20 // many pieces
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	w := task(t, "a1", `head -c 4194304 /dev/zero | tr '\0' x; echo end; exit 1`)
	w.Store = ""
	b.Run(node, w)
	r := b.Result(node, "a1")
	if got := b.Log(node, "a1"); len(got) != size+4 || strings.Trim(got, "x") != "end\n" {
		t.Errorf("log of %d bytes", len(got))
	}
	if len(r.Message) > 2<<10 || !strings.HasSuffix(r.Message, "xend") {
		t.Errorf("message of %d bytes: %.20q", len(r.Message), r.Message)
	}
}

func TestLogOverLimitIsTruncated(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{MaxLog: 1000})
	b.Run(node, task(t, "a1", `head -c 100000 /dev/zero | tr '\0' x; echo; echo the end; exit 3`))
	r := b.Result(node, "a1")
	if r.ExitCode != 3 || r.Message != "the end" {
		t.Errorf("%+v", r)
	}
	got := b.Log(node, "a1")
	if len(got) > 1100 || !strings.HasPrefix(got, strings.Repeat("x", 1000)+"\ntradewind: the log reached 1000 bytes") {
		t.Errorf("log of %d bytes: …%.200q", len(got), got[min(len(got), 990):])
	}
}

func TestFailureMessageIsValidUTF8(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	b.Run(node, task(t, "a1", `head -c 3000 /dev/urandom; printf '\303'; exit 1`))
	if r := b.Result(node, "a1"); !utf8.ValidString(r.Message) || r.Phase != wire.PhaseRun {
		t.Errorf("%+v", r)
	}
}

// tailed returns a task whose broker accepts the end of the log in the last report.
func tailed(t *testing.T, run string) *wire.Assignment {
	w := task(t, "a1", run)
	w.Pace.Tail, w.Pace.Log = 1<<20, time.Hour
	return w
}

func TestResultContainsEndOfLog(t *testing.T) {
	const piece = wire.MaxReportLog
	for run, sent := range map[string]int{
		"echo short":                             0,
		"true":                                   0,
		"echo failed; exit 3":                    0,
		"head -c 65536 /dev/zero | tr '\\0' x":   0, // as much as a report may contain
		"head -c 65537 /dev/zero | tr '\\0' x":   1,
		"head -c 3000000 /dev/zero | tr '\\0' x": 12,
	} {
		b := agenttest.New(t)
		start(t, b, node, agent.Config{})
		b.Run(node, tailed(t, run))
		r := b.Result(node, "a1")
		if got := b.Calls(wire.PathLogs); got != sent {
			t.Errorf("%s: %d pieces in addition to the report's %d bytes, want %d", run, got, len(r.Log), sent)
		}
		want := map[string]int{"echo short": 6, "echo failed; exit 3": 7, "true": 0}
		size, known := want[run]
		if !known {
			fmt.Sscanf(run, "head -c %d", &size)
		}
		if got := b.Log(node, "a1"); len(got) != size || len(r.Log) > piece {
			t.Errorf("%s: log of %d bytes, %d with the report, want %d", run, len(got), len(r.Log), size)
		}
	}
}

func TestStartedIsReportedWithFirstLog(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	w := tailed(t, "echo one; while [ ! -e $TMPDIR/../go ]; do sleep 0.01; done; echo two")
	w.Pace.Log = 500 * time.Millisecond
	b.Run(node, w)
	if r := b.Report(node, "a1", wire.Started); string(r.Log) != "one\n" || b.Calls(wire.PathLogs) != 0 {
		t.Errorf("the report contains %q, and %d pieces were sent", r.Log, b.Calls(wire.PathLogs))
	}
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Minute}) // ends the task
	b.Result(node, "a1")
	if got := b.Log(node, "a1"); !strings.HasPrefix(got, "one\ntradewind: the machine will be taken") {
		t.Errorf("log %q", got)
	}
}

func TestShortTaskReportsStartedBeforeResult(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	b.Run(node, tailed(t, "true")) // the first piece of its log would be sent seconds later
	b.Result(node, "a1")
	if got := b.Events(node, "a1"); !slices.Equal(got, []wire.Event{wire.Started, wire.Succeeded}) {
		t.Errorf("%v", got)
	}
}

func TestQuietTaskReportsOnlyItsSuccess(t *testing.T) {
	for run, want := range map[string][]wire.Event{
		"echo one; sleep 0.2":         {wire.Succeeded},
		"echo one; sleep 0.2; exit 3": {wire.Started, wire.Failed},
	} {
		b := agenttest.New(t)
		start(t, b, node, agent.Config{})
		w := tailed(t, run)
		w.Pace.Quiet = time.Minute
		b.Run(node, w)
		r := b.Result(node, "a1")
		if got := b.Events(node, "a1"); !slices.Equal(got, want) {
			t.Errorf("%s: %v", run, got)
		}
		if quiet := len(want) == 1; quiet != (r.Ran >= 200*time.Millisecond) || quiet && string(r.Log) != "one\n" ||
			b.Calls(wire.PathLogs) != 0 {
			t.Errorf("%s: it ran for %v, and the report contains %q", run, r.Ran, r.Log)
		}
	}
}

func TestResultWithLogGapResendsLog(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	w := tailed(t, "echo one; while [ ! -e $TMPDIR/../go ]; do sleep 0.01; done; echo two")
	w.Pace.Log = time.Second
	b.Run(node, w)
	b.AwaitLog(node, "a1", "one\n")
	b.ForgetLog(node, "a1", 2)
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Minute}) // ends the task
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	if got := b.Log(node, "a1"); !strings.HasPrefix(got, "one\ntradewind: the machine will be taken") {
		t.Errorf("log %q", got)
	}
}

func TestResultDoesNotWaitForLog(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for an agent to give up its log")
	}
	b := agenttest.New(t)
	b.RefuseLogs()
	start(t, b, node, agent.Config{})
	b.Run(node, tailed(t, "echo lost; touch $TRADEWIND_OUTPUT/x; sleep 100"))
	b.Report(node, "a1", wire.Started)
	b.SendCommand(node, wire.Work{Command: wire.Stop})
	if r := b.Result(node, "a1"); r.Event != wire.Stopped || len(r.Log) > 0 {
		t.Errorf("%+v", r)
	}
}
