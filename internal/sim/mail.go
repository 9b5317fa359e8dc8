package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// shareMail is the fraction of worlds whose broker has no address: agents call it through a bucket.
const shareMail = 0.2

// postOffice is the bucket through which agents call a broker without an address. It models package mailbox: numbered
// letters that are created once, answers next to them, URLs for a limited number of letters, and a broker that is away
// for a time, in which all its processes are killed.
type postOffice struct {
	w        *world
	rand     timeline.Random
	patience time.Duration // how long agents work on without an answer
	letters  map[string]*letter
	answers  map[string]mailReply
	boxes    map[string]*box // by machine
	order    []*box
	down     time.Time // until when the bucket refuses requests
	away     time.Time // until when the broker is away
	made     int
}

// box is the folder of a machine.
type box struct {
	name    string
	m       *machine
	next    int // number of the next letter
	have    int // highest number for which the agent has URLs
	pending []*letter
	over    time.Time // when a sweep first saw that nothing needs it
	clean   bool      // it was emptied, and nothing was put into it since
}

// letter is an agent's call, as a message in the bucket.
type letter struct {
	box     *box
	from    *machine
	number  int
	id      int
	below   int // lowest number of a message whose answer the agent needs
	body    func(context.Context, *broker.Broker) error
	got     any  // the result of the last call of body
	put     bool // the agent knows that it is in the bucket
	sent    bool // it is, or was, in the bucket
	visible time.Time
	busy    bool      // is being answered
	taken   bool      // the agent has its answer
	written time.Time // when the broker wrote the answer that the agent has
	wait    func(error)
}

// mailReply is the answer to a message, by the message's ID.
type mailReply struct {
	id  int
	err error
	at  time.Time
}

// Times and numbers of package mailbox. Each is the maximum time that a step takes.
const (
	mailEvery   = 2 * time.Second // between two looks of the broker, or of an agent
	mailTimeout = 30 * time.Second
	mailAgain   = 5 * time.Second // after a refusal of the bucket
	mailSweep   = time.Minute
	mailKeep    = 5 * time.Minute
	mailFirst   = 3 * time.Second // a broker that is back reads letters before it does anything else
	callsMost   = 3               // of an agent at once
	slotsFirst  = 16
	slotsMore   = 32
)

// newPostOffice returns the broker's side of the mailboxes, for a world whose broker has no address. It returns nil
// in other worlds.
func newPostOffice(w *world) *postOffice {
	r := timeline.NewRandom(w.Seed, "mail")
	always, drawn := w.opt.Mail || w.opt.Break.Mails(), r.Chance(shareMail) && w.opt.Break == ""
	if w.opt.steady || !always && !drawn {
		return nil
	}
	return &postOffice{w: w, rand: r, patience: r.Spread(5*time.Minute, 40*time.Minute), letters: map[string]*letter{},
		answers: map[string]mailReply{}, boxes: map[string]*box{}}
}

// begin starts the sweeps and the faults.
func (p *postOffice) begin() {
	p.w.After(mailSweep, p.sweep)
	p.w.After(p.rand.Spread(20*time.Minute, 4*time.Hour), p.leave)
	p.w.After(p.rand.Spread(20*time.Minute, 4*time.Hour), p.refuse)
}

// quiet reports whether faults have ended.
func (p *postOffice) quiet() bool { return p.w.Since() >= storm }

// leave kills the broker for a time that may be shorter or longer than the agents' patience.
func (p *postOffice) leave() {
	if p.quiet() {
		return
	}
	d := p.rand.Spread(time.Minute, 60*time.Minute)
	p.away = p.w.Now.Add(d)
	p.w.Count("broker away")
	p.w.Say("broker", "is away", d.Round(time.Second).String())
	for _, h := range p.w.hosts {
		h.crashFor(nil, d)
	}
	for _, fn := range events.Functions() {
		p.w.sky.Until[fn] = p.away.Add(mailFirst)
	}
	p.w.After(d+mailFirst, p.w.engine.pollAll)
	p.w.After(d+p.rand.Spread(20*time.Minute, 6*time.Hour), p.leave)
}

func (p *postOffice) refuse() {
	if p.quiet() {
		return
	}
	d := p.rand.Spread(10*time.Second, 15*time.Minute)
	p.down = p.w.Now.Add(d)
	p.w.Count("bucket refuses")
	p.w.After(d+p.rand.Spread(20*time.Minute, 3*time.Hour), p.refuse)
}

