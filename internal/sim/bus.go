package sim

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// The delivery rules of the queues of a world.
const (
	visibility  = 3 * time.Minute
	maxAttempts = 8
	backoffMin  = time.Second
	backoffMax  = time.Minute
)

// messageBus is the bus of a world. It delivers in any order, late and repeatedly, but never loses an accepted message.
type messageBus struct {
	w      *world
	queues []*queue // by events.Functions
	route  map[string][]string
	dead   []bus.DeadLetter
	serial uint64
}

var _ bus.Bus = (*messageBus)(nil)

// queue holds the messages of one function.
type queue struct {
	bus.QueueConfig
	messages []*message // in order of arrival
	busy     int        // deliveries being handled
	pollAt   time.Time  // next poll; zero if none is planned
}

// message is one message in one queue.
type message struct {
	bus.Message
	attempts int
	visible  time.Time
	receipt  uint64 // of the latest delivery; 0 if it is not being handled
}

func newMessageBus(w *world) *messageBus {
	b := &messageBus{w: w, route: events.Routes()}
	for _, fn := range events.Functions() {
		b.queues = append(b.queues, &queue{QueueConfig: bus.QueueConfig{
			Name: fn, Visibility: visibility, MaxAttempts: maxAttempts, BackoffMin: backoffMin, BackoffMax: backoffMax,
		}})
	}
	return b
}

