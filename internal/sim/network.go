package sim

import (
	"context"
	"errors"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker"
)

// errNetwork is all that an agent or a user learns of a call that went wrong on the way, or at the other end.
var errNetwork = errors.New("sim: no answer")

// network carries calls of the API from agents and users to the hosts, and wakes agents whose command
// may have changed.
type network struct {
	w *world
}

// callTimeout is how long a caller waits for an answer.
const callTimeout = 15 * time.Second

// call has some host answer a request. done is told the outcome once; the request may have been carried out
// whatever that is, and may yet be, long after.
func (n *network) call(name string, connected bool, body func(context.Context, *broker.Broker) error,
	done func(error)) {
	w := n.w
	travel := w.rand.network.between(2*time.Millisecond, 80*time.Millisecond)
	if !connected || w.rand.network.chance(w.faults.RequestLost) {
		w.after(callTimeout, func() { done(errNetwork) })
		return
	}
	late := w.rand.network.chance(w.faults.RequestLate)
	if late {
		w.count("late request")
		travel = w.rand.network.spread(callTimeout, 30*time.Minute)
		w.after(callTimeout, func() { done(errNetwork) })
	}
	w.after(travel, func() {
		h := w.anyHost()
		if h == nil {
			if !late {
				w.after(time.Second, func() { done(errNetwork) })
			}
			return
		}
		err := errNetwork
		w.start(h, name, func(ctx context.Context, b *broker.Broker) { err = body(ctx, b) }, func(crashed bool) {
			switch {
			case late:
			case crashed, w.rand.network.chance(w.faults.AnswerLost):
				w.after(callTimeout, func() { done(errNetwork) })
			default:
				w.after(w.rand.network.between(2*time.Millisecond, 80*time.Millisecond), func() { done(err) })
			}
		})
	})
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
