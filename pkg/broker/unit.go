package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	json "github.com/go-json-experiment/json/v1"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
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

// slot is a record as the unit sees it: as loaded, then as decisions left it.
type slot struct {
	key     store.Key
	base    store.Version // as loaded
	body    []byte        // nil when absent
	expires time.Time
	dirty   bool
	blind   bool // written without having been loaded
	held    bool // must not have changed
}

// unit is one load → decide → commit. It sees its own writes, so that several events can share
// one transaction.
type unit struct {
	ctx   context.Context //nolint:containedctx // a unit lives for one call
	store store.Store
	fn    string
	now   time.Time
	slots map[store.Key]*slot
	order []*slot
	emits []store.Event
	cause string // the event being handled
	count int    // events emitted for it
	late  []func() error
	// crowded says that it handles several events.
	crowded bool
	known   map[string]bool // names of late
	decoded *decodedRecords
}

func (b *Broker) newUnit(ctx context.Context, fn string) *unit {
	return &unit{ctx: ctx, store: b.store, fn: fn, now: b.now(), slots: map[store.Key]*slot{}, known: map[string]bool{}, decoded: &b.decoded}
}

// begin names the event that what follows is decided for.
func (u *unit) begin(cause string) { u.cause, u.count = cause, 0 }

// preload loads several records in one call.
func (u *unit) preload(keys ...store.Key) error {
	missing := keys[:0:0]
	for _, k := range keys {
		if _, ok := u.slots[k]; !ok && !slices.Contains(missing, k) {
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
		u.add(&slot{key: k})
	}
	for _, r := range records {
		s := u.slots[r.Key]
		s.base, s.body, s.expires = r.Version, r.Body, r.Expires
	}
	return nil
}

func (u *unit) add(s *slot) {
	u.slots[s.key] = s
	u.order = append(u.order, s)
}

// get loads a record. What it returns is the caller's own.
func get[T any](u *unit, key store.Key) (value T, found bool, err error) {
	if err := u.preload(key); err != nil {
		return value, false, err
	}
	s := u.slots[key]
	if s.body == nil {
		return value, false, nil
	}
	value, err = decode[T](u, s)
	return value, err == nil, err
}

// list loads the records of a partition by prefix, at most limit (0 is all), with the unit's own writes.
func list[T any](u *unit, partition, prefix string, limit int) ([]T, error) {
	after := ""
	for {
		page := store.Page{After: after}
		if limit > 0 {
			page.Limit = limit
		}
		records, more, err := u.store.Query(u.ctx, partition, prefix, page)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			after = r.Key.Sort
			if _, ok := u.slots[r.Key]; !ok {
				u.add(&slot{key: r.Key, base: r.Version, body: r.Body, expires: r.Expires})
			}
		}
		if !more || limit > 0 && len(records) >= limit {
			break
		}
	}
	return overlay[T](u, partition, prefix, limit)
}

func overlay[T any](u *unit, partition, prefix string, limit int) ([]T, error) {
	var found []*slot
	for _, s := range u.order {
		if s.key.Partition == partition && s.body != nil && strings.HasPrefix(s.key.Sort, prefix) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *slot) int { return cmp.Compare(a.key.Sort, b.key.Sort) })
	if limit > 0 && len(found) > limit {
		found = found[:limit]
	}
	out := make([]T, len(found))
	for i, s := range found {
		var err error
		if out[i], err = decode[T](u, s); err != nil {
			return nil, err
		}
	}
	return out, nil
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
	n := len(u.emits)
	for _, s := range u.order {
		if s.dirty || s.held {
			n++
		}
	}
	return n
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
func (b *Broker) transact(ctx context.Context, fn, cause string, seen bool, decide func(*unit) error) error {
	for range maxConflicts {
		u := b.newUnit(ctx, fn)
		u.begin(cause)
		if seen {
			if again, err := u.markSeen(cause, b.cfg.SeenFor); err != nil || again {
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
			b.pools.conflicted(u)
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