func (b *messageBus) queue(name string) (*queue, error) {
	i := slices.IndexFunc(b.queues, func(q *queue) bool { return q.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("sim: %w %q", bus.ErrUnknownQueue, name)
	}
	return b.queues[i], nil
}

// Publish implements bus.Bus.
func (b *messageBus) Publish(_ context.Context, messages ...bus.Message) error {
	b.w.before("publish")
	for i := range messages {
		if err := messages[i].Validate(); err != nil {
			return err
		}
	}
	for i := range messages {
		m := messages[i]
		names, known := b.route[m.Type]
		if b.w.opt.Break == breaks.Content && b.needless(&m) ||
			b.w.opt.Break == breaks.Unhired && b.w.check.AsksForWorker(m.Body) {
			names = nil
		}
		b.w.check.Alone(&m)
		b.w.check.Published(m.ID, names)
		if b.w.opt.Break == breaks.LossyBus && b.w.rand.bus.Chance(0.02) {
			continue
		}
		if !known {
			b.bury(&message{Message: m}, "", "no queue for type "+m.Type)
		}
		for _, name := range names {
			b.put(name, m)
		}
	}
	b.w.after("publish")
	return nil
}

// needless reports whether a message of reconcile requests an unnecessary session: no job in the queue waits without
// holding machines.
func (b *messageBus) needless(m *bus.Message) bool {
	e, err := events.Parse(m.Body)
	freed, is := e.Data.(events.CapacityFreed)
	return err == nil && is && freed.Job == "" && e.Source == "tradewind/"+events.FnReconcile &&
		!b.w.check.WaitsIdle(freed.Queue)
}

func (b *messageBus) put(name string, m bus.Message) {
	q, err := b.queue(name)
	if err != nil {
		b.w.Violate(check.InvErrors, err.Error())
		return
	}
	copies := 1
	for copies < 3 && b.w.rand.bus.Chance(b.w.faults.Repeat) {
		b.w.Count("message repeated")
		copies++
	}
	for range copies {
		visible := b.w.Now.Add(b.w.rand.bus.Between(0, 50*time.Millisecond))
		if b.w.rand.bus.Chance(b.w.faults.Delay) {
			b.w.Count("message delayed")
			visible = b.w.Now.Add(b.w.rand.bus.Spread(time.Second, 10*time.Minute))
		}
		q.messages = append(q.messages, &message{Message: m, visible: visible})
		b.w.engine.poll(q, visible)
	}
}

// Receive implements bus.Bus. It never waits.
func (b *messageBus) Receive(_ context.Context, name string, limit int, _ time.Duration) ([]bus.Delivery, error) {
	q, err := b.queue(name)
	if err != nil {
		return nil, err
	}
	b.expire(q)
	var out []bus.Delivery
	for _, m := range slices.Clone(q.messages) {
		if len(out) == limit {
			break
		}
		if m.visible.After(b.w.Now) || b.w.rand.bus.Chance(b.w.faults.Delay) { // others overtake it
			continue
		}
		b.serial++
		m.attempts++
		m.receipt, m.visible = b.serial, b.w.Now.Add(q.Visibility)
		if b.w.rand.bus.Chance(b.w.faults.Drop) {
			b.w.Count("delivery lost")
			continue
		}
		out = append(out, bus.Delivery{Message: m.Message, Receipt: strconv.FormatUint(b.serial, 10),
			Attempt: m.attempts})
	}
	return out, nil
}

// expire makes messages whose last delivery was never answered dead letters.
func (b *messageBus) expire(q *queue) {
	q.messages = slices.DeleteFunc(q.messages, func(m *message) bool {
		if m.attempts < q.MaxAttempts || m.visible.After(b.w.Now) {
			return false
		}
		b.bury(m, q.Name, "no answer")
		return true
	})
}

func (b *messageBus) bury(m *message, queue, reason string) {
	b.w.Count("dead letter")
	b.w.Say("bus", "dead letter", queue+" "+m.ID+" "+m.Type+": "+reason)
	b.dead = append(b.dead, bus.DeadLetter{Message: m.Message, Queue: queue, Reason: bus.TrimReason(reason),
		Attempts: m.attempts, At: b.w.Now})
}

// held finds the message of a valid receipt.
func (b *messageBus) held(name, receipt string) (*queue, int, error) {
	q, err := b.queue(name)
	if err != nil {
		return nil, 0, err
	}
	i := slices.IndexFunc(q.messages, func(m *message) bool { return strconv.FormatUint(m.receipt, 10) == receipt })
	if i < 0 || !q.messages[i].visible.After(b.w.Now) {
		return nil, 0, fmt.Errorf("sim: %w", bus.ErrStaleReceipt)
	}
	return q, i, nil
}

// Ack implements bus.Bus.
func (b *messageBus) Ack(_ context.Context, name string, receipts ...string) error {
	b.w.before("ack")
	var stale error
	for _, r := range receipts {
		if b.w.rand.bus.Chance(b.w.faults.AckLost) {
			b.w.Count("acknowledgement lost")
			continue
		}
		q, i, err := b.held(name, r)
		if err != nil {
			stale = err
			continue
		}
		b.w.check.Acked(q.Name, q.messages[i].ID)
		q.messages = slices.Delete(q.messages, i, i+1)
	}
	return stale
}

// Nack implements bus.Bus.
func (b *messageBus) Nack(_ context.Context, name, receipt, reason string) error {
	b.w.before("nack")
	q, i, err := b.held(name, receipt)
	if err != nil {
		return err
	}
	m := q.messages[i]
	if m.attempts >= q.MaxAttempts {
		b.bury(m, name, reason)
		q.messages = slices.Delete(q.messages, i, i+1)
		return nil
	}
	m.receipt, m.visible = 0, b.w.Now.Add(q.Backoff(m.attempts))
	b.w.engine.poll(q, m.visible)
	return nil
}

// Reject implements bus.Bus.
func (b *messageBus) Reject(_ context.Context, name, receipt, reason string) error {
	q, i, err := b.held(name, receipt)
	if err != nil {
		return err
	}
	b.bury(q.messages[i], name, reason)
	q.messages = slices.Delete(q.messages, i, i+1)
	return nil
}

// Extend implements bus.Bus.
func (b *messageBus) Extend(_ context.Context, name, receipt string) error {
	q, i, err := b.held(name, receipt)
	if err == nil {
		q.messages[i].visible = b.w.Now.Add(q.Visibility)
	}
	return err
}

// DeadLetters implements bus.Bus.
func (b *messageBus) DeadLetters(_ context.Context, name string, limit int) ([]bus.DeadLetter, error) {
	var out []bus.DeadLetter
	for _, d := range b.dead {
		if (name == "" || d.Queue == name) && len(out) < limit {
			out = append(out, d)
		}
	}
	return out, nil
}

// Redrive implements bus.Bus.
func (b *messageBus) Redrive(_ context.Context, name string, ids ...string) (int, error) {
	n := 0
	b.dead = slices.DeleteFunc(b.dead, func(d bus.DeadLetter) bool {
		if name != "" && d.Queue != name || len(ids) > 0 && !slices.Contains(ids, d.ID) || d.Queue == "" {
			return false
		}
		n++
		b.put(d.Queue, d.Message)
		return true
	})
	return n, nil
}

// Depth implements bus.Bus.
func (b *messageBus) Depth(_ context.Context, name string) (int, error) {
	q, err := b.queue(name)
	if err != nil {
		return 0, err
	}
	return len(q.messages), nil
}

// Close implements bus.Bus.
func (b *messageBus) Close() error { return nil }

// next returns when the first message of a queue becomes visible.
func (q *queue) next() (at time.Time, ok bool) {
	for _, m := range q.messages {
		if !ok || m.visible.Before(at) {
			at, ok = m.visible, true
		}
	}
	return at, ok
}

// depths lists the messages in the queues, for the end of a history.
func (b *messageBus) depths() string {
	var parts []string
	for _, q := range b.queues {
		for _, m := range q.messages {
			parts = append(parts, q.Name+":"+m.Type+":"+m.ID)
		}
	}
	return strings.Join(parts, " ")
}
