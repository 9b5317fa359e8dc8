package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Unit is one load → decide → commit. It sees its own writes, so several events can share one transaction.
type Unit struct {
	Ctx     context.Context //nolint:containedctx // a unit lives for one call
	store   store.Store
	publish func(context.Context, []store.Event) error
	fn      string
	Now     time.Time
	*recordcache.Book
	Emits []store.Event
	Cause string // the event being handled
	Count int    // events emitted for it
	late  []func() error
	// Crowded means that the unit handles several events.
	Batched bool
	// Tries is how often this decision was made before and conflicted.
	Tries int
	known map[string]bool // names of late
	loops bool            // an event is for the function itself
}

// Full is how many items a shared transaction may hold before it is committed: one more event still fits below
// store.MaxItems.
const Full = 55

// Hooks are functions that a Transactor calls. Each may be nil.
type Hooks struct {
	// Publish puts events on the bus that are not committed with a record. If it fails, the caller handles their cause
	// again. If it is nil, these events are committed to the outbox.
	Publish func(context.Context, []store.Event) error
	// Done is called with each committed unit, Conflicted with each unit that has to be decided again.
	Done, Conflicted func(*Unit)
}

// Transactor makes units and commits them. It is safe for concurrent use.
type Transactor struct {
	Store  store.Store
	Config config.Config
	kept   *recordcache.Cache
	clock  func() time.Time
	hooks  Hooks
}

// blobCacheBytes is the maximum size of decoded specs and plans in the cache: several jobs of 10,000 tasks.
const blobCacheBytes = 32 << 20

// NewTransactor makes a transactor on a store that uses the given clock.
func NewTransactor(s store.Store, clock func() time.Time, cfg config.Config, hooks Hooks) *Transactor {
	return &Transactor{Store: s, Config: cfg, kept: recordcache.NewKept(blobCacheBytes), clock: clock, hooks: hooks}
}

// Done calls the hook for a committed unit.
func (b *Transactor) Done(u *Unit) {
	if b.hooks.Done != nil {
		b.hooks.Done(u)
	}
}

// Conflicted calls the hook for a unit that has to be decided again.
func (b *Transactor) Conflicted(u *Unit) {
	if b.hooks.Conflicted != nil {
		b.hooks.Conflicted(u)
	}
}

// Cache returns the process's cache of records.
func (b *Transactor) Cache() *recordcache.Cache { return b.kept }

// Share makes the transactor use a shared cache of decoded records. It must be called before anything is loaded.
func (b *Transactor) Share(d *recordcache.Decoded) { b.kept.Share(d) }

// Now returns the current time of the broker's clock, in UTC.
func (b *Transactor) Now() time.Time { return b.clock().UTC() }

// NewUnit begins a unit for a function.
func (b *Transactor) NewUnit(ctx context.Context, fn string) *Unit {
	return &Unit{
		Ctx: ctx, store: b.Store, publish: b.hooks.Publish, fn: fn, Now: b.Now(), Book: recordcache.New(b.kept),
		known: map[string]bool{},
	}
}

// Begin sets the event that the following decisions are made for.
func (u *Unit) Begin(cause string) { u.Cause, u.Count = cause, 0 }

// Spec implements reader.
func (u *Unit) Spec(j record.Job) (*dag.Job, error) { return cached[dag.Job](u, j.ID, j.Spec) }

// Plan implements reader.
func (u *Unit) Plan(j record.Job) (*record.Plan, error) { return cached[record.Plan](u, j.ID, j.Plan) }

// Bids implements reader.
func (u *Unit) Bids(j record.Job) (*record.Bids, error) { return cached[record.Bids](u, j.ID, j.Bids) }

