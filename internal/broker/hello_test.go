package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// agentBench is a bench with one job whose machines are about to say hello.
type agentBench struct {
	*bench
	job string
}

// newAgentBench submits a job of the tasks. If before is not nil, the cloud calls it with the cluster during the
// launch.
func newAgentBench(t *testing.T, tasks string, before func(p *agentBench, cluster string)) *agentBench {
	t.Helper()
	p := &agentBench{bench: newBench(t)}
	for _, c := range p.cloud {
		c.refuse = func(s cloud.LaunchSpec) error {
			if before != nil {
				before(p, s.Cluster)
			}
			return nil
		}
	}
	p.submit(tasks, "1")
	p.deliverAll()
	return p
}

// submit submits a job of the tasks.
func (p *agentBench) submit(tasks, token string) {
	p.t.Helper()
	spec, err := read.Job("j.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: j\ntasks: "+tasks+"\n"))
	if err != nil {
		p.t.Fatal(err)
	}
	job, err := p.b.Users.Submit(context.Background(), broker.Submission{Spec: spec, Token: token})
	if err != nil {
		p.t.Fatal(err)
	}
	p.job = job.ID
}

func (p *agentBench) claims(task, rank int) wire.Claims {
	return wire.Claims{Job: p.job, Cluster: record.ClusterID(p.job, task, 1), Rank: rank}
}

func hello(t *testing.T, b *broker.Broker, c wire.Claims) wire.Work {
	t.Helper()
	w, err := b.Agents.Hello(context.Background(), c, wire.Hello{Address: fmt.Sprint("10.0.0.", c.Rank+1)})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// told checks the command that an agent got, and the data in the command.
func told(t *testing.T, who string, w wire.Work, want wire.Command, nodes int) {
	t.Helper()
	if w.Command != want || want == wire.Run && (w.Seq != 1 || w.Assignment == nil || len(w.Assignment.Nodes) != nodes) {
		t.Errorf("%s got %+v (%+v), want %q", who, w, w.Assignment, want)
	}
}

// pending returns the types of the events in the outbox.
func (p *agentBench) pending() (out []string) {
	p.t.Helper()
	list, err := p.store.Outbox(context.Background(), 100)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range list {
		parsed, err := events.Parse(e.Body)
		if err != nil {
			p.t.Fatal(err)
		}
		out = append(out, parsed.Type())
	}
	return out
}

func TestLastHelloReturnsWork(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, nodes: 2}}", nil)
	told(t, "rank 1, who comes first,", hello(t, p.b, p.claims(0, 1)), wire.None, 0)
	told(t, "rank 1, who comes again,", hello(t, p.b, p.claims(0, 1)), wire.None, 0)
	told(t, "rank 0, the last,", hello(t, p.b, p.claims(0, 0)), wire.Run, 2)
	if got := p.pending(); len(got) != 0 {
		t.Errorf("it emits %v", got)
	}
	for rank := range 2 {
		told(t, fmt.Sprint("rank ", rank, ", again,"), hello(t, p.b, p.claims(0, rank)), wire.Run, 2)
		w, err := p.b.Agents.Work(t.Context(), p.claims(0, rank), 0)
		if err != nil {
			t.Fatal(err)
		}
		told(t, fmt.Sprint("rank ", rank, ", who asks,"), w, wire.Run, 2)
	}
}

func TestHelloBeforeLaunchIsRecorded(t *testing.T) {
	early := wire.Work{Command: "not asked"}
	p := newAgentBench(t, "{t: {run: x}}", func(p *agentBench, cluster string) {
		early = hello(t, p.b, wire.Claims{Job: record.ClusterJob(cluster), Cluster: cluster})
	})
	told(t, "an early node", early, wire.None, 0)
	w, err := p.b.Agents.Work(t.Context(), p.claims(0, 0), 0)
	if err != nil {
		t.Fatal(err)
	}
	told(t, "an early node, later,", w, wire.Run, 1)
}

func TestConcurrentHellosHandOutWorkOnce(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, nodes: 2}}", nil)
	meet := &meeting{Store: p.store}
	ports := p.b.Ports()
	ports.Store = meet
	slow := broker.New(config.Default(), ports)
	fast := wire.Work{Command: "not asked"}
	meet.other = func() { fast = hello(t, p.b, p.claims(0, 1)) }
	last := hello(t, slow, p.claims(0, 0))
	told(t, "who is first to commit", fast, wire.None, 0)
	told(t, "who is second", last, wire.Run, 2)
	if last.Assignment.Nodes[1] != "10.0.0.2" {
		t.Errorf("the nodes are %v", last.Assignment.Nodes)
	}
}

// meeting is a store that calls a function once, right before a transaction: the next one, or a later one.
type meeting struct {
	store.Store
	after int
	other func()
}

func (s *meeting) Commit(ctx context.Context, tx store.Tx) error {
	if other := s.other; other != nil && s.after > 0 {
		s.after--
	} else if other != nil {
		s.other = nil
		other()
	}
	return s.Store.Commit(ctx, tx)
}

func TestDoomedMachineGetsNoWork(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x}}", nil)
	for _, kind := range []cloud.NoticeKind{cloud.Interruption, cloud.Taken} {
		e := events.SpotInterrupted{Cluster: p.claims(0, 0).Cluster, Job: p.job, Kind: string(kind), At: p.now.Add(2 * time.Minute)}
		if errs := p.b.Functions.Handle(t.Context(), events.FnInterrupt, []events.Event{events.New(string(kind), "test", p.now, e)}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		told(t, "a machine that is being taken", hello(t, p.b, p.claims(0, 0)), wire.SaveAndStop, 0)
	}
	p.deliverAll()
	if _, err := p.b.Agents.Hello(t.Context(), p.claims(0, 0), wire.Hello{}); !errors.Is(err, record.ErrGone) {
		t.Errorf("after its release: %v", err)
	}
}

