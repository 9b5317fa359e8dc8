package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/pool"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// poolOwners simulates users' machines in pools. Machines join, poll for orders, vanish, return, leave and are
// drained.
type poolOwners struct {
	w        *world
	provider *provider // owns the agents, so that they are counted like machines
	machines []*poolMachine
	pools    []string
}

func newYard(w *world) *poolOwners {
	return &poolOwners{w: w, provider: newProvider(w, apitypes.PoolCloud)}
}

// poolTimes returns the times of a world's pools. To save simulation time, machines call less often than real ones.
// So sessions have older views of them, and more views are outdated.
func poolTimes() config.PoolTimes {
	t := config.DefaultPoolTimes()
	t.Busy, t.Idle, t.Full, t.Turn = 20*time.Second, 2*time.Minute, 3*time.Minute, 20*time.Second
	return t
}

// poolMachine is a machine of a pool: its host process and the agents that it has started.
type poolMachine struct {
	w      *world
	claims wire.PoolClaims // as it was when it joined
	pool   string
	id     string
	report wire.PoolReport
	runs   []*machine
	up     bool
	serial int // of its life: answers to requests from an earlier life are ignored
	// worker is the run of the bought machine that serves as this worker; nil for a machine of a user's pool.
	worker *run
	// orphaned means that a worker's own process has ended, and its agents have not.
	orphaned bool
}

// populate draws the pools of a world. Most worlds have none.
func (y *poolOwners) populate() {
	r := y.w.rand.pool
	// some bugs show only in worlds with pools
	if has := r.Chance(0.35); y.w.opt.steady || y.w.kind == siblings ||
		!has && y.w.opt.Break != breaks.NoPartitions && y.w.opt.Break != breaks.Nightless && !y.w.rules.Packed {
		return
	}
	for i := range 1 + r.IntN(2) {
		name := fmt.Sprintf("pool%d", i)
		y.pools = append(y.pools, name)
		s := record.PoolSettings{Partitions: 1 + r.IntN(6),
			Place: timeline.Pick(r, []string{"", "aws:us-east-1", "gcp:us-central1"})}
		if r.Chance(0.4) {
			s.USDPerHour = r.Uniform(0.01, 0.4)
		}
		if y.w.rules.Packed {
			s.Place, s.USDPerHour = "", 0
		}
		y.add(name, s)
		for n := range 1 + r.IntN(6) {
			m := &poolMachine{w: y.w, pool: name, id: fmt.Sprintf("%s-m%d", name, n)}
			m.claims = wire.PoolClaims{Pool: name, Machine: m.id}
			m.report.Capacity = wire.PoolCapacity{CPUs: float64(4 * (1 + r.IntN(4))),
				MemoryGiB: float64(16 * (1 + r.IntN(3)))}
			m.report.Type = timeline.Pick(r, []string{"", "", "c5.4xlarge"})
			if y.w.rules.Packed {
				m.report.Capacity, m.report.Type = wire.PoolCapacity{CPUs: 8, MemoryGiB: 64}, ""
			}
			if fast := y.w.rand.fast; fast.Chance(0.2) && !y.w.rules.Packed {
				m.report.Capacity.Accelerator, m.report.Capacity.Accelerators = weather.Fast, float64(1+fast.IntN(2))
			}
			m.report.Labels = y.w.rules.Labels(y.w.rand.placed)
			y.w.check.Labelled(name, m.id, m.report.Labels)
			y.machines = append(y.machines, m)
			y.w.After(r.Between(0, time.Hour), m.join)
			m.planVanishing()
		}
		if !y.w.onTime {
			y.w.After(r.Span(3*time.Hour), func() { y.drain(name) })
		}
	}
}

// add creates a pool.
func (y *poolOwners) add(name string, s record.PoolSettings) {
	y.owner("pool "+name, func(ctx context.Context, b *broker.Broker) error { return b.Users.SetPool(ctx, name, s) },
		nil)
}

// owner repeats a request of a pool's owner until it is answered.
func (y *poolOwners) owner(what string, body func(context.Context, *broker.Broker) error, then func(error)) {
	y.w.network.call(what, true, body, func(err error) {
		switch {
		case errors.Is(err, record.ErrPoolBusy), errors.Is(err, record.ErrNotFound), err == nil:
			if then != nil {
				then(err)
			}
		default:
			y.w.check.AgentFailed(what, err)
			y.w.After(y.w.rand.pool.Spread(time.Second, time.Minute), func() { y.owner(what, body, then) })
		}
	})
}