// Preload loads several records in one call.
func (u *Unit) Preload(keys ...store.Key) error {
	missing := keys[:0:0]
	for _, k := range keys {
		if _, ok := u.Slots[k]; !ok {
			missing = append(missing, k)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	records, err := u.store.Get(u.Ctx, missing...)
	if err != nil {
		return err
	}
	for _, k := range missing {
		if _, twice := u.Slots[k]; !twice {
			u.Add(&recordcache.Slot{Key: k})
		}
	}
	for _, r := range records {
		s := u.Slots[r.Key]
		s.Base, s.Body, s.Expires = r.Version, r.Body, r.Expires
	}
	return nil
}

// Find implements reader.
func (u *Unit) Find(key store.Key) (*recordcache.Slot, error) {
	if err := u.Preload(key); err != nil {
		return nil, err
	}
	return u.Slots[key], nil
}

// FindAll implements reader. The result includes the unit's own writes.
func (u *Unit) FindAll(r recordcache.Span) ([]*recordcache.Slot, error) {
	if err := u.loadSpan(r); err != nil {
		return nil, err
	}
	return recordcache.InSpan(u.Order, r), nil
}

// loadSpan loads the records of a partition that have a prefix.
func (u *Unit) loadSpan(r recordcache.Span) error {
	u.AddSpan(r)
	after := ""
	for {
		records, more, err := u.store.Query(u.Ctx, r.Partition, r.Prefix, store.Page{After: after, Limit: r.Limit})
		if err != nil {
			return err
		}
		for _, x := range records {
			after = x.Key.Sort
			if _, ok := u.Slots[x.Key]; !ok {
				u.Add(&recordcache.Slot{Key: x.Key, Base: x.Version, Body: x.Body, Expires: x.Expires})
			}
		}
		if !more || r.Limit > 0 && len(records) >= r.Limit {
			return nil
		}
	}
}

// Apply adds a decision to the unit.
func (u *Unit) Apply(d record.Decision) error {
	for _, w := range d.Writes {
		var replaced []byte
		if s := u.Slots[w.Key]; s != nil {
			replaced = s.Body
		}
		body, err := u.Kept.Encode(w, replaced)
		if err != nil {
			return err
		}
		u.write(w.Key, body, w.Expires)
	}
	for _, key := range d.Holds {
		if s, ok := u.Slots[key]; ok {
			s.Held = true
		}
	}
	for _, key := range d.Touches {
		if s, ok := u.Slots[key]; ok {
			s.Dirty = true
		}
	}
	for _, data := range d.Emits {
		if err := u.Emit(data); err != nil {
			return err
		}
	}
	return nil
}

func (u *Unit) write(key store.Key, body []byte, expires time.Time) {
	s, ok := u.Slots[key]
	if !ok {
		s = u.Unread(key)
		u.Add(s)
	}
	s.Body, s.Expires, s.Dirty = body, expires, true
}

// Emit adds an event. Its ID is derived from its cause and content, so repeating the same decision emits the same
// event, and another decision emits another event.
func (u *Unit) Emit(data events.Data) error {
	content, err := json.Marshal(data)
	if err != nil {
		return err
	}
	id := record.ShortHash(u.fn, u.Cause, strconv.Itoa(u.Count), string(content))
	u.Count++
	u.loops = u.loops || slices.Contains(events.Routes()[data.Type()], u.fn)
	body, err := events.New(id, "tradewind/"+u.fn, u.Now, data).MarshalJSON()
	if err != nil {
		return err
	}
	u.Emits = append(u.Emits, store.Event{ID: id, Body: body})
	return nil
}

// Finally runs f once before the commit, however often it is called with the same name.
func (u *Unit) Finally(name string, f func() error) {
	if !u.known[name] {
		u.known[name] = true
		u.late = append(u.late, f)
	}
}

// Items returns the number of items that a commit would hold.
func (u *Unit) Items() int {
	return len(u.Emits) + u.Written()
}

// Room reports whether a commit has room for more items. The room shrinks with each conflict: a transaction over many
// records that change all the time would always conflict.
func (u *Unit) Room(items int) bool {
	return u.Items()+items < store.MaxItems>>min(u.Tries, 8)
}

// commit writes everything or nothing. It fails with store.ErrConflict if a record to write has changed since it was
// loaded. An event to the function itself is always written: AWS Lambda drops the invocations of a function that sends
// itself one message after another, but a table's stream begins a new chain.
func (u *Unit) commit() error {
	tx := store.Tx{Events: u.Emits}
	for _, s := range u.Order {
		if w, ok := s.ToWrite(); ok {
			tx.Writes = append(tx.Writes, w)
		}
	}
	switch {
	case len(tx.Writes)+len(tx.Events) == 0:
		return nil
	case len(tx.Writes) == 0 && u.publish != nil && !u.loops:
		return u.publish(u.Ctx, tx.Events)
	}
	return u.store.Commit(u.Ctx, tx)
}

// maxConflicts is how often a unit is tried again before the event goes back to its queue.
const maxConflicts = 50

// Transact runs decide in a new unit and commits it, and repeats both on conflicts. If decide fails with ErrFinal, it
// is repeated once: it may have read two records at different moments, which no commit has checked. If seen is true,
// the unit also marks the event cause as handled by fn, and does nothing if it is already marked.
func (b *Transactor) Transact(ctx context.Context, fn, cause string, seen bool, decide func(*Unit) error) error {
	refused := false
	for tries := range maxConflicts {
		u := b.NewUnit(ctx, fn)
		u.Begin(cause)
		u.Tries = tries
		if seen {
			if again, err := u.MarkSeen(cause, b.Config.SeenFor); err != nil || again {
				return err
			}
		}
		err := decide(u)
		if errors.Is(err, record.ErrSkip) {
			return nil
		}
		if err == nil {
			err = u.Finish()
		}
		if final := errors.Is(err, record.ErrFinal); errors.Is(err, store.ErrConflict) || final && !refused {
			refused = refused || final
			b.Conflicted(u)
			continue
		}
		if err == nil {
			b.Done(u)
		}
		return err
	}
	return fmt.Errorf("broker: %s of %s: %w", fn, cause, store.ErrConflict)
}

// MarkSeen writes the marker of an event; again is true if the marker already existed.
func (u *Unit) MarkSeen(event string, keep time.Duration) (again bool, err error) {
	key := record.SeenKey(u.fn, event)
	if err := u.Preload(key); err != nil {
		return false, err
	}
	if u.Slots[key].Body != nil {
		return true, nil
	}
	body, err := json.Marshal(record.Seen{At: u.Now})
	if err != nil {
		return false, err
	}
	u.write(key, body, u.Now.Add(keep))
	return false, nil
}

// WasSeen reports whether an event has been marked as handled.
func (u *Unit) WasSeen(event string) (bool, error) {
	key := record.SeenKey(u.fn, event)
	if err := u.Preload(key); err != nil {
		return false, err
	}
	return u.Slots[key].Body != nil, nil
}

// Finish runs the functions passed to Finally, then commits.
func (u *Unit) Finish() error {
	for _, f := range u.late {
		if err := f(); err != nil {
			return err
		}
	}
	return u.commit()
}
