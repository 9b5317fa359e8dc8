package cost

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
)

// worker is a bought machine that runs several tasks of its job. Its agent gets the tasks from the broker.
type worker struct {
	*node
	claims wire.PoolClaims
	report wire.PoolReport
	tasks  []*node
	calls  int  // a call that was scheduled before the last one is dropped
	due    bool // a call after the end of a task is scheduled
	gather time.Duration
}

// beginWorker makes a machine a worker.
func (n *node) beginWorker(place wire.Worker) {
	n.report(wire.Started, false)
	m := &worker{node: n, claims: wire.PoolClaims{Pool: place.Pool, Machine: place.Machine, Joined: n.w.now},
		report: wire.PoolReport{Type: place.Type, Capacity: place.Capacity}}
	m.sync()
}

// sync reports the running tasks, starts and ends tasks as the broker orders, and schedules the next call. Calls that
// are repeated only because time passes count as such.
func (m *worker) sync() {
	w := m.w
	m.calls++
	m.due = false
	if !w.machines.has(m.node.claims.Cluster) {
		return // terminated
	}
	var ended []wire.PoolAgent
	m.tasks = slices.DeleteFunc(m.tasks, func(t *node) bool {
		if t.done {
			ended = append(ended, t.agent())
		}
		return t.done
	})
	m.report.Running = nil
	for _, t := range m.tasks {
		m.report.Running = append(m.report.Running, t.agent())
	}
	for _, a := range ended {
		m.report.Ended = append(m.report.Ended, wire.PoolEnd{PoolAgent: a})
	}
	c := byTime
	if len(ended) > 0 || m.report.Leaving {
		c = byEvents
	}
	var orders wire.PoolOrders
	gone := false
	w.withClass(c, func() {
		gone = w.call(func(b *broker.Broker) (err error) {
			orders, err = b.Agents.SyncMachine(w.ctx, m.claims, m.report)
			return err
		})
	})
	if gone {
		m.end()
		return
	}
	m.gather = orders.Gather
	m.obey(orders)
	switch {
	case m.report.Leaving && len(orders.Agents) == 0:
		m.end()
	case orders.Leave && !m.report.Leaving:
		m.report.Leaving = true
		m.sync()
	default:
		call := m.calls
		w.after(orders.After, func() {
			if call == m.calls {
				m.sync()
			}
		})
	}
}

// exited schedules a call after the end of a task. Tasks that end until then share it.
func (m *worker) exited() {
	if m.due {
		return
	}
	m.due = true
	m.w.after(exitTime+m.gather, func() {
		if m.due {
			m.sync()
		}
	})
}

// obey starts the ordered tasks that do not run yet, and forgets those that are no longer ordered.
func (m *worker) obey(orders wire.PoolOrders) {
	ordered := func(a wire.PoolAgent) bool {
		return slices.ContainsFunc(orders.Agents, func(o wire.PoolOrder) bool { return o.PoolAgent == a })
	}
	m.report.Ended = slices.DeleteFunc(m.report.Ended, func(e wire.PoolEnd) bool { return !ordered(e.PoolAgent) })
	m.tasks = slices.DeleteFunc(m.tasks, func(t *node) bool {
		if ordered(t.agent()) {
			return false
		}
		t.done = true
		return true
	})
	for _, o := range orders.Agents {
		runs := slices.ContainsFunc(m.tasks, func(t *node) bool { return t.agent() == o.PoolAgent })
		over := slices.ContainsFunc(m.report.Ended, func(e wire.PoolEnd) bool { return e.PoolAgent == o.PoolAgent })
		if runs || over || o.Token == "" {
			continue
		}
		t := &node{w: m.w, claims: wire.Claims{Job: o.Job, Cluster: o.Cluster, Rank: o.Rank}, on: m}
		m.tasks = append(m.tasks, t)
		m.w.withClass(byEvents, t.hello)
	}
}

// end reports that the worker has left its pool.
func (m *worker) end() {
	m.done = true
	m.node.report(wire.Succeeded, false)
}

// agent names the agent in the pool's orders.
func (n *node) agent() wire.PoolAgent {
	return wire.PoolAgent{Cluster: n.claims.Cluster, Rank: n.claims.Rank}
}
