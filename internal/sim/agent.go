package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// The habits of an agent.
const (
	heartbeat = 2 * time.Minute
	pollEvery = 3 * time.Minute  // a poll that the broker holds until there is news
	patience  = 10 * time.Minute // without any answer
)

// agent is the program on a machine. It keeps to the protocol of package wire as the real one does: calls go on until
// they are answered, reports go in their order, and an attempt that is over ends it.
type agent struct {
	w       *world
	m       *machine
	claims  wire.Claims
	alive   bool
	heard   time.Time // when the broker last answered
	known   bool      // its hello was accepted
	seen    int       // sequence number of the last command
	polling bool
	again   bool // poll once more: there may be news
	nextAt  time.Time
	run     *run // the current or last attempt
}

func newAgent(m *machine, token string) *agent {
	a := &agent{w: m.w, m: m, alive: true}
	var err error
	if a.claims, err = unseal(token); err != nil {
		m.w.violate(InvToken, err.Error())
	}
	if a.claims.Cluster != m.fleet.name || a.claims.Rank != m.rank || a.claims.Job != record.ClusterJob(m.fleet.name) {
		m.w.violatef(InvToken, "machine %s, rank %d of %s, was given a token for rank %d of %s", m.id, m.rank,
			m.fleet.name, a.claims.Rank, a.claims.Cluster)
	}
	return a
}

func (a *agent) stop() {
	a.alive = false
	if a.run != nil {
		a.run.over = true
	}
}

// call asks the broker something, again and again until it answers: then done is called, unless the answer is that
// the attempt is over.
func (a *agent) call(what string, body func(context.Context, *broker.Broker) error, done func()) {
	if !a.alive {
		return
	}
	a.w.network.call("agent "+what+" "+a.m.id, !a.w.sky.cut(a.m.id), body, func(err error) {
		switch {
		case !a.alive:
		case err == nil:
			a.heard = a.w.now
			done()
		case errors.Is(err, record.ErrGone):
			a.w.say(a.m.fleet.name, "agent exits", a.m.id+": the attempt is over")
			a.stop()
		case a.w.now.Sub(a.heard) > patience:
			a.w.say(a.m.fleet.name, "agent exits", a.m.id+": broker unreachable")
			a.stop()
		default:
			a.w.check.agentFailed(what, err)
			a.w.after(a.w.rand.network.spread(time.Second, 20*time.Second), func() { a.call(what, body, done) })
		}
	})
}

// boot is the beginning: the machine has booted, the agent dials home.
func (a *agent) boot() {
	a.heard = a.w.now
	var first wire.Work
	a.call("hello", func(ctx context.Context, b *broker.Broker) (err error) {
		began := a.w.steps
		if first, err = b.Hello(ctx, a.claims,
			wire.Hello{Address: "10.0.0." + fmt.Sprint(a.m.rank), Version: "sim"}); err == nil {
			a.w.check.assigned(a, first, began)
		}
		return err
	}, func() {
		a.known = true
		if first.Seq > a.seen {
			a.seen = first.Seq
			a.obey(first)
		}
		a.poll()
	})
}

// wake has the agent poll, as the broker's answer to a held poll would.
func (a *agent) wake() {
	if !a.alive || !a.known {
		return
	}
	a.again = true
	if !a.polling {
		a.pollAt(a.w.now.Add(a.w.rand.network.between(0, 20*time.Millisecond)))
	}
}

func (a *agent) pollAt(at time.Time) {
	if !a.nextAt.IsZero() && !a.nextAt.After(at) {
		return
	}
	a.nextAt = at
	a.w.at(at, func() {
		if a.alive && a.nextAt.Equal(at) {
			a.nextAt = time.Time{}
			a.poll()
		}
	})
}

func (a *agent) poll() {
	if a.polling || !a.alive {
		return
	}
	a.polling, a.again = true, false
	var work wire.Work
	seen := a.seen
	a.call("work", func(ctx context.Context, b *broker.Broker) error {
		began := a.w.steps
		if a.m.w.now.After(a.claims.Expires) {
			return record.ErrGone // as the API refuses who comes too late
		}
		got, err := b.Work(ctx, a.claims, seen)
		if err == nil {
			work = got
			a.w.check.assigned(a, got, began)
		}
		return err
	}, func() {
		a.polling = false
		if c, err := unseal(work.Token); err == nil {
			a.claims = c
		}
		if work.Seq > a.seen {
			a.seen = work.Seq
			a.obey(work)
		}
		if a.again {
			a.pollAt(a.w.now)
		} else {
			a.pollAt(a.w.now.Add(pollEvery))
		}
	})
}

func (a *agent) obey(w wire.Work) {
	if w.Command != wire.None {
		a.w.say(a.m.fleet.name, "agent obeys", fmt.Sprintf("%s: %s", a.m.id, w.Command))
	}
	switch w.Command {
	case wire.Run:
		if w.Assignment != nil && (a.run == nil || a.run.work.Attempt != w.Assignment.Attempt) {
			a.run = newRun(a, w.Assignment)
			a.run.stage()
		}
	case wire.SaveNow:
		if a.run != nil {
			a.run.saveAndStop(a.w.now.Add(w.Notice))
		}
	case wire.Stop:
		if a.run != nil {
			a.run.stopOnCommand()
		}
	case wire.Disconnect:
		a.stop()
	case wire.None:
	}
}

// warned is what the machine itself learns of its end.
func (a *agent) warned(at time.Time) {
	if !a.alive || a.run == nil || a.run.over {
		return
	}
	a.run.report(wire.Report{Event: wire.NoticeSeen, Notice: at.Sub(a.w.now)}, nil)
	a.run.saveAndStop(at)
}
