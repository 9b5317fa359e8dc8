package agent_test

import (
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/cgroup"
	"github.com/tradewind-broker/tradewind/internal/agent/container/containertest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// useMemory uses 72 MB of memory, because tail holds a line until its end.
const useMemory = `head -c 72000000 /dev/zero | tail | wc -c`

func needControlGroups(t *testing.T) {
	t.Helper()
	if _, err := cgroup.Find(); err != nil {
		t.Skip(err)
	}
}

func TestTaskAboveItsMemoryIsKilledAndReported(t *testing.T) {
	needControlGroups(t)
	b := agenttest.New(t)
	other := agenttest.Node{Cluster: "other"}
	start(t, b, node, agent.Config{})
	start(t, b, other, agent.Config{})
	dir := t.TempDir()
	neighbour := task(t, "a2", useMemory+`; echo ready; until [ -e `+dir+`/done ]; do sleep 0.01; done; echo survived`)
	neighbour.MemoryBytes = 128 << 20
	b.Run(other, neighbour)
	b.AwaitLog(other, "a2", "ready")
	for name, run := range map[string]string{
		"itself": "echo begin; exec tail /dev/zero", "command": "echo begin; tail /dev/zero",
		"child": `echo begin; tail /dev/zero || echo "Traceback"; exit 1`,
	} {
		w := task(t, name, run)
		w.MemoryBytes, w.VCPUs = 64<<20, 1
		b.Run(node, w)
		r := b.Result(node, name)
		want := map[string]string{"itself": "killed by", "command": "a command was killed by", "child": "a process was killed by"}[name]
		want = "out of memory: " + want + " SIGKILL at its limit of 64 MiB; write memory: 1+ in its resources\n"
		if r.Event != wire.Failed || r.Fault != "" || !strings.HasPrefix(r.Message, want+"begin") {
			t.Errorf("%s: %+v", name, r)
		}
		if log := b.Log(node, name); !strings.Contains(log, "tradewind: "+want) {
			t.Errorf("%s: log %q", name, log)
		}
	}
	touch(t, dir, "done")
	if r := b.Result(other, "a2"); r.Event != wire.Succeeded || !strings.HasSuffix(b.Log(other, "a2"), "72000000\nready\nsurvived\n") {
		t.Errorf("the other task: %+v, log %q", r, b.Log(other, "a2"))
	}
}

func TestKillWithoutProofIsNotCalledOutOfMemory(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	b.Run(node, task(t, "a1", "kill -KILL $$"))
	r := b.Result(node, "a1")
	if r.ExitCode != 137 || !strings.HasPrefix(r.Message, "killed by SIGKILL; its peak memory was ") || strings.Contains(r.Message, "out of") {
		t.Errorf("%+v", r)
	}
}

func TestSuccessInSpiteOfMemoryKillIsNoted(t *testing.T) {
	needControlGroups(t)
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	w := task(t, "a1", "tail /dev/zero; echo continued")
	w.MemoryBytes = 64 << 20
	b.Run(node, w)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded || !strings.Contains(b.Log(node, "a1"), "for lack of memory") {
		t.Errorf("%+v, log %q", r, b.Log(node, "a1"))
	}
}

func TestContainerAboveItsMemoryIsKilledAndReported(t *testing.T) {
	environ := containertest.Environ(t)
	needControlGroups(t)
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Environ: environ})
	w := task(t, "a1", "echo begin; exec tail /dev/zero")
	w.Image, w.MemoryBytes = containertest.Image, 64<<20
	b.Run(node, w)
	r := b.Result(node, "a1")
	if !strings.HasPrefix(r.Message, "out of memory: killed by SIGKILL at its limit of 64 MiB; write memory: 1+") {
		t.Errorf("%+v\n%s", r, b.Log(node, "a1"))
	}
}