func TestMachineOfEndingJobGetsNoWork(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x}}", nil)
	if err := p.b.Users.Cancel(t.Context(), p.job, "not wanted"); err != nil {
		t.Fatal(err)
	}
	ending := p.settleUntil(events.TypeDAGEnding)
	told(t, "a machine of a job that is being cancelled", hello(t, p.b, p.claims(0, 0)), wire.None, 0)
	for _, fn := range events.Routes()[ending.Type()] {
		if errs := p.b.Functions.Handle(t.Context(), fn, []events.Event{ending}); errs[0] != nil {
			t.Error(errs[0])
		}
	}
	p.deliverAll()
	if _, err := p.b.Agents.Hello(t.Context(), p.claims(0, 0), wire.Hello{}); !errors.Is(err, record.ErrGone) {
		t.Errorf("after its release: %v", err)
	}
}

func TestGangStartsWhenAllMembersAreUp(t *testing.T) {
	p := newAgentBench(t, "{a: {run: x, gang: g}, b: {run: x, gang: g}}", nil)
	told(t, "the first of a gang", hello(t, p.b, p.claims(0, 0)), wire.None, 0)
	if got := fmt.Sprint(p.pending()); got != "["+events.TypeClusterUp+"]" {
		t.Errorf("it emits %v", got)
	}
	p.deliverAll()
	told(t, "the first of a gang, again,", hello(t, p.b, p.claims(0, 0)), wire.None, 0)
	told(t, "the last of a gang", hello(t, p.b, p.claims(1, 0)), wire.None, 0)
	p.deliverAll()
	for task := range 2 {
		told(t, "one of a gang that is up", hello(t, p.b, p.claims(task, 0)), wire.Run, 1)
	}
}

// TestPollOfSilentNodeCountsAsSignOfLife: a poll of a node whose last call was minutes ago counts as a sign of life,
// even if its answer is a command that is new to the node. Between two outages, the poll may be the only call that
// reaches the broker.
func TestPollOfSilentNodeCountsAsSignOfLife(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x}}", nil)
	c := p.claims(0, 0)
	told(t, "the node", hello(t, p.b, c), wire.Run, 1)
	for _, call := range []struct {
		after time.Duration
		saw   int // newest command that the node has seen
		want  bool
	}{{time.Minute, 1, false}, {time.Minute, 0, false}, {3 * time.Minute, 1, true}, {3 * time.Minute, 0, true}} {
		p.now = p.now.Add(call.after)
		if w, err := p.b.Agents.Work(t.Context(), c, call.saw); err != nil || (w.Command == wire.Run) != (call.saw == 0) {
			t.Fatalf("%+v, %v", w, err)
		}
		seen := stored[record.Cluster](p, "cluster#"+c.Cluster).Nodes[0].Seen
		if seen.Equal(p.now) != call.want {
			t.Errorf("%v after its last call, having seen command %d, the node was last seen at %v, now is %v",
				call.after, call.saw, seen, p.now)
		}
	}
}

// TestPollCountsAsSignOfLife: with this pace, polls are signs of life. A poll conflicts with an interruption notice:
// the node must be recorded as seen, and the notice must remain.
func TestPollCountsAsSignOfLife(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x}}", nil)
	cfg := config.Default()
	cfg.Pace = wire.Pace{Alive: 5 * time.Minute, Polls: true}
	meet := &meeting{Store: p.store}
	ports := p.b.Ports()
	ports.Store = meet
	b := broker.New(cfg, ports)
	c := p.claims(0, 0)
	told(t, "the node", hello(t, b, c), wire.Run, 1)
	seen := func() time.Time { return stored[record.Cluster](p, "cluster#"+c.Cluster).Nodes[0].Seen }
	for _, minutes := range []int{1, 5, 5} {
		p.now = p.now.Add(time.Duration(minutes) * time.Minute)
		if w, err := b.Agents.Work(t.Context(), c, 1); err != nil || w.Command != wire.None {
			t.Errorf("%+v, %v", w, err)
		}
		if want := minutes == 5; seen().Equal(p.now) != want {
			t.Errorf("after %d minutes it was last seen at %v, now is %v", minutes, seen(), p.now)
		}
	}
	p.now = p.now.Add(5 * time.Minute)
	meet.other = func() {
		e := events.SpotInterrupted{Cluster: c.Cluster, Job: p.job, Kind: string(cloud.Interruption), At: p.now.Add(2 * time.Minute)}
		if errs := p.b.Functions.Handle(t.Context(), events.FnInterrupt, []events.Event{events.New("1", "test", p.now, e)}); errs[0] != nil {
			t.Error(errs[0])
		}
	}
	if _, err := b.Agents.Work(t.Context(), c, 1); err != nil {
		t.Error(err)
	}
	if !seen().Equal(p.now) {
		t.Error("the node was not recorded as seen")
	}
	w, err := b.Agents.Work(t.Context(), c, 1)
	if err != nil {
		t.Fatal(err)
	}
	told(t, "after the notice it", w, wire.SaveAndStop, 0)
}
