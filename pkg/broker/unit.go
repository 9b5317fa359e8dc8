package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Decision is what a decide function wants written and told.
type Decision struct {
	Writes []Write
	Emits  []events.Data
	// Holds are records that must not have changed since they were loaded, though they are not written.
	Holds []store.Key
}

// Write is one record of a decision; a nil Value deletes it.
type Write struct {
	Key     store.Key
	Value   any
	Expires time.Time
}

// put adds a record.
func (d *Decision) put(key store.Key, value any) {
	d.Writes = append(d.Writes, Write{Key: key, Value: value})
}

// del removes a record.
func (d *Decision) del(key store.Key) { d.Writes = append(d.Writes, Write{Key: key}) }

// hold makes the decision void when a record has changed.
func (d *Decision) hold(key store.Key) { d.Holds = append(d.Holds, key) }

// emit adds an event.
func (d *Decision) emit(data ...events.Data) { d.Emits = append(d.Emits, data...) }

// unit is one load → decide → commit. It sees its own writes, so that several events can share
// one transaction.
type unit struct {
	ctx   context.Context //nolint:containedctx // a unit lives for one call
	store store.Store
	fn    string
	now   time.Time
	*book
	emits []store.Event
	cause string // the event being handled
	count int    // events emitted for it
	late  []func() error
	// crowded says that it handles several events.
	crowded bool
	known   map[string]bool // names of late
}

// Transactor makes units and commits them. It is safe for concurrent use.
type Transactor struct {
	store store.Store
	kept  *kept
	clock func() time.Time
	// seenFor is how long a handled event is remembered: longer than any queue redelivers.
	seenFor time.Duration
	// committed and conflicted are told of each unit that was committed, and of each that has to be decided again.
	committed, conflicted func(*unit)
}

// now is the moment by the broker's clock, in UTC.
func (b *Transactor) now() time.Time { return b.clock().UTC() }

// newUnit begins a unit of a function.
func (b *Transactor) newUnit(ctx context.Context, fn string) *unit {
	return &unit{
		ctx: ctx, store: b.store, fn: fn, now: b.now(), book: newBook(b.kept), known: map[string]bool{},
	}
}

// begin names the event that what follows is decided for.
func (u *unit) begin(cause string) { u.cause, u.count = cause, 0 }

// spec implements reader.
func (u *unit) spec(j Job) (*dag.Job, error) { return cached[dag.Job](u, j.ID, j.Spec) }

// plan implements reader.
func (u *unit) plan(j Job) (*Plan, error) { return cached[Plan](u, j.ID, j.Plan) }

// bids implements reader.
func (u *unit) bids(j Job) (*Bids, error) { return cached[Bids](u, j.ID, j.Bids) }

