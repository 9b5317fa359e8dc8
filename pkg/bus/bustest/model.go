package bustest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// testModel compares the driver with a list of messages under random operations.
func (s *suite) testModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		su := setup()
		su.Queues[0].MaxAttempts = 3 // so that random operations reach the last attempt
		b := s.open(t, su)
		defer func() {
			if err := b.Close(); err != nil {
				rt.Errorf("Close: %v", err)
			}
		}()
		m := &model{T: rt, bus: b, clock: su.Clock, queues: make(map[string]bus.QueueConfig)}
		for _, q := range su.Queues {
			m.queues[q.Name] = q
		}
		m.route = su.Route
		with := func(action func()) func(*rapid.T) {
			return func(rt *rapid.T) {
				m.T = rt
				action()
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"":        with(m.compare),
			"publish": with(m.publish),
			"receive": with(m.receive),
			"answer":  with(m.answer),
			"advance": with(m.advance),
			"round":   with(m.round),
			"turn":    with(m.round), // twice as often as the others
			"redrive": with(m.redrive),
		})
	})
}

// model is the expected content of a bus.
type model struct {
	*rapid.T
	bus      bus.Bus
	clock    *Clock
	queues   map[string]bus.QueueConfig
	route    bus.Route
	copies   []*copied
	receipts []receipt
	count    int
}

// copied is one message in one queue, or a dead letter.
type copied struct {
	message  bus.Message
	queue    string
	attempts int
	until    time.Time // hidden until
	inFlight bool      // its latest delivery is not answered
	dead     bool
	gone     bool
	reason   string // of the dead letter; "" if the driver chooses it
	at       time.Time
}

type receipt struct {
	text    string
	of      *copied
	attempt int
}

func (m *model) publish() {
	if len(m.which(func(c *copied) bool { return !c.dead && !c.gone })) > 6 {
		return // few messages with many operations test more than many with few
	}
	var batch []bus.Message
	for range rapid.IntRange(1, 4).Draw(m.T, "messages") {
		m.count++
		msg := message(fmt.Sprintf("m%d", m.count),
			rapid.SampledFrom([]string{workType, workType, bothType, auditType, nobodyType, unknownType}).Draw(m.T,
				"type"))
		if delay := rapid.IntRange(-1, 3).Draw(m.T, "delay"); delay != 0 {
			msg.NotBefore = m.clock.Now().Add(time.Duration(delay) * time.Second)
		}
		batch = append(batch, msg)
		queues, routed := m.route[msg.Type]
		for _, q := range queues {
			m.copies = append(m.copies, &copied{message: msg, queue: q, until: msg.NotBefore})
		}
		if !routed {
			m.copies = append(m.copies, &copied{message: msg, dead: true, at: m.clock.Now()})
		}
	}
	if err := m.bus.Publish(m.Context(), batch...); err != nil {
		m.Fatalf("Publish: %v", err)
	}
}

func (m *model) visible(queue string) []*copied {
	return m.which(func(c *copied) bool {
		return c.queue == queue && !c.dead && !c.gone && !c.until.After(m.clock.Now())
	})
}

func (m *model) which(is func(*copied) bool) []*copied {
	return slices.DeleteFunc(slices.Clone(m.copies), func(c *copied) bool { return !is(c) })
}

func (m *model) receive() {
	queue, limit := m.drawQueue(), rapid.IntRange(0, 5).Draw(m.T, "limit")
	visible := m.visible(queue)
	got, err := m.bus.Receive(m.Context(), queue, limit, 0)
	if err != nil || len(got) > limit {
		m.Fatalf("Receive(%q, %d) = %s, %v", queue, limit, showAll(got), err)
	}
	if len(got) == 0 && limit > 0 && len(visible) > 0 {
		m.Fatalf("Receive(%q, %d) = none, %q is visible", queue, limit, visible[0].message.ID)
	}
	for _, d := range got {
		i := slices.IndexFunc(visible, func(c *copied) bool { return c.message.ID == d.ID })
		if i < 0 {
			m.Fatalf("Receive(%q) = %s, %q should not be visible", queue, showAll(got), d.ID)
		}
		c := visible[i]
		visible = slices.Delete(visible, i, i+1)
		c.attempts++
		c.inFlight = true
		c.until = m.clock.Now().Add(m.queues[queue].Visibility)
		if d.Attempt != c.attempts || !sameMessage(d.Message, c.message) {
			m.Fatalf("received %+v, want attempt %d of %+v", d, c.attempts, c.message)
		}
		m.receipts = append(m.receipts, receipt{text: d.Receipt, of: c, attempt: c.attempts})
	}
}

// round lets a consumer take the visible messages and answer some of them, and lets time pass. Without it,
// random operations seldom reach a third attempt.
func (m *model) round() {
	m.receive()
	m.receive()
	for range rapid.IntRange(0, 2).Draw(m.T, "answers") {
		m.answer()
	}
	m.advance()
}

func (m *model) drawQueue() string {
	return rapid.SampledFrom([]string{workQueue, auditQueue}).Draw(m.T, "queue")
}

