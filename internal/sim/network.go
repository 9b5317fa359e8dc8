package sim

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
)

// network carries API calls from agents and users to the hosts, and wakes agents whose command may have changed.
type network struct {
	w *world
}

// callTimeout is the time for which a client waits for an answer.
const callTimeout = 15 * time.Second

// call makes some host answer a request. done is called once with the result. Whatever the result is, the request may
// have been executed, or may be executed much later.
func (n *network) call(name string, connected bool, body func(context.Context, *broker.Broker) error,
	done func(error)) {
	w := n.w
	travel := w.rand.network.Between(2*time.Millisecond, 80*time.Millisecond)
	if !connected || w.rand.network.Chance(w.faults.RequestLost) {
		w.After(callTimeout, func() { done(weather.ErrNetwork) })
		return
	}
	late := w.rand.network.Chance(w.faults.RequestLate)
	if late {
		w.Count("late request")
		travel = w.rand.network.Spread(callTimeout, 30*time.Minute)
		w.After(callTimeout, func() { done(weather.ErrNetwork) })
	}
	w.After(travel, func() {
		h := w.anyHost()
		if h == nil {
			if !late {
				w.After(time.Second, func() { done(weather.ErrNetwork) })
			}
			return
		}
		err := weather.ErrNetwork
		w.start(h, name, func(ctx context.Context, b *broker.Broker) { err = body(ctx, b) }, func(crashed bool) {
			switch {
			case late:
			case crashed, w.rand.network.Chance(w.faults.AnswerLost):
				w.After(callTimeout, func() { done(weather.ErrNetwork) })
			default:
				w.After(w.rand.network.Between(2*time.Millisecond, 80*time.Millisecond), func() { done(err) })
			}
		})
	})
}

// connected reports whether a machine reaches the API.
func (w *world) connected(machine string) bool {
	if w.sky.Closed() {
		w.Count("endpoint closed")
		return false
	}
	return !w.sky.Cut(machine)
}

// changed wakes the agents of a cluster that wait for a command.
func (n *network) changed(cluster string) {
	for _, c := range n.w.clouds {
		if cl := c.find(cluster); cl != nil {
			for _, m := range cl.machines {
				m.agent.wake()
			}
		}
	}
}
