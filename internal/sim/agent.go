package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
)

// Timing of an agent.
const (
	heartbeat = 2 * time.Minute
	pollEvery = 3 * time.Minute // maximum time that the broker holds a poll without news
	patience  = wire.Patience   // how long it tries without any answer
)

// agent is the program on a machine. Like the real agent, it follows the protocol of package wire: it repeats a call
// until it is answered, sends reports in order, and exits when its attempt has finished.
type agent struct {
	w       *world
	m       *machine
	claims  wire.Claims
	heard   time.Time // when the broker last answered
	known   bool      // its hello was accepted
	seen    int       // sequence number of the last command
	polling bool
	again   bool // poll once more: there may be news
	nextAt  time.Time
	run     *run // the current or last attempt
}

func newAgent(m *machine, token string) *agent {
	a := &agent{w: m.w, m: m}
	m.Speaks = true
	var err error
	if a.claims, err = unseal(token); err != nil {
		m.w.Violate(check.InvToken, err.Error())
	}
	if a.claims.Cluster != m.Cluster || a.claims.Rank != m.Rank || a.claims.Job != record.ClusterJob(m.Cluster) {
		m.w.Violatef(check.InvToken, "machine %s, rank %d of %s, received a token for rank %d of %s", m.ID, m.Rank,
			m.Cluster, a.claims.Rank, a.claims.Cluster)
	}
	return a
}

func (a *agent) stop() {
	a.m.Speaks = false
	if on := a.m.on; on != nil && on.agent.run != nil && on.agent.run.worker.orphaned {
		a.m.end("the agent has exited") // no process of its worker would see it
	}
	if a.run != nil {
		a.run.over = true
		if m := a.run.worker; m != nil && !m.orphaned {
			m.endAll("its worker has ended")
		}
	}
}

// call repeats a call to the broker until it is answered, then calls done. If the answer reports that the attempt has
// finished, the agent exits instead.
func (a *agent) call(what string, body func(context.Context, *broker.Broker) error, done func()) {
	callFor(a, what, func(ctx context.Context, b *broker.Broker) (struct{}, error) { return struct{}{}, body(ctx, b) },
		func(struct{}) { done() })
}

// callFor makes a call that has a result. Each try has its own answer. The answer to an earlier try is ignored when
// the agent has tried again.
func callFor[T any](a *agent, what string, body func(context.Context, *broker.Broker) (T, error), done func(T)) {
	if a.w.post != nil {
		mailFor(a, what, body, done, nil)
		return
	}
	if !a.m.Speaks {
		return
	}
	var got T
	ask := func(ctx context.Context, b *broker.Broker) (err error) {
		got, err = body(ctx, b)
		return err
	}
	a.w.network.call("agent "+what+" "+a.m.ID, a.w.connected(a.m.ID), ask, func(err error) {
		a.answered(what, err, patience, a.w.Now, func() { done(got) }, func() { callFor(a, what, body, done) })
	})
}

// mailFor is callFor through a bucket. A repeated call waits for the answer to the same message. l is that
// message, nil at first.
func mailFor[T any](a *agent, what string, body func(context.Context, *broker.Broker) (T, error), done func(T),
	l *letter) {
	if !a.m.Speaks {
		return
	}
	if l == nil || a.w.opt.Break == breaks.Chatty {
		got := new(T)
		l = a.w.post.write(a.m, got, func(ctx context.Context, b *broker.Broker) (err error) {
			*got, err = body(ctx, b)
			return err
		})
		if l == nil {
			return
		}
	}
	a.w.post.call(l, !a.w.sky.Cut(a.m.ID), func(err error) {
		a.answered(what, err, a.w.post.patience, l.written, func() { done(*l.got.(*T)) }, func() {
			if l.taken { // the broker's answer was an error that another try may not have
				l = nil
			}
			mailFor(a, what, body, done, l)
		})
	})
}

