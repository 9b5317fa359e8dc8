package sim

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// machine is a machine that really runs, and really costs.
type machine struct {
	w        *world
	cloud    *provider
	fleet    *fleet
	id       string
	rank     int
	offer    cloud.Offer
	bid      float64 // the most that an hour costs, USD
	launched time.Time
	listed   time.Time // from when on lists show it
	ended    time.Time // zero while it runs
	reason   string
	doomed   bool          // it will be taken
	idle     time.Duration // how long nothing has needed it, as the checker saw it
	agent    *agent
}

func newMachine(c *provider, f *fleet, id string, rank int, spec cloud.LaunchSpec) *machine {
	w, r := c.w, c.w.rand.machine
	m := &machine{w: w, cloud: c, fleet: f, id: id, rank: rank, offer: spec.Offer, bid: bidOf(spec), launched: w.now,
		listed: w.now}
	if lag := w.faults.ListLag; lag > 0 {
		m.listed = w.now.Add(r.between(0, lag))
	}
	m.agent = newAgent(m, spec.Bootstrap.Tokens[rank])
	boot := r.between(15*time.Second, 100*time.Second)
	if r.chance(w.faults.SlowBoot) {
		w.count("slow boot")
		boot = r.between(3*time.Minute, 25*time.Minute)
	}
	w.after(boot, m.agent.boot)
	if w.faults.Dies > 0 {
		w.after(r.span(w.faults.Dies), m.die)
	}
	if spec.Offer.Spot {
		m.foreseeTaking(spec.Nodes)
	}
	return m
}

func (m *machine) alive() bool { return m.ended.IsZero() }

func (m *machine) view() cloud.Machine {
	v := cloud.Machine{
		ID: m.id, Cluster: m.fleet.name, Rank: m.rank, State: cloud.Running, Offer: m.offer, Launched: m.launched,
		Reason: m.reason,
	}
	if !m.alive() {
		v.State = cloud.Terminated
	}
	return v
}

// end stops a machine, and its bill.
func (m *machine) end(reason string) {
	if !m.alive() {
		return
	}
	m.ended, m.reason = m.w.now, reason
	m.agent.stop()
	m.w.say(m.cloud.name, "ends", m.fleet.name+" "+m.id+": "+reason)
	m.w.check.ended(m)
}

// bill is what the machine has cost, USD: by the second, but for a minute at least, and a spot machine at the price of
// each moment.
func (m *machine) bill() float64 {
	return m.billBy(m.w.sky.market(listingOf(m.offer)))
}

// billBy is the bill if a spot machine's price had gone along a path.
func (m *machine) billBy(p course) float64 {
	until := m.ended
	if m.alive() {
		until = m.w.now
	}
	if least := m.launched.Add(m.w.cfg.MinBilled); until.Before(least) {
		until = least
	}
	return m.cost(p, m.launched, until)
}

func (m *machine) cost(p course, from, to time.Time) float64 {
	if !m.offer.Spot {
		return to.Sub(from).Hours() * m.offer.USDPerHour
	}
	return p.cost(from, to, m.bid)
}

// billSince is what of the bill is for the time since a moment.
func (m *machine) billSince(t time.Time) float64 {
	if !t.After(m.launched) {
		return m.bill()
	}
	until := m.ended
	if m.alive() {
		until = m.w.now
	}
	if until.Before(t) {
		return 0
	}
	return m.cost(m.w.sky.market(listingOf(m.offer)), t, until)
}

// die is a failure without a word: the machine is gone, or only its agent while the bill goes on.
func (m *machine) die() {
	if !m.alive() || m.w.faults.Dies == 0 {
		return
	}
	if m.w.rand.machine.chance(0.5) {
		m.w.count("machine dies")
		m.end("hardware failure")
		return
	}
	m.w.count("agent dies")
	m.w.say(m.fleet.name, "agent dies", m.id)
	m.agent.stop()
}

// foreseeTaking draws when a spot machine will be taken.
func (m *machine) foreseeTaking(nodes int) {
	r := m.w.rand.machine
	if _, until := m.w.sky.capacity(m.offer, nodes); !until.IsZero() && r.chance(0.7) {
		m.w.at(until, func() { m.take(m.w.faults.Spot.Well > 0) })
	}
	if mean := m.w.faults.Taken; mean > 0 {
		m.w.after(r.span(mean), func() { m.take(m.w.faults.Taken > 0) })
	}
}

// notice is how long before it takes a machine a cloud says so.
func notice(name string) time.Duration {
	if name == "aws" {
		return 2 * time.Minute
	}
	return 30 * time.Second
}

// take has a spot machine taken, if that is still to be.
func (m *machine) take(still bool) {
	if still && !m.doomed && m.alive() {
		m.w.count("spot machine taken")
		m.takeWith(m.hears())
	}
}

// takeWith warns of a machine's end, and then ends it. The machine itself may learn of it, and the cloud may tell.
func (m *machine) takeWith(learns bool) {
	m.doomed = true
	at := m.w.now.Add(notice(m.offer.Cloud))
	m.w.say(m.cloud.name, "will take", m.fleet.name+" "+m.id)
	m.tell(cloud.Interruption, at)
	if learns {
		m.w.after(m.w.rand.machine.between(0, 5*time.Second), func() { m.agent.warned(at) })
	}
	m.w.at(at, func() {
		if m.alive() {
			m.end("spot-interruption")
			m.tell(cloud.Taken, m.w.now)
		}
	})
}

func (m *machine) hears() bool { return !m.w.rand.machine.chance(m.w.faults.NoticeLost) }

// tell has the cloud's event service tell the broker: never, or once, or more often.
func (m *machine) tell(kind cloud.NoticeKind, at time.Time) {
	for n := range 3 {
		if !m.hears() || n > 0 && !m.w.rand.machine.chance(m.w.faults.Repeat) {
			continue
		}
		m.w.after(m.w.rand.machine.between(0, 10*time.Second), func() {
			m.w.emit("cloud/"+m.cloud.name, fmt.Sprintf("%s/%s/%d", m.id, kind, n), events.SpotInterrupted{
				Cluster: m.fleet.name, Job: record.ClusterJob(m.fleet.name), Machine: m.id, Kind: string(kind), At: at,
			})
		})
	}
}