// endFaults ends all faults.
func (p *postOffice) endFaults() { p.down, p.away = time.Time{}, time.Time{} }

func (p *postOffice) refused() bool { return p.w.Now.Before(p.down) }
func (p *postOffice) isAway() bool  { return p.w.Now.Before(p.away) }

func (l *letter) name() string { return fmt.Sprintf("%s/%d", l.box.name, l.number) }

// write returns the message of a new call. It returns nil if the agent has no URL for it, which may happen only on a
// worker whose tasks make many calls at the same time: their agents share the worker's URLs, and wait for more until
// the broker has answered.
func (p *postOffice) write(m *machine, got any, body func(context.Context, *broker.Broker) error) *letter {
	of := m
	if m.on != nil { // the agents of a worker's tasks call through the worker
		of = m.on
	}
	name := of.ID
	if of.Cloud == apitypes.PoolCloud { // agents of different clusters may have the same ID
		name = of.Cluster + "@" + of.ID
	}
	b := p.boxes[name]
	if b == nil {
		b = &box{m: of, name: name, next: 1, have: slotsFirst}
		p.boxes[name] = b
		p.order = append(p.order, b)
	}
	b.pending = slices.DeleteFunc(b.pending, func(l *letter) bool { return l.taken })
	if b.next > b.have {
		p.w.Count("a call waits for a URL")
		callers := map[*machine]bool{}
		for _, l := range b.pending {
			callers[l.from] = true
		}
		if len(b.pending) < slotsFirst || len(b.pending) > callsMost*len(callers) {
			p.w.Violatef(check.InvMail, "%s has no URL for another letter: %d of %d agents are without an answer",
				name, len(b.pending), len(callers))
		}
		return nil
	}
	p.made++
	l := &letter{box: b, from: m, number: b.next, id: p.made, got: got, body: body}
	b.next++
	b.pending = append(b.pending, l)
	l.below = b.pending[0].number
	return l
}

// call waits for the answer to a message. It first writes the message if it is not in the bucket yet. done is called
// once.
func (p *postOffice) call(l *letter, connected bool, done func(error)) {
	ended := false
	l.wait = func(err error) {
		if !ended {
			ended = true
			l.wait = nil
			done(err)
		}
	}
	p.w.After(mailTimeout, func() {
		if !ended {
			l.wait(weather.ErrNetwork)
		}
	})
	if l.put {
		p.deliver(l)
		return
	}
	f := p.w.faults
	if !connected || p.refused() || p.rand.Chance(f.RequestLost) {
		return
	}
	l.put = !p.rand.Chance(f.AnswerLost) // else the agent puts it again, and the bucket refuses that
	if l.sent {
		return
	}
	l.sent, l.visible = true, p.w.Now
	if p.rand.Chance(f.RequestLate) {
		p.w.Count("late letter")
		l.visible = p.w.Now.Add(p.rand.Spread(callTimeout, 30*time.Minute))
	}
	p.letters[l.name()], l.box.clean = l, false
	p.lookAt(l, l.visible)
	if p.rand.Chance(f.Repeat) { // the network delivers the request to the bucket once more
		p.w.Count("repeated letter")
		p.w.After(p.rand.Spread(time.Second, 20*time.Minute), func() {
			if p.letters[l.name()] == nil {
				l.visible, p.letters[l.name()], l.box.clean = p.w.Now, l, false
				p.lookAt(l, p.w.Now)
			}
		})
	}
}

// lookAt plans when the broker reads a message.
func (p *postOffice) lookAt(l *letter, at time.Time) {
	p.w.At(at.Add(p.rand.Between(0, mailEvery)), func() { p.read(l) })
}

// read answers a message, if it still exists and the broker can.
func (p *postOffice) read(l *letter) {
	if p.letters[l.name()] != l || l.busy {
		return
	}
	h := p.w.anyHost()
	if h == nil || p.isAway() || p.refused() {
		p.lookAt(l, p.w.Now.Add(mailAgain))
		return
	}
	l.busy = true
	if p.w.opt.Break == breaks.Shredding {
		delete(p.letters, l.name())
	}
	err := weather.ErrNetwork
	p.w.start(h, "letter "+l.name(), func(ctx context.Context, b *broker.Broker) { err = l.body(ctx, b) },
		func(crashed bool) {
			if crashed {
				p.giveUp(l)
				return
			}
			p.answer(h, l, mailReply{l.id, err, p.w.Now})
		})
}

