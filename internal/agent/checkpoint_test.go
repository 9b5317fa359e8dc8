package agent_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/stage"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// counting is a task that counts to 40 in its checkpoint directory, from the number saved there. When it receives
// SIGTERM, it prints its count.
const counting = `
cd $TRADEWIND_CHECKPOINT
n=$(cat count 2>/dev/null || echo 0)
echo "restored=$TRADEWIND_RESTORED from $n"
trap 'echo "told at $n: $(($(cat $TRADEWIND_NOTICE)/10))"; exit 0' TERM
while [ $n -lt 40 ]; do
  n=$((n+1)); echo $n > count.tmp; mv count.tmp count
  echo counted $n
  [ $n -eq 20 ] && [ "$TRADEWIND_RESTORED" = 0 ] && while :; do sleep 0.01; done
done
cp count $TRADEWIND_OUTPUT/
`

func TestTaskIsSavedOnNoticeAndResumesElsewhere(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	w := task(t, "a1", counting)
	w.Checkpoint = &wire.Checkpoint{Path: "ckpt/", Next: 1}
	b.Run(node, w)
	b.AwaitLog(node, "a1", "counted 20\n")
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: 55 * time.Second})
	r := b.Result(node, "a1")
	if r.Event != wire.Stopped {
		t.Fatalf("%+v", r)
	}
	saved := b.Report(node, "a1", wire.Checkpointed)
	if saved.Seq != 1 || saved.Prefix != wire.CheckpointPrefix(w.Prefix, "a1", 1) {
		t.Errorf("%+v", saved)
	}
	if log := b.Log(node, "a1"); !strings.Contains(log, "restored=0 from 0\n") || !strings.Contains(log, "told at 20: 5\n") {
		t.Errorf("log %q", log)
	}

	other := agenttest.Node{Cluster: "another"}
	start(t, b, other, agent.Config{})
	again := *w
	again.Attempt, again.Checkpoint = "a2", &wire.Checkpoint{Path: "ckpt/", Restore: saved.Prefix, Next: 2}
	b.Run(other, &again)
	if r := b.Result(other, "a2"); r.Event != wire.Succeeded {
		t.Fatalf("%+v", r)
	}
	if log := b.Log(other, "a2"); !strings.HasPrefix(log, "restored=1 from 20\ncounted 21\n") {
		t.Errorf("log %.100q", log)
	}
	kept := filepath.Join(storeDir(w), wire.OutputPrefix(w.Prefix, "a2"), "0", "files", "count")
	if got, err := os.ReadFile(kept); err != nil || string(got) != "40\n" {
		t.Errorf("output %q, %v", got, err)
	}
}

func TestCheckpointsAreSavedOnScheduleAndPruned(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	w := task(t, "a1", `cd $TRADEWIND_CHECKPOINT; n=0; while :; do n=$((n+1)); echo $n > c.tmp; mv c.tmp c; sleep 0.1; done`)
	w.Checkpoint = &wire.Checkpoint{Path: "ckpt", Every: 10 * time.Millisecond, Next: 7}
	b.Run(node, w)
	var seqs []int
	for i := range 4 {
		r := b.ReportAfter(i, node, "a1", wire.Checkpointed)
		seqs = append(seqs, r.Seq)
	}
	if !slices.IsSorted(seqs) || seqs[0] != 7 || len(slices.Compact(slices.Clone(seqs))) != 4 {
		t.Errorf("sequence numbers %v", seqs)
	}
	b.SendCommand(node, wire.Work{Command: wire.Stop})
	b.Result(node, "a1")
	complete, err := filepath.Glob(filepath.Join(storeDir(w), w.Prefix, "ckpt", "*", "manifest.json"))
	if err != nil || len(complete) < 4 {
		t.Errorf("kept %v, %v", complete, err)
	}
	if n := b.Calls(wire.PathPrune); n < 3 { // the last call may not have arrived yet
		t.Errorf("the broker was asked %d times to prune checkpoints before %v", n, seqs)
	}
}

func TestCheckpointsResumeWhenBrokerReturns(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	dir := t.TempDir()
	w := task(t, "a1", `echo ready; until [ -e `+dir+`/away ]; do sleep 0.01; done; echo x > $TRADEWIND_CHECKPOINT/f; touch `+dir+`/saved; while :; do sleep 0.01; done`)
	w.Checkpoint = &wire.Checkpoint{Path: "ckpt", Every: 10 * time.Millisecond, Next: 1}
	b.Run(node, w)
	b.AwaitLog(node, "a1", "ready")
	b.Stop()
	touch(t, dir, "away")
	awaitFile(t, dir, "saved")
	b.Start()
	if r := b.Report(node, "a1", wire.Checkpointed); r.Seq != 1 {
		t.Errorf("%+v", r)
	}
	awaitFile(t, filepath.Join(storeDir(w), wire.CheckpointPrefix(w.Prefix, "a1", 1)), "manifest.json")
}

