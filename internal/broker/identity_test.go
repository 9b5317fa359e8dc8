package broker_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// strict returns the agentBench's broker for a deployment in which machines of every cloud prove their identity.
func (p *agentBench) strict() *broker.Broker {
	cfg := p.b.Config()
	cfg.Proven = []string{"aws", "gcp", "azure"}
	return broker.New(cfg, p.b.Ports())
}

// itself returns the valid proof of identity of a rank's machine.
func (p *agentBench) itself(c wire.Claims) *wire.Machine {
	p.t.Helper()
	cl := stored[record.Cluster](p, "cluster#"+c.Cluster)
	return &wire.Machine{Cloud: cl.Offer.Cloud, Region: cl.Offer.Region, ID: cl.Nodes[c.Rank].Machine}
}

func TestUnprovenMachineIsRefusedAndRecordedOnce(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, nodes: 2}}", nil)
	b, c := p.strict(), p.claims(0, 0)
	for range 3 {
		for _, m := range []*wire.Machine{nil, p.itself(p.claims(0, 1)), {Fault: "the proof is not good: forged"}} {
			c.Machine = m
			if w, err := b.Agents.Hello(t.Context(), c, wire.Hello{Address: "10.6.6.6"}); !errors.Is(err, record.ErrMachine) || w.Token != "" || w.Command != "" && w.Command != wire.None {
				t.Errorf("%+v got %+v, %v", m, w, err)
			}
		}
	}
	if cl := stored[record.Cluster](p, "cluster#"+c.Cluster); cl.Nodes[0].Address != "" || !cl.Nodes[0].Seen.IsZero() {
		t.Errorf("a machine that was refused is recorded: %+v", cl.Nodes[0])
	}
	times := 0
	for _, e := range p.story() {
		if e.Kind == "doubted" {
			times++
			if !strings.Contains(e.Text, "rank 0") || !strings.Contains(e.Text, "did not prove its identity") {
				t.Errorf("the story says %q", e.Text)
			}
		}
	}
	if times != 1 {
		t.Errorf("the story mentions it %d times", times)
	}
	for rank := range 2 { // machines that were launched before are still accepted
		c = p.claims(0, rank)
		c.Machine = p.itself(c)
		answer := hello(t, b, c)
		want, nodes := wire.None, 0
		if rank == 1 {
			want, nodes = wire.Run, 2
		}
		told(t, "the machine itself", answer, want, nodes)
	}
}

// The machines of a large cluster boot with one shared token, and each states its rank.
func TestSharedTokenIsLimitedToProvenRank(t *testing.T) {
	p := newAgentBench(t, "{t: {run: x, nodes: 2}}", nil)
	b := p.strict()
	from := func(says, proves int) (wire.Work, error) {
		c := p.claims(0, 0)
		c.Boot, c.Ranks, c.Machine = true, 2, p.itself(p.claims(0, proves))
		return b.Agents.Hello(t.Context(), c, wire.Hello{Address: "10.0.0.1", Rank: says, Nonce: strings.Repeat("n", 20+says)})
	}
	for _, x := range [][2]int{{0, 1}, {1, 0}, {2, 0}, {-1, 0}} {
		if w, err := from(x[0], x[1]); !errors.Is(err, record.ErrMachine) || w.Token != "" {
			t.Errorf("a machine that states rank %d and proves rank %d: %+v %v", x[0], x[1], w, err)
		}
	}
	for rank := range 2 {
		if w, err := from(rank, rank); err != nil || w.Token == "" {
			t.Errorf("rank %d: %+v %v", rank, w, err)
		}
	}
	cl := stored[record.Cluster](p, "cluster#"+p.claims(0, 0).Cluster)
	for rank, n := range cl.Nodes {
		if n.Address == "" {
			t.Errorf("rank %d is missing", rank)
		}
	}
	c := p.claims(0, 0)
	c.Boot, c.Ranks, c.Machine = true, 2, p.itself(c)
	if _, err := b.Agents.Hello(t.Context(), c, wire.Hello{Address: "10.6.6.6", Rank: 1, Nonce: "another"}); err == nil {
		t.Error("a rank is taken twice")
	}
}

// A machine that boots before its launch is recorded must be neither accepted nor refused.
func TestHelloBeforeLaunchIsRetried(t *testing.T) {
	var early error
	p := newAgentBench(t, "{t: {run: x}}", func(p *agentBench, cluster string) {
		c := wire.Claims{Job: record.ClusterJob(cluster), Cluster: cluster, Machine: &wire.Machine{Cloud: "aws", ID: "unknown"}}
		cl := stored[record.Cluster](p, "cluster#"+cluster)
		c.Machine.Cloud, c.Machine.Region = cl.Offer.Cloud, cl.Offer.Region
		_, early = p.strict().Agents.Hello(p.t.Context(), c, wire.Hello{Address: "10.0.0.1"})
	})
	if !errors.Is(early, record.ErrEarly) {
		t.Errorf("before the launch was recorded: %v", early)
	}
	c := p.claims(0, 0)
	c.Machine = p.itself(c)
	told(t, "the machine, which comes again,", hello(t, p.strict(), c), wire.Run, 1)
	for _, e := range p.story() {
		if e.Kind == "doubted" {
			t.Errorf("an early hello is reported as %q", e.Text)
		}
	}
}

// story returns what Explain prints for the agentBench's job.
func (p *agentBench) story() []apitypes.Entry {
	p.t.Helper()
	s, err := p.b.Views.Explain(p.t.Context(), p.job)
	if err != nil {
		p.t.Fatal(err)
	}
	return s.Entries
}