// drain makes an owner drain a machine or the pool, at once or as tasks end. Later the owner cancels the drain.
func (y *poolOwners) drain(name string) {
	r, w := y.w.rand.pool, y.w
	machine := ""
	if r.Chance(0.7) {
		machine = timeline.Pick(r, y.machines).id
	}
	how := timeline.Pick(r, []apitypes.Drain{apitypes.DrainSoon, apitypes.DrainNow})
	w.Count("pool drained")
	w.Say(name, "is drained", machine+" "+string(how))
	y.owner("drain "+name, func(ctx context.Context, b *broker.Broker) error {
		return b.Users.DrainMachine(ctx, name, machine, how)
	}, nil)
	w.After(r.Span(time.Hour), func() {
		y.owner("drain "+name, func(ctx context.Context, b *broker.Broker) error {
			return b.Users.DrainMachine(ctx, name, machine, apitypes.DrainUndo)
		}, nil)
	})
	if machine != "" && r.Chance(0.3) {
		w.After(r.Span(20*time.Minute), func() { y.remove(name, machine) })
	}
	w.After(r.Span(4*time.Hour), func() { y.drain(name) })
}

// remove makes an owner remove a machine when no task runs on it. Later the owner admits the machine again.
func (y *poolOwners) remove(name, machine string) {
	y.owner("remove "+machine, func(ctx context.Context, b *broker.Broker) error {
		return b.Users.RemoveMachine(ctx, name, machine)
	}, func(err error) {
		if err == nil {
			y.w.Count("pool machine removed")
		}
	})
}

// endFaults makes all vanished machines return and stay.
func (y *poolOwners) endFaults() {
	for _, m := range y.machines {
		m.join()
	}
}

// join starts a machine's host process.
func (m *poolMachine) join() {
	if m.up {
		return
	}
	m.up, m.claims.Joined, m.report.Leaving = true, m.w.Now, false
	m.serial++
	m.w.Say(m.pool, "is joined", m.id)
	m.sync(m.serial)
}

// planVanishing draws the time at which a machine vanishes with all its tasks, or at which its process exits.
func (m *poolMachine) planVanishing() {
	if m.w.onTime {
		return
	}
	r := m.w.rand.pool
	m.w.After(r.Span(4*time.Hour), func() {
		defer m.planVanishing()
		if !m.up || (m.w.faults == weather.Faults{Interleave: m.w.faults.Interleave}) {
			return
		}
		if r.Chance(0.5) {
			m.report.Leaving = true
			m.w.Count("pool machine leaves")
			return
		}
		m.w.Count("pool machine vanishes")
		m.vanish(r.Chance(0.5))
	})
}

// vanish ends all processes on the machine, which returns later. If remembers is true, its process then knows its
// tasks.
func (m *poolMachine) vanish(remembers bool) {
	m.w.Say(m.pool, "loses", m.id)
	m.up = false
	for _, run := range m.runs {
		if remembers {
			m.ended(run, "the machine is gone")
		}
		run.end("the pool machine vanishes")
	}
	m.runs = nil
	if !remembers {
		m.report.Ended = nil
	}
	m.w.After(m.w.rand.pool.Spread(20*time.Second, 40*time.Minute), m.join)
}

func (m *poolMachine) ended(run *machine, reason string) {
	ref := wire.PoolAgent{Cluster: run.Cluster, Rank: run.Rank}
	if !slices.ContainsFunc(m.report.Ended, func(e wire.PoolEnd) bool { return e.PoolAgent == ref }) {
		m.report.Ended = append(m.report.Ended, wire.PoolEnd{PoolAgent: ref, Reason: reason})
	}
}