// answer answers any earlier delivery.
func (m *model) answer() {
	if len(m.receipts) == 0 {
		return
	}
	back := rapid.IntRange(1, min(len(m.receipts), 10)).Draw(m.T, "receipt")
	r := m.receipts[len(m.receipts)-back]
	c := r.of
	holds := !c.dead && !c.gone && c.inFlight && c.attempts == r.attempt
	if holds && !c.until.After(m.clock.Now()) {
		return // timed out, but not delivered again: the contract leaves the outcome open
	}
	how := rapid.SampledFrom([]string{"ack", "ack", "nack", "reject", "extend"}).Draw(m.T, "answer")
	if c.dead && how == "ack" {
		return // also left open
	}
	reason := fmt.Sprintf("%s of attempt %d", how, r.attempt)
	var err error
	switch how {
	case "ack":
		err = m.bus.Ack(m.Context(), c.queue, r.text)
		holds = holds || c.gone
	case "nack":
		err = m.bus.Nack(m.Context(), c.queue, r.text, reason)
	case "reject":
		err = m.bus.Reject(m.Context(), c.queue, r.text, reason)
	case "extend":
		err = m.bus.Extend(m.Context(), c.queue, r.text)
	}
	if !holds {
		if !errors.Is(err, bus.ErrStaleReceipt) {
			m.Fatalf("%s of %q by a stale receipt = %v", how, c.message.ID, err)
		}
		return
	}
	if err != nil {
		m.Fatalf("%s of %q: %v", how, c.message.ID, err)
	}
	m.answered(c, how, reason)
}

func (m *model) answered(c *copied, how, reason string) {
	config := m.queues[c.queue]
	switch {
	case how == "ack":
		c.gone = true
	case how == "reject", how == "nack" && c.attempts >= config.MaxAttempts:
		c.dead, c.reason, c.at, c.inFlight = true, reason, m.clock.Now(), false
	case how == "nack":
		c.inFlight = false
		c.until = m.clock.Now().Add(min(config.BackoffMin<<(c.attempts-1), config.BackoffMax))
	case how == "extend":
		c.until = m.clock.Now().Add(config.Visibility)
	}
}

func (m *model) advance() {
	m.clock.Advance(rapid.SampledFrom([]time.Duration{1, time.Second, backoffMax, visibility - 1, visibility,
		2 * visibility}).Draw(m.T, "time"))
	for _, c := range m.copies {
		if c.inFlight && !c.dead && !c.gone && c.attempts >= m.queues[c.queue].MaxAttempts &&
			!c.until.After(m.clock.Now()) {
			c.dead, c.inFlight, c.at = true, false, c.until
		}
	}
}

func (m *model) redrive() {
	queue := rapid.SampledFrom([]string{"", workQueue, auditQueue}).Draw(m.T, "of")
	var chosen []string
	if rapid.Bool().Draw(m.T, "by ID") {
		for range rapid.IntRange(1, 3).Draw(m.T, "IDs") {
			chosen = append(chosen, fmt.Sprintf("m%d", rapid.IntRange(1, m.count+1).Draw(m.T, "ID")))
		}
	}
	want := m.which(func(c *copied) bool {
		return c.dead && c.queue != "" && (queue == "" || c.queue == queue) &&
			(chosen == nil || slices.Contains(chosen, c.message.ID))
	})
	n, err := m.bus.Redrive(m.Context(), queue, chosen...)
	if err != nil || n != len(want) {
		m.Fatalf("Redrive(%q, %q) = %d, %v, want %d", queue, chosen, n, err, len(want))
	}
	for _, c := range want {
		again := &copied{message: c.message, queue: c.queue, until: c.message.NotBefore}
		*c = copied{message: c.message, queue: c.queue, gone: true} // its receipts are now stale
		m.copies = append(m.copies, again)
	}
}

func (m *model) compare() {
	for name := range m.queues {
		n, err := m.bus.Depth(m.Context(), name)
		want := m.which(func(c *copied) bool { return c.queue == name && !c.dead && !c.gone })
		if err != nil || n != len(want) {
			m.Fatalf("Depth(%q) = %d, %v, want %d", name, n, err, len(want))
		}
	}
	want := m.which(func(c *copied) bool { return c.dead })
	letters, err := m.bus.DeadLetters(m.Context(), "", len(want)+1)
	if err != nil || len(letters) != len(want) {
		m.Fatalf("%d dead letters, %v, want %d", len(letters), err, len(want))
	}
	for i, l := range letters {
		if i > 0 && l.At.Before(letters[i-1].At) {
			m.Fatalf("a dead letter of %v is listed after one of %v", l.At, letters[i-1].At)
		}
		found := slices.ContainsFunc(want, func(c *copied) bool {
			return sameMessage(c.message, l.Message) && c.queue == l.Queue && c.attempts == l.Attempts &&
				c.at.Equal(l.At) && l.Reason != "" && (c.reason == "" || c.reason == l.Reason)
		})
		if !found {
			m.Fatalf("dead letter %+v is not in the model", l)
		}
	}
}
