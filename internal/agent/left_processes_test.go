package agent_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/container/containertest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// daemon starts a program that continues after the script, in its own session. The program writes its PID to a file,
// and logs when it is ended.
const daemon = `(setsid sh -c 'trap "echo daemon ends; exit" TERM; echo $$ >new; mv new pid; while :; do sleep 0.01; done' &)
while [ ! -e pid ]; do sleep 0.01; done
`

func TestProcessesOfSetupRunUntilTaskHasEnded(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	work := task(t, "a1", `kill -0 $(cat pid) && echo it runs`)
	work.Setup = daemon
	b.Run(node, work)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded {
		t.Errorf("told: %+v", r)
	}
	b.AwaitLog(node, "a1", "daemon ends\n")
	if got := b.Log(node, "a1"); !strings.HasPrefix(got, "it runs\n") {
		t.Errorf("the log: %q", got)
	}
}

func TestProcessesOfFailedSetupEnd(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	work := task(t, "a1", `echo not reached`)
	work.Setup = daemon + "exit 3"
	b.Run(node, work)
	if r := b.Result(node, "a1"); r.Event != wire.Failed || r.ExitCode != 3 {
		t.Errorf("told: %+v", r)
	}
	b.AwaitLog(node, "a1", "daemon ends\n")
}

// Rank 1 starts a daemon and ends. The daemon must run until the broker ends the attempt on that node.
func TestProcessesOfEarlyRankRunUntilAttemptHasEnded(t *testing.T) {
	b := agenttest.New(t)
	n := agenttest.Node{Cluster: "cluster", Rank: 1}
	a := start(t, b, n, agent.Config{})
	work := task(t, "a1", daemon+`echo rank ends`)
	work.Nodes = []string{"127.0.0.1", "127.0.0.2"}
	b.Run(n, work)
	if r := b.Result(n, "a1"); r.Event != wire.Succeeded {
		t.Errorf("told: %+v", r)
	}
	if got := b.Log(n, "a1"); got != "rank ends\n" {
		t.Errorf("the log: %q", got)
	}
	b.SendCommand(n, wire.Work{Command: wire.Disconnect})
	if err := a.wait(); err != nil {
		t.Error(err)
	}
	for _, e := range b.Events(n, "a1") {
		if e != wire.Started && e != wire.Succeeded {
			t.Errorf("it reports %s in the end", e)
		}
	}
}

func TestProcessesOfSetupRunInContainerUntilTaskHasEnded(t *testing.T) {
	environ := containertest.Environ(t)
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Environ: environ})
	work := task(t, "a1", `kill -0 $(cat /pid) && echo it runs`)
	work.Image = containertest.Image
	work.Setup = `(sh -c 'trap "rm /pid; exit" TERM; echo $$ >/new; mv /new /pid; while :; do sleep 0.1; done' </dev/null >/dev/null 2>&1 &)
while [ ! -e /pid ]; do sleep 0.1; done`
	b.Run(node, work)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded || !strings.HasSuffix(b.Log(node, "a1"), "\nit runs\n") {
		t.Errorf("told: %+v; the log: %q", r, b.Log(node, "a1"))
	}
}