// sync requests the machine's orders, obeys them, and repeats this.
func (m *poolMachine) sync(life int) {
	if !m.up || life != m.serial {
		return
	}
	m.recordExits()
	claims, report := m.claims, m.report
	report.Running, report.Ended = nil, slices.Clone(m.report.Ended)
	for _, run := range m.runs {
		report.Running = append(report.Running, wire.PoolAgent{Cluster: run.Cluster, Rank: run.Rank})
	}
	var orders wire.PoolOrders
	m.w.network.call("sync "+m.id, m.w.connected(m.host()), func(ctx context.Context, b *broker.Broker) (err error) {
		orders, err = b.Agents.SyncMachine(ctx, claims, report)
		return err
	}, func(err error) {
		if !m.up || life != m.serial {
			return
		}
		again := m.w.rand.pool.Spread(time.Second, 30*time.Second)
		switch {
		case err == nil:
			again = orders.After
			m.obey(orders)
		case errors.Is(err, record.ErrGone) && m.worker != nil:
			m.removed()
			return
		case errors.Is(err, record.ErrGone):
			m.obey(wire.PoolOrders{})
			m.claims.Joined = m.w.Now // its owner admits it again
			again = 10 * time.Minute
		default:
			m.w.check.AgentFailed("sync", err)
		}
		if orders.Leave && err == nil && !m.report.Leaving && m.w.opt.Break != breaks.Clinging {
			m.leaveSoon()
			return
		}
		if report.Leaving && err == nil && len(orders.Agents) == 0 {
			if m.worker != nil {
				m.left()
				return
			}
			m.up = false
			m.w.After(m.w.rand.pool.Spread(time.Minute, 2*time.Hour), m.join)
			return
		}
		m.w.After(again, func() { m.sync(life) })
	})
}

// host is the machine's name in the network.
func (m *poolMachine) host() string {
	if m.worker != nil {
		return m.worker.a.m.ID
	}
	return m.id
}

// recordExits records agents that have exited.
func (m *poolMachine) recordExits() {
	m.runs = slices.DeleteFunc(m.runs, func(run *machine) bool {
		if run.Alive() && run.Speaks {
			return false
		}
		m.ended(run, "the agent has exited")
		run.end("the agent has exited")
		return true
	})
}

// obey ends agents that should not run, then starts those that should.
func (m *poolMachine) obey(o wire.PoolOrders) {
	ordered := func(ref wire.PoolAgent) bool {
		return slices.ContainsFunc(o.Agents, func(c wire.PoolOrder) bool { return c.PoolAgent == ref })
	}
	m.runs = slices.DeleteFunc(m.runs, func(run *machine) bool {
		if ordered(wire.PoolAgent{Cluster: run.Cluster, Rank: run.Rank}) {
			return false
		}
		run.end("no longer ordered")
		return true
	})
	for _, c := range o.Agents {
		running := slices.ContainsFunc(m.runs, func(run *machine) bool {
			return run.Cluster == c.Cluster && run.Rank == c.Rank
		})
		over := slices.ContainsFunc(m.report.Ended, func(e wire.PoolEnd) bool { return e.PoolAgent == c.PoolAgent })
		if !running && !over && c.Token != "" {
			m.begin(c)
		}
	}
	var running []*check.Machine
	for _, run := range m.runs {
		running = append(running, &run.Machine)
	}
	m.w.check.OnMachine(m.pool, m.id, m.report.Capacity.CPUs, running)
	m.report.Ended = slices.DeleteFunc(m.report.Ended, func(e wire.PoolEnd) bool {
		return !m.w.check.Open(e.Cluster)
	})
}

// begin starts an agent.
func (m *poolMachine) begin(c wire.PoolOrder) {
	y, r := m.w.yard, m.w.rand.pool
	f := y.provider.fleet(c.Cluster)
	run := &machine{
		w: m.w, listed: m.w.Now, Machine: check.Machine{
			ID: fmt.Sprintf("%s/%d", m.id, len(f.machines)), Cluster: c.Cluster, Rank: c.Rank, Cloud: y.provider.name,
			Launched: m.w.Now, Offer: apitypes.Offer{Cloud: apitypes.PoolCloud, Region: m.pool, InstanceType: m.kind(),
				Accelerator: c.Hold.Accelerator, AccelCount: c.Hold.Accelerators},
		},
	}
	if m.worker != nil {
		run.on = m.worker.a.m
		run.Offer.Speed = run.on.Offer.Speed
	}
	run.agent = newAgent(run, c.Token)
	f.machines = append(f.machines, run)
	m.runs = append(m.runs, run)
	m.w.Count("pool agent begins")
	m.w.Say(m.pool, "launches", fmt.Sprintf("%s: rank %d on %s", c.Cluster, c.Rank, m.id))
	m.w.check.Begun(m.id, &run.Machine, f.bought())
	if r.Chance(m.w.faults.SlowBoot / 4) {
		m.w.Count("pool agent fails to begin")
		run.agent.stop()
		return
	}
	m.w.After(r.Between(m.w.pace.begin[0], m.w.pace.begin[1]), run.agent.boot)
	if m.w.faults.Dies > 0 {
		m.w.After(r.Span(m.w.faults.Dies), run.die)
	}
}

func (m *poolMachine) kind() string {
	if m.report.Type == "" {
		return pool.DefaultMachineType
	}
	return m.report.Type
}