// giveUp makes a message unanswered again, because its answer was lost with the process that had it.
func (p *postOffice) giveUp(l *letter) {
	l.busy = false
	p.lookAt(l, p.w.Now.Add(mailAgain))
}

// answer writes an answer, and then removes its message.
func (p *postOffice) answer(h *host, l *letter, a mailReply) {
	switch {
	case !h.up || p.isAway():
		p.giveUp(l)
		return
	case p.refused():
		p.w.After(mailAgain, func() { p.answer(h, l, a) })
		return
	}
	p.answers[l.name()] = a
	l.busy, l.box.clean = false, false
	if l.box.have-l.number < slotsFirst {
		l.box.have = max(l.box.have, l.number+slotsMore)
	}
	if p.rand.Chance(p.w.faults.RequestLost) { // it stays, and is answered once more
		p.lookAt(l, p.w.Now.Add(mailAgain))
	} else {
		delete(p.letters, l.name())
	}
	p.w.After(p.rand.Between(0, mailEvery), func() { p.deliver(l) })
}

// deliver gives an agent the answer for which it waits.
func (p *postOffice) deliver(l *letter) {
	a, ok := p.answers[l.name()]
	if !ok || l.wait == nil || l.taken {
		return
	}
	if p.refused() || p.w.sky.Cut(l.box.m.ID) {
		p.w.After(mailAgain, func() { p.deliver(l) })
		return
	}
	if a.id != l.id {
		p.w.Violatef(check.InvMail, "%s gets the answer to another letter", l.name())
	}
	l.taken, l.written = true, a.at
	l.wait(a.err)
}

// sweep removes the answers that no agent needs, and all objects of machines that have ended.
func (p *postOffice) sweep() {
	p.w.After(mailSweep, p.sweep)
	p.checkLost()
	if p.refused() || p.isAway() || p.w.opt.Break == breaks.Littering {
		return
	}
	for _, b := range p.order {
		if b.clean {
			continue
		}
		gone := p.gone(b)
		for number := 1; number < b.next; number++ {
			if gone || number < b.below() {
				delete(p.answers, fmt.Sprintf("%s/%d", b.name, number))
			}
		}
		if !gone {
			continue
		}
		b.clean = true
		for _, l := range p.lettersOf(b) {
			if b.clean = b.clean && !l.busy; !l.busy {
				delete(p.letters, l.name())
			}
		}
	}
}

// below returns the lowest number whose answer is still needed, as far as the broker knows from the messages that it
// has read.
func (b *box) below() int {
	lowest := 0
	for _, l := range b.pending {
		lowest = max(lowest, l.below)
	}
	return lowest
}

// gone reports whether a box has not been needed for long enough: its cluster has no record.
func (p *postOffice) gone(b *box) bool {
	found, err := p.w.store.mem.Get(context.Background(), record.ClusterKey(b.m.Cluster))
	switch {
	case err != nil || len(found) > 0:
		b.over = time.Time{}
	case b.over.IsZero():
		b.over = p.w.Now
	}
	return !b.over.IsZero() && p.w.Now.Sub(b.over) >= mailKeep
}

func (p *postOffice) lettersOf(b *box) (all []*letter) {
	for _, name := range slices.Sorted(maps.Keys(p.letters)) {
		if l := p.letters[name]; l.box == b {
			all = append(all, l)
		}
	}
	return all
}

// checkLost checks that every message of a running agent is in the bucket until its answer is there.
func (p *postOffice) checkLost() {
	for _, b := range p.order {
		if !b.m.Speaks || b.clean || !b.over.IsZero() {
			continue
		}
		for _, l := range b.pending {
			_, answered := p.answers[l.name()]
			if l.sent && !l.taken && !l.busy && !answered && p.letters[l.name()] == nil {
				p.w.Violatef(check.InvMail, "letter %s was removed without an answer", l.name())
			}
		}
	}
}

// empty reports whether nothing is left in the bucket.
func (p *postOffice) empty() bool { return p == nil || len(p.letters)+len(p.answers) == 0 }

// checkEmpty checks at the end that nothing is left in the bucket.
func (p *postOffice) checkEmpty() {
	if !p.empty() {
		p.w.Violatef(check.InvMail, "%d letters and %d answers are left in the bucket", len(p.letters), len(p.answers))
	}
}
