package check

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// InvOwed is that a queue that waits with less than it deserves gets capacity back from a sibling that holds more than
// it deserves, within a bound after the rules of reclaiming allow it. The same holds for tasks that preempt others.
const InvOwed = "what a queue deserves is taken back"

// owedWithin is the maximum wait of a queue: two checks by reconcile of queues whose jobs hold machines, and a
// session.
const owedWithin = 2*10*time.Minute + 5*time.Minute

// errLooked ends a session that is only run to see its decisions.
var errLooked = errors.New("sim: this session is not committed")

// owedChecker has, by the root of a tree of queues, the time since which each check found that a session would stop a
// cluster.
type owedChecker struct {
	since map[string]time.Time
	calm  bool // faults have stopped
}

// checkOwed runs a session over each tree of queues in which a task waits, without committing it. If the session
// would stop a task for another one at every check, the broker runs no session there although it should.
func (c *Checker) checkOwed() {
	if c.Stormy && !c.owed.calm || len(c.pool.order) > 0 {
		return // a session may fail, or needs to know which machines of pools are free
	}
	waits := map[string]string{}
	var roots []string
	for _, s := range c.order {
		root := c.root(s.Record.Queue)
		if s.Record.State == apitypes.JobRunning && len(s.waiting) > 0 && waits[root] == "" {
			waits[root] = s.Record.Queue
			roots = append(roots, root)
		}
	}
	for root := range c.owed.since {
		if waits[root] == "" {
			delete(c.owed.since, root)
		}
	}
	for _, root := range roots {
		c.checkTree(root, waits[root])
	}
}

// checkTree checks the tree of queues under a root. One of its queues has waiting tasks.
func (c *Checker) checkTree(root, queue string) {
	cluster, waits := c.wouldStop(queue)
	if cluster == "" {
		delete(c.owed.since, root)
		return
	}
	c.Count("a session would stop a task for others")
	since, known := c.owed.since[root]
	if !known {
		c.owed.since[root] = c.Now
		return
	}
	if c.Now.Sub(since) > owedWithin {
		c.Violatef(InvOwed, "for %v, a session over queue %s would have stopped %s for %s",
			c.Now.Sub(since), queue, cluster, waits)
	}
}

// wouldStop returns a cluster that a session over a queue's tree would stop, and the waiting task for which it would
// stop the cluster.
func (c *Checker) wouldStop(queue string) (cluster, waits string) {
	in := session.Input{Config: c.cfg, Policy: c.policy.policy, Mover: weather.Moves(), Pools: &[]record.PoolSeen{}}
	if in.Policy == nil {
		in.Policy = session.OwnPolicy()
	}
	txns := txn.NewTransactor(c.store, func() time.Time { return c.Now }, c.cfg, txn.Hooks{})
	txns.Share(c.decoded)
	err := txns.NewUnit(context.Background(), "check").Draft(func(d *recordcache.Draft) error {
		s, err := session.New(in, d, queue)
		if err == nil {
			err = s.Decide()
		}
		if err != nil || d.Missing.Any() {
			return err
		}
		for _, slot := range d.Changed {
			if _, is := record.ClusterOf(slot.Key); !is || !slot.Dirty || cluster != "" {
				continue
			}
			cl := decode[record.Cluster](c, &store.Write{Op: store.Put, Key: slot.Key, Body: slot.Body})
			if cl.Leaving == record.LeaveForOthers {
				cluster, waits = cl.ID, cl.For
			}
		}
		return errLooked
	}, func(recordcache.Missing) error { return errLooked })
	if !errors.Is(err, errLooked) {
		c.Violatef(InvErrors, "a session over queue %s: %v", queue, err)
	}
	return cluster, waits
}

// WaitsIdle reports whether a job of a queue waits and holds no machines.
func (c *Checker) WaitsIdle(queue string) bool {
	return slices.ContainsFunc(c.order, func(s *Job) bool {
		return s.Record.Queue == queue && s.Record.State == apitypes.JobRunning && s.Ledger.Outstanding == 0 &&
			len(s.waiting) > 0
	})
}
