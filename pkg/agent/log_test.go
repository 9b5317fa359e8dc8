package agent_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tradewind-broker/tradewind/pkg/agent"
	"github.com/tradewind-broker/tradewind/pkg/agent/agenttest"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
)

func TestBothStreamsAreShippedInTheOrderWritten(t *testing.T) {
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

func TestAHugeLineIsShippedWhole(t *testing.T) {
	const size = 4 << 20 // many times what is sent at once
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

func TestALogOverItsLimitIsCutAndTheTaskGoesOn(t *testing.T) {
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

func TestAMessageIsTextWhateverTheTaskWrites(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	b.Run(node, task(t, "a1", `head -c 3000 /dev/urandom; printf '\303'; exit 1`))
	if r := b.Result(node, "a1"); !utf8.ValidString(r.Message) || r.Phase != wire.PhaseRun {
		t.Errorf("%+v", r)
	}
}
