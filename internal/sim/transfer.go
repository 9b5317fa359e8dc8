package sim

import (
	"context"
	"errors"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// transfer moves one object from a machine to the store: in one request or in parts, each of which needs a grant. If
// the store refuses a grant, the agent requests a new one, like the real agent.
type transfer struct {
	r      *run
	uri    string
	parts  int    // 0 is a small object, in one request
	upload string // of parts
	grants []grant.Grant
	sent   int // parts that have arrived
	done   func()
}

// shareLarge is the fraction of objects that are sent in parts, of at most mostParts.
const (
	shareLarge = 0.4
	mostParts  = 4
)

// keep sends an object, and calls done when it is stored.
func (r *run) keep(uri string, done func()) {
	w := r.a.w
	t := &transfer{r: r, uri: uri, done: done}
	if w.opt.Break == breaks.Hasty { // it reports success when it has only started
		t.done = func() {}
		defer done()
	}
	if w.rand.grant.Chance(shareLarge) {
		t.parts = 1 + w.rand.grant.IntN(mostParts)
		t.begin()
		return
	}
	t.ask()
}

// begin begins an upload. If the answer is lost, begin begins another one, and the broker aborts the first.
func (t *transfer) begin() {
	callFor(t.r.a, "begin upload", func(ctx context.Context, b *broker.Broker) (name string, err error) {
		began := t.r.a.w.Steps
		c := t.r.claims()
		if name, err = b.Agents.BeginUpload(ctx, c, t.uri); err == nil {
			t.r.a.w.check.Granted(&t.r.a.m.Machine, attemptOf(c), "write", t.uri, began)
		}
		return name, err
	}, func(name string) {
		t.upload = name
		t.ask()
	})
}

// wants returns the grants for the remaining data.
func (t *transfer) wants() []grant.Want {
	if t.parts == 0 {
		return []grant.Want{{Op: grant.Put, URI: t.uri, Size: 1}}
	}
	var out []grant.Want
	for n := t.sent + 1; n <= t.parts; n++ {
		out = append(out, grant.Want{Op: grant.Part, URI: t.uri, Size: 1, Upload: t.upload, Number: n})
	}
	return out
}

func (t *transfer) ask() {
	t.r.ask("write", t.wants(), func(g []grant.Grant) {
		t.grants = g
		t.send()
	})
}

// send sends the next part, or the whole object.
func (t *transfer) send() {
	w, store := t.r.a.w, t.r.a.w.objects
	if len(t.grants) == 0 {
		t.complete()
		return
	}
	g := t.grants[0]
	switch store.begins(g) {
	case refused:
		t.r.later(w.rand.grant.Spread(time.Second, 10*time.Second), t.ask)
		return
	case missing: // its attempt has finished, as the agent learns from its next call
		t.r.later(time.Second, t.ask)
		return
	default:
	}
	t.r.later(w.bodyTakes(), func() {
		if store.ends(g, t.r.a.m) == missing {
			t.ask()
			return
		}
		t.sent++
		t.grants = t.grants[1:]
		t.send()
	})
}

func (t *transfer) complete() {
	if t.parts == 0 {
		t.done()
		return
	}
	parts := make([]grant.Uploaded, t.parts)
	for i := range parts {
		parts[i].Number = i + 1
	}
	t.r.a.call("complete upload", func(ctx context.Context, b *broker.Broker) error {
		began := t.r.a.w.Steps
		err := b.Agents.EndUpload(ctx, t.r.claims(), t.uri, t.upload, parts)
		if errors.Is(err, grant.ErrUpload) {
			t.r.a.w.check.Denied(&t.r.a.m.Machine, t.uri, began)
			return record.ErrGone
		}
		return err
	}, func() { t.done() })
}

// ask asks the broker for grants.
func (r *run) ask(what string, wants []grant.Want, done func([]grant.Grant)) {
	w, m := r.a.w, r.a.m
	callFor(r.a, "grant", func(ctx context.Context, b *broker.Broker) ([]grant.Grant, error) {
		began := w.Steps
		c := r.claims()
		got, err := w.grant(ctx, b, c, wants)
		if err == nil {
			for _, want := range wants {
				w.check.Granted(&m.Machine, attemptOf(c), what, want.URI, began)
			}
		}
		return got, err
	}, func(got []grant.Grant) {
		if r.alive() {
			done(got)
		}
	})
}

// grant requests grants from the broker. With an injected bug, it grants requests that the broker refuses.
func (w *world) grant(ctx context.Context, b *broker.Broker, c wire.Claims, wants []grant.Want) ([]grant.Grant, error) {
	got, err := b.Agents.Grant(ctx, c, wants...)
	if err != nil && (w.opt.Break == breaks.Generous && errors.Is(err, grant.ErrOutside) ||
		w.opt.Break == breaks.Lasting && errors.Is(err, record.ErrGone)) {
		for i := range wants {
			wants[i].For = w.cfg.GrantFor
		}
		return w.objects.Sign(ctx, wants...)
	}
	return got, err
}

// requestForeignGrant makes an agent request grants for objects of another attempt or node.
func (r *run) requestForeignGrant() {
	w := r.a.w
	other := r.object(wire.OutputPrefix(r.work.Prefix, r.work.Attempt+"0")+"0", "data")
	if w.rand.grant.Chance(0.5) {
		other = r.object(wire.OutputPrefix(r.work.Prefix, r.work.Attempt), "99/data")
	}
	r.a.call("grant", func(ctx context.Context, b *broker.Broker) error {
		began := w.Steps
		_, err := w.grant(ctx, b, r.claims(), []grant.Want{{Op: grant.Put, URI: other, Size: 1}})
		if errors.Is(err, grant.ErrOutside) {
			return nil
		}
		if err == nil {
			w.check.Granted(&r.a.m.Machine, r.work.Attempt, "write", other, began)
		}
		return err
	}, func() {})
}

// fetch reads objects, then calls done. Each object must exist completely.
func (r *run) fetch(uris []string, done func()) {
	if len(uris) == 0 || r.work.Run == "" { // a stand-in reads nothing
		done()
		return
	}
	wants := make([]grant.Want, len(uris))
	for i, uri := range uris {
		wants[i] = grant.Want{Op: grant.Get, URI: uri}
	}
	r.ask("read", wants, func(grants []grant.Grant) { r.read(uris, grants, done) })
}

func (r *run) read(uris []string, grants []grant.Grant, done func()) {
	w := r.a.w
	if len(grants) == 0 {
		done()
		return
	}
	switch w.objects.begins(grants[0]) {
	case refused:
		r.later(w.rand.grant.Spread(time.Second, 10*time.Second), func() { r.fetch(uris, done) })
	case missing:
		w.check.Absent(&r.a.m.Machine, uris[0])
	default:
		r.later(w.bodyTakes(), func() { r.read(uris[1:], grants[1:], done) })
	}
}