// answered handles the result of a call that the broker answered at a time. It calls done, or again after a while, or
// the agent exits.
func (a *agent) answered(what string, err error, patience time.Duration, at time.Time, done, again func()) {
	switch {
	case !a.m.Speaks:
	case err == nil:
		a.heard, a.m.Answered = a.w.Now, at
		done()
	case errors.Is(err, record.ErrGone):
		a.w.Say(a.m.Cluster, "agent exits", a.m.ID+": the attempt has finished")
		a.stop()
		if a.w.opt.usual {
			a.m.exited()
		}
	case a.w.Now.Sub(a.heard) > patience:
		a.w.Say(a.m.Cluster, "agent exits", a.m.ID+": broker unreachable")
		a.stop()
	default:
		a.w.check.AgentFailed(what, err)
		a.w.After(a.w.rand.network.Spread(time.Second, 20*time.Second), again)
	}
}

// boot is called when the machine has booted. The agent sends its first call, hello, to the broker.
func (a *agent) boot() {
	a.heard, a.m.Answered = a.w.Now, a.w.Now
	callFor(a, "hello", func(ctx context.Context, b *broker.Broker) (first wire.Work, err error) {
		began := a.w.Steps
		if first, err = b.Agents.Hello(ctx, a.claims,
			wire.Hello{Address: "10.0.0." + fmt.Sprint(a.m.Rank), Version: "sim", Nonce: a.m.ID}); err == nil {
			a.w.check.Assigned(&a.m.Machine, first, began)
		}
		return first, err
	}, func(first wire.Work) {
		a.known = true
		if c, err := unseal(first.Token); err == nil {
			a.claims = c
		}
		if first.Seq > a.seen {
			a.seen = first.Seq
			a.obey(first)
		}
		a.poll()
	})
}

// wake makes the agent poll, like the broker's answer to a held poll.
func (a *agent) wake() {
	if !a.m.Speaks || !a.known {
		return
	}
	a.again = true
	if !a.polling {
		a.pollAt(a.w.Now.Add(a.w.rand.network.Between(0, 20*time.Millisecond)))
	}
}

func (a *agent) pollAt(at time.Time) {
	if !a.nextAt.IsZero() && !a.nextAt.After(at) {
		return
	}
	a.nextAt = at
	a.w.At(at, func() {
		if a.m.Speaks && a.nextAt.Equal(at) {
			a.nextAt = time.Time{}
			a.poll()
		}
	})
}

func (a *agent) poll() {
	if a.polling || !a.m.Speaks {
		return
	}
	a.polling, a.again = true, false
	seen := a.seen
	callFor(a, "work", func(ctx context.Context, b *broker.Broker) (work wire.Work, err error) {
		began := a.w.Steps
		if a.m.w.Now.After(a.claims.Expires) {
			return work, record.ErrGone // the API refuses expired tokens
		}
		if work, err = b.Agents.Work(ctx, a.claims, seen); err == nil {
			a.w.check.Assigned(&a.m.Machine, work, began)
		}
		return work, err
	}, func(work wire.Work) {
		a.polling = false
		if c, err := unseal(work.Token); err == nil {
			a.claims = c
		}
		if work.Seq > a.seen {
			a.seen = work.Seq
			a.obey(work)
		}
		if a.again {
			a.pollAt(a.w.Now)
		} else {
			a.pollAt(a.w.Now.Add(pollEvery))
		}
	})
}

func (a *agent) obey(w wire.Work) {
	if w.Command != wire.None {
		a.w.Say(a.m.Cluster, "agent obeys", fmt.Sprintf("%s: %s", a.m.ID, w.Command))
	}
	switch w.Command {
	case wire.Run:
		if w.Assignment != nil && (a.run == nil || a.run.work.Attempt != w.Assignment.Attempt) {
			a.run = newRun(a, w.Assignment)
			a.run.stage()
		}
	case wire.SaveAndStop:
		if a.run != nil {
			a.run.saveAndStop(a.w.Now.Add(w.Notice))
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

// warned is called when the machine itself learns that it will be taken.
func (a *agent) warned(at time.Time) {
	if !a.m.Speaks || a.run == nil || a.run.over {
		return
	}
	a.run.report(wire.Report{Event: wire.NoticeSeen, Notice: at.Sub(a.w.Now)}, nil)
	a.run.saveAndStop(at)
}