// preload loads several records in one call.
func (u *unit) preload(keys ...store.Key) error {
	missing := keys[:0:0]
	for _, k := range keys {
		if _, ok := u.slots[k]; !ok {
			missing = append(missing, k)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	records, err := u.store.Get(u.ctx, missing...)
	if err != nil {
		return err
	}
	for _, k := range missing {
		if _, twice := u.slots[k]; !twice {
			u.add(&slot{key: k})
		}
	}
	for _, r := range records {
		s := u.slots[r.Key]
		s.base, s.body, s.expires = r.Version, r.Body, r.Expires
	}
	return nil
}

// find implements reader.
func (u *unit) find(key store.Key) (*slot, error) {
	if err := u.preload(key); err != nil {
		return nil, err
	}
	return u.slots[key], nil
}

// findAll implements reader: with the unit's own writes.
func (u *unit) findAll(r span) ([]*slot, error) {
	if err := u.loadSpan(r); err != nil {
		return nil, err
	}
	return inSpan(u.order, r), nil
}

// loadSpan loads the records of a partition by prefix.
func (u *unit) loadSpan(r span) error {
	u.spans[r] = true
	after := ""
	for {
		records, more, err := u.store.Query(u.ctx, r.partition, r.prefix, store.Page{After: after, Limit: r.limit})
		if err != nil {
			return err
		}
		for _, x := range records {
			after = x.Key.Sort
			if _, ok := u.slots[x.Key]; !ok {
				u.add(&slot{key: x.Key, base: x.Version, body: x.Body, expires: x.Expires})
			}
		}
		if !more || r.limit > 0 && len(records) >= r.limit {
			return nil
		}
	}
}

// apply takes a decision into the unit.
func (u *unit) apply(d Decision) error {
	for _, w := range d.Writes {
		var body []byte
		if w.Value != nil {
			var err error
			if body, err = json.Marshal(w.Value); err != nil {
				return fmt.Errorf("broker: record %s: %w", w.Key, err)
			}
		}
		u.write(w.Key, body, w.Expires)
	}
	for _, key := range d.Holds {
		if s, ok := u.slots[key]; ok {
			s.held = true
		}
	}
	for _, data := range d.Emits {
		if err := u.emit(data); err != nil {
			return err
		}
	}
	return nil
}

func (u *unit) write(key store.Key, body []byte, expires time.Time) {
	s, ok := u.slots[key]
	if !ok {
		s = &slot{key: key, blind: true}
		u.add(s)
	}
	s.body, s.expires, s.dirty = body, expires, true
}

// emit adds an event. Its ID follows from its cause and its content, so that deciding the same again emits the same event
// again, and deciding otherwise another one.
func (u *unit) emit(data events.Data) error {
	content, err := json.Marshal(data)
	if err != nil {
		return err
	}
	id := shortHash(u.fn, u.cause, strconv.Itoa(u.count), string(content))
	u.count++
	body, err := events.New(id, "tradewind/"+u.fn, u.now, data).MarshalJSON()
	if err != nil {
		return err
	}
	u.emits = append(u.emits, store.Event{ID: id, Body: body})
	return nil
}

// finally runs f once before the commit, however many events asked for it by the same name.
func (u *unit) finally(name string, f func() error) {
	if !u.known[name] {
		u.known[name] = true
		u.late = append(u.late, f)
	}
}

// items counts what a commit would hold.
func (u *unit) items() int {
	return len(u.emits) + u.written()
}

// commit writes all of it or nothing. It fails with store.ErrConflict when a record that was
// written had changed since it was loaded.
func (u *unit) commit() error {
	tx := store.Tx{Events: u.emits}
	for _, s := range u.order {
		if w, ok := s.toWrite(); ok {
			tx.Writes = append(tx.Writes, w)
		}
	}
	if len(tx.Writes)+len(tx.Events) == 0 {
		return nil
	}
	return u.store.Commit(u.ctx, tx)
}

func (s *slot) toWrite() (store.Write, bool) {
	if s.held && !s.dirty {
		return store.Write{Op: store.Check, Key: s.key, Expect: s.base}, true
	}
	w := store.Write{Op: store.Put, Key: s.key, Expect: s.base, Body: s.body, Expires: s.expires}
	if s.blind {
		w.Expect = store.Any
	}
	if s.body == nil {
		w.Op = store.Delete
		if s.base == store.Absent && !s.blind {
			return w, false // made and removed within the unit
		}
	}
	return w, s.dirty
}

// errSkip ends a unit without a commit: there was nothing to do.
var errSkip = errors.New("broker: nothing to do")

// maxConflicts is how often a unit is tried again before the event goes back to its queue.
const maxConflicts = 50

// transact runs decide in a fresh unit and commits it, again and again while it conflicts. When seen
// is not empty the unit also marks that event as handled by fn, and does nothing when it is already.
func (b *Transactor) transact(ctx context.Context, fn, cause string, seen bool, decide func(*unit) error) error {
	for range maxConflicts {
		u := b.newUnit(ctx, fn)
		u.begin(cause)
		if seen {
			if again, err := u.markSeen(cause, b.seenFor); err != nil || again {
				return err
			}
		}
		err := decide(u)
		if errors.Is(err, errSkip) {
			return nil
		}
		if err != nil {
			return err
		}
		err = u.finish()
		if errors.Is(err, store.ErrConflict) {
			b.conflicted(u)
			continue
		}
		if err == nil {
			b.committed(u)
		}
		return err
	}
	return fmt.Errorf("broker: %s of %s: %w", fn, cause, store.ErrConflict)
}

// markSeen writes the marker of an event; again says that it was there before.
func (u *unit) markSeen(event string, keep time.Duration) (again bool, err error) {
	key := seenKey(u.fn, event)
	if err := u.preload(key); err != nil {
		return false, err
	}
	if u.slots[key].body != nil {
		return true, nil
	}
	body, err := json.Marshal(Seen{At: u.now})
	if err != nil {
		return false, err
	}
	u.write(key, body, u.now.Add(keep))
	return false, nil
}

// finish runs what was put off, then commits.
func (u *unit) finish() error {
	for _, f := range u.late {
		if err := f(); err != nil {
			return err
		}
	}
	return u.commit()
}