func TestFailedCheckpointIsNotReported(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	w := task(t, "a1", `echo x > $TRADEWIND_CHECKPOINT/f; echo ready; while :; do sleep 0.01; done`)
	w.Checkpoint = &wire.Checkpoint{Path: "ckpt", Next: 1}
	w.Store = "s3://not-linked-into-this-program"
	b.Run(node, w)
	b.AwaitLog(node, "a1", "ready")
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Minute})
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	if got := b.Events(node, "a1"); slices.Contains(got, wire.Checkpointed) {
		t.Errorf("events %v", got)
	}
	if log := b.Log(node, "a1"); !strings.Contains(log, "tradewind: no checkpoint was saved: ") {
		t.Errorf("the user does not learn why: %q", log)
	}
}

func TestTaskIgnoringNoticeIsKilledInTimeToSave(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	w := task(t, "a1", `trap "" TERM; echo x > $TRADEWIND_CHECKPOINT/f; echo ready; while :; do sleep 0.01; done`)
	w.Checkpoint = &wire.Checkpoint{Path: "ckpt", Next: 1}
	b.Run(node, w)
	b.AwaitLog(node, "a1", "ready")
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Until: time.Now().Add(2 * time.Second)})
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	b.Report(node, "a1", wire.Checkpointed)
}

// A notice gives a task much time, and then its machine is preempted earlier. The task must end early.
func TestEarlierNoticeReplacesLater(t *testing.T) {
	b := agenttest.New(t)
	notices := make(chan time.Duration, 1)
	start(t, b, node, agent.Config{Notices: notices})
	w := task(t, "a1", `trap "echo told" TERM; echo x > $TRADEWIND_CHECKPOINT/f; echo ready; while :; do sleep 0.01; done`)
	w.Checkpoint = &wire.Checkpoint{Path: "ckpt", Next: 1}
	b.Run(node, w)
	b.AwaitLog(node, "a1", "ready")
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: 10 * time.Hour})
	b.AwaitLog(node, "a1", "told")
	notices <- time.Second
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	b.Report(node, "a1", wire.Checkpointed)
	if log := b.Log(node, "a1"); strings.Count(log, "the machine will be taken in ") != 2 {
		t.Errorf("log %q", log)
	}
}

// gate is a transport that blocks uploads to stores, even if the client gives up.
type gate struct {
	met, open chan struct{}
	once      sync.Once
}

func (g *gate) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		g.once.Do(func() { close(g.met) })
		<-g.open
	}
	return http.DefaultTransport.RoundTrip(r)
}

// A task must get an interruption notice even while a checkpoint is being uploaded.
func TestTaskReceivesNoticeDuringCheckpoint(t *testing.T) {
	b, dir := agenttest.New(t), t.TempDir()
	g := &gate{met: make(chan struct{}), open: make(chan struct{})}
	open := sync.OnceFunc(func() { close(g.open) })
	defer open()
	start(t, b, node, agent.Config{Transfer: stage.Transfer{Client: &http.Client{Transport: g}}})
	w := task(t, "a1", `trap 'cp $TRADEWIND_NOTICE `+dir+`/told; exit' TERM; echo x > $TRADEWIND_CHECKPOINT/f; while :; do sleep 0.01; done`)
	w.Checkpoint = &wire.Checkpoint{Path: "ckpt", Every: 10 * time.Millisecond, Next: 1}
	b.Run(node, w)
	<-g.met
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Hour})
	awaitFile(t, dir, "told")
	open()
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	b.Report(node, "a1", wire.Checkpointed)
}

// A checkpoint directory has a link that points out of it. The checkpoint must be saved without the link, and the log
// must mention it once.
func TestCheckpointLeavesOutLinkOutsideDirectory(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	w := task(t, "a1", `cd $TRADEWIND_CHECKPOINT; ln -s /etc/passwd away; ln -s $PWD/f latest; n=0
while :; do n=$((n+1)); echo $n > f.tmp; mv f.tmp f; sleep 0.1; done`)
	w.Checkpoint = &wire.Checkpoint{Path: "ckpt", Every: 10 * time.Millisecond, Next: 1}
	b.Run(node, w)
	b.ReportAfter(1, node, "a1", wire.Checkpointed)
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Minute})
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	if log := b.Log(node, "a1"); strings.Count(log, "left out away: a link that leaves") != 1 || strings.Contains(log, "no checkpoint") {
		t.Errorf("log %q", log)
	}
	manifests, _ := filepath.Glob(filepath.Join(storeDir(w), w.Prefix, "ckpt", "*", "manifest.json"))
	for _, m := range manifests {
		if got := content(t, m); !strings.Contains(got, `"link":"f"`) {
			t.Errorf("%s: %s", m, got)
		}
	}
	if len(manifests) < 2 {
		t.Errorf("kept %v", manifests)
	}
}

