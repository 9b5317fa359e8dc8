package broker_test

import (
	"context"
	"testing"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
)

// TestBrokenGangSeesMemberThatRestartsAlone decides that all of a gang save their work, on records read before one
// member was allowed to restart alone. If that were committed, that member and the others would wait for each other
// for ever.
func TestBrokenGangSeesMemberThatRestartsAlone(t *testing.T) {
	p := newAgentBench(t, "{a: {run: x, gang: g, resources: {cpus: 4}, time: 1h}, "+
		"b: {run: x, gang: g, resources: {cpus: 4}, time: 1h}}", nil)
	ctx := context.Background()
	for task := range 2 {
		if _, err := p.b.Agents.Hello(ctx, p.claims(task, 0), wire.Hello{Address: "10.0.0.1"}); err != nil {
			t.Fatal(err)
		}
	}
	p.deliverAll()
	gang := func(u *txn.Unit) []attempt.Member {
		job, _, err := recordcache.Get[record.Job](u, record.JobKey(p.job))
		if err != nil {
			t.Fatal(err)
		}
		members, err := attempt.GangOf(u, job, 0)
		if err != nil || len(members) != 2 {
			t.Fatalf("%d members, %v", len(members), err)
		}
		return members
	}
	times := 0
	err := p.b.Transactor().Transact(ctx, events.FnInterrupt, "leaves", false, func(u *txn.Unit) error {
		members := gang(u)
		if times++; times == 1 {
			err := p.b.Transactor().Transact(ctx, events.FnInterrupt, "alone", false, func(u *txn.Unit) error {
				members := gang(u)
				return u.Apply(attempt.DecideRestartAlone(members[1], record.ClusterKey(members[0].Cluster.ID)))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return u.Apply(attempt.DecideFollowGang(members[0], "the gang could not go on", p.b.Config(), u.Now))
	})
	if err != nil || times != 2 {
		t.Errorf("decided %d times: %v", times, err)
	}
}
