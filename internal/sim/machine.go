package sim

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// machine is a machine that really runs and costs money.
type machine struct {
	check.Machine
	w        *world
	listed   time.Time // when lists start to show it
	reason   string
	doomed   bool // it will be taken
	notified bool // and the cloud has notified the broker
	agent    *agent
	on       *machine // the worker to which it belongs; nil for a whole machine
}

func newMachine(c *provider, f *fleet, id string, rank int, spec cloud.LaunchSpec) *machine {
	w, r := c.w, c.w.rand.machine
	m := &machine{w: w, listed: w.Now, Machine: check.Machine{ID: id, Cluster: f.name, Rank: rank, Cloud: c.name,
		Offer: spec.Offer, Bid: weather.BidOf(spec), Launched: w.Now}}
	if lag := w.faults.ListLag; lag > 0 {
		m.listed = w.Now.Add(r.Between(0, lag))
	}
	if w.opt.Break == breaks.Stale {
		m.listed = w.Now.Add(time.Hour)
	}
	m.agent = newAgent(m, spec.Bootstrap.Tokens[rank])
	boot := r.Between(15*time.Second, 100*time.Second)
	listing, _ := weather.Find(weather.ListingOf(spec.Offer))
	if measured, ok := hardware.BootOf(c.name, listing.VCPU, spec.Offer.AccelCount); ok && w.opt.usual {
		boot = measured.Quantile(r.Float64())
	}
	if w.opt.Boots != nil {
		if measured, ok := w.opt.Boots.Quantile(c.name, spec.Offer.InstanceType, r.Float64()); ok {
			boot = measured
		}
	}
	if r.Chance(w.faults.SlowBoot) {
		w.Count("slow boot")
		boot = r.Between(3*time.Minute, 25*time.Minute)
	}
	w.After(boot, m.agent.boot)
	if w.faults.Dies > 0 {
		w.After(r.Span(w.faults.Dies), m.die)
	}
	if spec.Offer.Spot {
		m.planTaking(spec.Nodes)
	}
	return m
}

func (m *machine) view() cloud.Machine {
	v := cloud.Machine{
		ID: m.ID, Cluster: m.Cluster, Rank: m.Rank, State: cloud.Running, Offer: m.Offer, Launched: m.Launched,
		Reason: m.reason,
	}
	if !m.Alive() {
		v.State = cloud.Terminated
	}
	return v
}

// end stops a machine and its bill.
func (m *machine) end(reason string) {
	if !m.Alive() {
		return
	}
	m.Ended, m.reason = m.w.Now, reason
	if r := m.agent.run; r != nil && r.worker != nil {
		r.worker.orphaned = false
	}
	m.agent.stop()
	m.w.Say(m.Cloud, "ends", m.Cluster+" "+m.ID+": "+reason)
	m.w.check.Ended(&m.Machine)
}

// die is a failure without notice: the machine ends, or only its agent while the bill continues.
func (m *machine) die() {
	if !m.Alive() || m.w.faults.Dies == 0 {
		return
	}
	if m.w.rand.machine.Chance(0.5) {
		m.w.Count("machine dies")
		m.end("hardware failure")
		return
	}
	m.w.Count("agent dies")
	m.w.Say(m.Cluster, "agent dies", m.ID)
	if r := m.agent.run; r != nil && r.worker != nil && m.w.rand.share.Chance(0.5) {
		m.w.Count("agents outlive their worker's process")
		r.worker.orphaned, r.worker.up = true, false
	}
	m.agent.stop()
}

// planTaking draws when a spot machine will be taken.
func (m *machine) planTaking(nodes int) {
	r := m.w.rand.machine
	if _, until := m.w.sky.Capacity(m.Offer, nodes); !until.IsZero() && r.Chance(0.7) {
		m.w.At(until, func() { m.take(m.w.faults.Spot.Good > 0) })
	}
	if mean := m.w.faults.Taken; mean > 0 {
		m.w.After(r.Span(mean), func() { m.take(m.w.faults.Taken > 0) })
	}
}

// notice is the time by which a cloud announces in advance that it takes a machine.
func notice(name string) time.Duration {
	if name == "aws" {
		return 2 * time.Minute
	}
	return 30 * time.Second
}

// take takes a spot machine, if that still applies.
func (m *machine) take(still bool) {
	if still && !m.doomed && m.Alive() {
		m.w.Count("spot machine taken")
		m.takeWith(m.noticeArrives())
	}
}

// takeWith announces a machine's end, and then ends the machine. The machine may get the notice itself, and the cloud
// may notify the broker.
func (m *machine) takeWith(learns bool) {
	m.doomed = true
	at := m.w.Now.Add(notice(m.Offer.Cloud))
	m.w.Say(m.Cloud, "will take", m.Cluster+" "+m.ID)
	m.notifyBroker(cloud.Interruption, at)
	if learns {
		m.w.After(m.w.rand.machine.Between(0, 5*time.Second), func() { m.agent.warned(at) })
	}
	m.w.At(at, func() {
		if m.Alive() {
			m.checkNotice()
			m.end("spot-interruption")
			m.notifyBroker(cloud.Taken, m.w.Now)
		}
	})
}

// checkNotice checks that the task on an announced machine got the command to save its work, unless a part in between
// has failed.
func (m *machine) checkNotice() {
	r := m.agent.run
	if m.notified && m.agent.m.Speaks && r != nil && !r.over && !r.began.IsZero() && !r.saving && !r.kept {
		m.w.check.Unheeded(&m.Machine)
	}
}

func (m *machine) noticeArrives() bool { return !m.w.rand.machine.Chance(m.w.faults.NoticeLost) }

// notifyBroker makes the cloud's event service notify the broker: never, once, or repeatedly.
func (m *machine) notifyBroker(kind cloud.NoticeKind, at time.Time) {
	for n := range 3 {
		if !m.noticeArrives() || n > 0 && !m.w.rand.machine.Chance(m.w.faults.Repeat) {
			continue
		}
		m.w.After(m.w.rand.machine.Between(0, 10*time.Second), func() {
			m.notified = true
			m.w.emit("cloud/"+m.Cloud, fmt.Sprintf("%s/%s/%d", m.ID, kind, n), events.SpotInterrupted{
				Cluster: m.Cluster, Job: record.ClusterJob(m.Cluster), Machine: m.ID, Kind: string(kind), At: at,
			})
		})
	}
}