func TestOwnNoticeSavesWhenBrokerReturns(t *testing.T) {
	b := agenttest.New(t)
	notices := make(chan time.Duration, 1)
	start(t, b, node, agent.Config{Notices: notices})
	noticed := t.TempDir()
	w := task(t, "a1", `trap 'touch `+noticed+`/f; exit' TERM; echo x > $TRADEWIND_CHECKPOINT/f; echo ready; while :; do sleep 0.01; done`)
	w.Checkpoint = &wire.Checkpoint{Path: "ckpt", Next: 1}
	b.Run(node, w)
	b.AwaitLog(node, "a1", "ready")
	b.Report(node, "a1", wire.Started)
	b.Stop()
	notices <- time.Minute
	close(notices)
	awaitFile(t, noticed, "f")
	b.Start()
	b.Result(node, "a1")
	if got := b.Events(node, "a1"); !slices.Equal(got, []wire.Event{wire.Started, wire.NoticeSeen, wire.Checkpointed, wire.Stopped}) {
		t.Errorf("events %v", got)
	}
	if r := b.Report(node, "a1", wire.NoticeSeen); r.Notice != time.Minute {
		t.Errorf("%+v", r)
	}
}

func TestNoticeStopsSetup(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Grace: 50 * time.Millisecond})
	w := task(t, "a1", "echo not reached")
	w.Setup = "echo ready; sleep 1000"
	b.Run(node, w)
	b.AwaitLog(node, "a1", "ready")
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Minute})
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
}

func TestFirstNodeSavesAndAllRestore(t *testing.T) {
	b := agenttest.New(t)
	w := task(t, "a1", `echo $TRADEWIND_NODE_RANK > $TRADEWIND_CHECKPOINT/f; echo ready; while :; do sleep 0.01; done`)
	w.Nodes = []string{"127.0.0.1", "127.0.0.2"}
	w.Checkpoint = &wire.Checkpoint{Path: "ckpt", Next: 1}
	nodes := []agenttest.Node{{Cluster: "c"}, {Cluster: "c", Rank: 1}}
	for _, n := range nodes {
		start(t, b, n, agent.Config{})
		b.Run(n, w)
		b.AwaitLog(n, "a1", "ready")
	}
	for _, n := range nodes {
		b.SendCommand(n, wire.Work{Command: wire.SaveAndStop, Notice: time.Minute})
		b.Result(n, "a1")
	}
	if got := b.Events(nodes[1], "a1"); slices.Contains(got, wire.Checkpointed) {
		t.Errorf("the second node saved: %v", got)
	}
	again := *w
	again.Attempt, again.Run = "a2", `cat $TRADEWIND_CHECKPOINT/f`
	again.Checkpoint = &wire.Checkpoint{Path: "ckpt", Restore: b.Report(nodes[0], "a1", wire.Checkpointed).Prefix, Next: 2}
	for _, n := range nodes {
		b.Run(n, &again)
		if r := b.Result(n, "a2"); r.Event != wire.Succeeded || b.Log(n, "a2") != "0\n" {
			t.Errorf("rank %d: %+v, log %q", n.Rank, r, b.Log(n, "a2"))
		}
	}
}

func TestStandInTakesItsTimeAndSavesProgress(t *testing.T) {
	b := agenttest.New(t)
	dir := t.TempDir()
	start(t, b, node, agent.Config{Dir: dir})
	w := task(t, "a1", "")
	w.StandIn, w.Checkpoint = time.Hour, &wire.Checkpoint{Every: time.Millisecond, Next: 3}
	w.Progress = 0.5
	b.Run(node, w)
	first, second := b.Report(node, "a1", wire.Checkpointed), b.ReportAfter(1, node, "a1", wire.Checkpointed)
	if first.Seq < 3 || second.Seq <= first.Seq || first.Prefix != "" || first.Progress < 0.5 || second.Progress <= first.Progress || second.Progress > 0.6 {
		t.Errorf("%+v, then %+v", first, second)
	}
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Minute})
	r := b.Result(node, "a1")
	if r.Event != wire.Stopped || r.Progress <= second.Progress {
		t.Errorf("%+v", r)
	}

	again := *w
	again.Attempt, again.Progress, again.StandIn = "a2", 0.999999, 10*time.Second
	b.Run(node, &again)
	if r := b.Result(node, "a2"); r.Event != wire.Succeeded || r.Progress != 1 {
		t.Errorf("%+v", r)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("a stand-in needs no directories: %v, %v", left, err)
	}
}

func TestStandInWithoutTimeSucceedsAndKeepsOutputs(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	parent := task(t, "a1", "")
	b.Run(node, parent)
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded || !r.Empty {
		t.Fatalf("%+v", r)
	}
	child := task(t, "a2", `ls $TRADEWIND_INPUTS/parent | wc -l`)
	child.Store, child.EmptyParents = parent.Store, []string{"parent"}
	b.Run(node, child)
	if r := b.Result(node, "a2"); r.Event != wire.Succeeded || strings.TrimSpace(b.Log(node, "a2")) != strconv.Itoa(0) {
		t.Errorf("%+v, log %q", r, b.Log(node, "a2"))
	}
}
