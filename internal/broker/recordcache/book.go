package recordcache

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Reader is the source of records for a decision: a unit, which uses the store, or a draft, which does not.
type Reader interface {
	// Preload reads several records at once.
	Preload(keys ...store.Key) error
	// Find returns a record. Its body is nil if the record does not exist.
	Find(key store.Key) (*Slot, error)
	// FindAll returns the existing records of a span, by key.
	FindAll(r Span) ([]*Slot, error)
	// Cache returns the process's cache of blobs and decoded records.
	Cache() *Cache
	// Spec, Plan and Bids return immutable blobs of a job. They are shared: the caller must not change them.
	Spec(j record.Job) (*dag.Job, error)
	Plan(j record.Job) (*record.Plan, error)
	Bids(j record.Job) (*record.Bids, error)
}

// Slot is a record as a unit sees it: first as loaded, and then as changed by decisions.
type Slot struct {
	Key     store.Key
	Base    store.Version // as loaded
	Body    []byte        // nil when absent
	Expires time.Time
	Dirty   bool
	Blind   bool // written without being loaded before
	Held    bool // must not have changed
}

// Book is the known part of the store: records by key and in the order in which they were added, complete spans, and
// blobs.
type Book struct {
	Slots map[store.Key]*Slot
	Order []*Slot
	Spans map[Span]bool
	Kept  *Cache
	blobs map[record.BlobKey]any
}

// New makes an empty book with a process's cache.
func New(k *Cache) *Book {
	return &Book{Slots: map[store.Key]*Slot{}, Kept: k}
}

// Add adds a record that is not known yet.
func (k *Book) Add(s *Slot) {
	k.Slots[s.Key] = s
	k.Order = append(k.Order, s)
}

// AddSpan records that all records of a span are known.
func (k *Book) AddSpan(r Span) {
	if k.Spans == nil {
		k.Spans = map[Span]bool{}
	}
	k.Spans[r] = true
}

// Blob returns a blob that was read, or nil. The book keeps each blob that was requested once, even if the cache
// drops it. So a repeated decision finds everything that was loaded for it.
func (k *Book) Blob(key record.BlobKey) any {
	if v, ok := k.blobs[key]; ok {
		return v
	}
	v := k.Kept.Blobs.Get(key)
	if v != nil {
		k.keepBlob(key, v)
	}
	return v
}

func (k *Book) keepBlob(key record.BlobKey, value any) {
	if k.blobs == nil {
		k.blobs = map[record.BlobKey]any{}
	}
	k.blobs[key] = value
}

// AddBlob adds a blob.
func (k *Book) AddBlob(key record.BlobKey, value any) {
	k.keepBlob(key, value)
	k.Kept.Blobs.Put(key, value, sizeOf(value))
}

// Seed adds a record that was read elsewhere, if the book does not have it. A write of it is conditional on that
// version.
func (k *Book) Seed(r store.Record) {
	if _, known := k.Slots[r.Key]; !known {
		k.Add(&Slot{Key: r.Key, Base: r.Version, Body: r.Body})
	}
}

// Reseed updates a record that was read elsewhere, unless it is to be written or held in the version that the book
// has.
func (k *Book) Reseed(r store.Record) {
	if s := k.Slots[r.Key]; s != nil && !s.Dirty && !s.Held {
		s.Base, s.Body = r.Version, r.Body
		return
	}
	k.Seed(r)
}

// change is a record that is written, or that must not have changed at the commit.
type change struct {
	store.Record      // the new record, with the Version of the loaded one
	Written      bool // otherwise the record is only held
	Blind        bool // written without being loaded before
}

// Unread returns a slot for a record that is written without a read. If the book has a complete span that would
// contain the record, the record does not exist. The write then requires its absence, so that it does not overwrite a
// concurrent write.
func (k *Book) Unread(key store.Key) *Slot {
	for r := range k.Spans {
		if r.Limit == 0 && r.Partition == key.Partition && strings.HasPrefix(key.Sort, r.Prefix) {
			return &Slot{Key: key, Base: store.Absent}
		}
	}
	return &Slot{Key: key, Blind: true}
}

// Changes yields the records that a commit would write or hold, in the order in which they were added.
func (k *Book) Changes(yield func(change) bool) {
	for _, s := range k.Order {
		if !s.Dirty && !s.Held {
			continue
		}
		r := store.Record{Key: s.Key, Version: s.Base, Body: s.Body, Expires: s.Expires}
		if !yield(change{Record: r, Written: s.Dirty, Blind: s.Blind}) {
			return
		}
	}
}

// Knows reports whether the book has a slot for a record: its content, or the fact that it does not exist.
func (k *Book) Knows(key store.Key) bool { return k.Slots[key] != nil }

// Size is the size of a known record in bytes.
func (k *Book) Size(key store.Key) int {
	if s := k.Slots[key]; s != nil {
		return len(s.Body)
	}
	return 0
}

// Written counts the records that a commit would write or hold.
func (k *Book) Written() (n int) {
	for range k.Changes {
		n++
	}
	return n
}

// Span is a part of a partition: the records whose sort keys have a prefix, at most Limit of them (0 means all).
type Span struct {
	Partition, Prefix string
	Limit             int
}

// Cache implements Reader.
func (k *Book) Cache() *Cache { return k.Kept }

// Get reads a record. The caller owns the result.
func Get[T any](r Reader, key store.Key) (value T, found bool, err error) {
	s, err := r.Find(key)
	if err != nil || s.Body == nil {
		return value, false, err
	}
	value, err = Decode[T](r.Cache().records, s.Key, s.Body)
	return value, err == nil, err
}

// List reads the records of a partition by prefix, at most limit of them (0 means all).
func List[T any](r Reader, partition, prefix string, limit int) ([]T, error) {
	found, err := r.FindAll(Span{partition, prefix, limit})
	if err != nil {
		return nil, err
	}
	out := make([]T, len(found))
	for i, s := range found {
		if out[i], err = Decode[T](r.Cache().records, s.Key, s.Body); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Look is Get for a read-only caller: the result is shared and must not be changed.
func Look[T any](r Reader, key store.Key) (value *T, found bool, err error) {
	s, err := r.Find(key)
	if err != nil || s.Body == nil {
		return nil, false, err
	}
	value, err = Shared[T](r.Cache().records, s.Key, s.Body)
	return value, err == nil, err
}

// InSpan returns those slots that have an existing record of a span, by key.
func InSpan(slots []*Slot, r Span) []*Slot {
	var found []*Slot
	for _, s := range slots {
		if s.Key.Partition == r.Partition && s.Body != nil && strings.HasPrefix(s.Key.Sort, r.Prefix) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *Slot) int { return cmp.Compare(a.Key.Sort, b.Key.Sort) })
	if r.Limit > 0 && len(found) > r.Limit {
		found = found[:r.Limit]
	}
	return found
}

// Encode encodes a record for the store. It returns nil for a record to be removed. It keeps members of the replaced
// record that this version does not know. It also caches the value for the next reader.
func (k *Cache) Encode(w record.Write, replaced []byte) ([]byte, error) {
	if w.Value == nil {
		return nil, nil
	}
	body, err := json.Marshal(w.Value)
	if err != nil {
		return nil, fmt.Errorf("broker: record %s: %w", w.Key, err)
	}
	if _, foreign := k.records.foreign.Load(w.Key); foreign && replaced != nil {
		if body, err = own.carry(reflect.TypeOf(w.Value), replaced, body); err != nil {
			return nil, fmt.Errorf("broker: record %s: %w", w.Key, err)
		}
	}
	if k.records.older != nil {
		return k.records.older.rewrite(reflect.TypeOf(w.Value), body)
	}
	k.records.putWritten(w.Key, body, w.Value)
	return body, nil
}

// Draft is a decision in progress. It reads the records that a unit has loaded and those that it has written itself,
// and never uses the store. If a record is missing, it notes that and fails with ErrMissing. The decision is then
// discarded, and repeated when all missing records have been loaded at once. So a decision that cannot know in
// advance which records it will read is still pure, and needs few batches of reads.
type Draft struct {
	Now     time.Time
	Crowded bool // the unit handles several events
	*Book        // the records that the unit has loaded
	own     map[store.Key]*Slot
	Changed []*Slot // of own, in order
	Emits   []events.Data
	count   int // items that the unit would commit
	Missing Missing
}

// ErrMissing means that a draft has noted a missing record. A loop should then continue with its next element, so
// that all missing records are noted.
var ErrMissing = errors.New("broker: not loaded yet")

// Missing lists the records that a draft has tried to read but that were not loaded.
type Missing struct {
	Keys  []store.Key
	Spans []Span
	Blobs []MissingBlob
	Pools bool
	Fresh []string // pools that must be read again
}

// MissingBlob is a blob of a job.
type MissingBlob struct {
	Ref record.Blob
	Job record.Job
}

// Any reports whether anything was missing.
func (l *Missing) Any() bool {
	return len(l.Keys)+len(l.Spans)+len(l.Blobs)+len(l.Fresh) > 0 || l.Pools
}

// NewDraft starts a decision on the loaded records, for a transaction that already has the given number of items.
func NewDraft(k *Book, now time.Time, items int) *Draft {
	return &Draft{Now: now, Book: k, own: map[store.Key]*Slot{}, count: items}
}

// slot returns a record as the draft sees it, or nil if it is not loaded.
func (d *Draft) slot(key store.Key) *Slot {
	if s, ok := d.own[key]; ok {
		return s
	}
	return d.Slots[key]
}

// Find implements Reader.
func (d *Draft) Find(key store.Key) (*Slot, error) {
	if s := d.slot(key); s != nil {
		return s, nil
	}
	if !slices.Contains(d.Missing.Keys, key) {
		d.Missing.Keys = append(d.Missing.Keys, key)
	}
	return nil, ErrMissing
}

// Preload implements Reader.
func (d *Draft) Preload(keys ...store.Key) (err error) {
	for _, key := range keys {
		if _, lacking := d.Find(key); lacking != nil {
			err = lacking
		}
	}
	return err
}

// FindAll implements Reader.
func (d *Draft) FindAll(r Span) ([]*Slot, error) {
	if !d.Spans[r] {
		if !slices.Contains(d.Missing.Spans, r) {
			d.Missing.Spans = append(d.Missing.Spans, r)
		}
		return nil, ErrMissing
	}
	slots := make([]*Slot, 0, len(d.Order)+len(d.Changed))
	for _, s := range d.Order {
		if _, ok := d.own[s.Key]; !ok {
			slots = append(slots, s)
		}
	}
	return InSpan(append(slots, d.Changed...), r), nil
}

// Spec implements Reader.
func (d *Draft) Spec(j record.Job) (*dag.Job, error) {
	return known[dag.Job](d, j, j.Spec)
}

// Plan implements Reader.
func (d *Draft) Plan(j record.Job) (*record.Plan, error) {
	return known[record.Plan](d, j, j.Plan)
}

// Bids implements Reader.
func (d *Draft) Bids(j record.Job) (*record.Bids, error) {
	return known[record.Bids](d, j, j.Bids)
}

// known returns a loaded blob. If it is missing, known notes that.
func known[T any](d *Draft, job record.Job, ref record.Blob) (*T, error) {
	if t, ok := d.Blob(ref.In(job.ID)).(*T); ok {
		return t, nil
	}
	if !slices.ContainsFunc(d.Missing.Blobs, func(l MissingBlob) bool { return l.Ref == ref }) {
		d.Missing.Blobs = append(d.Missing.Blobs, MissingBlob{ref, job})
	}
	return nil, ErrMissing
}

// Writes reports whether the unit or the draft writes a record.
func (d *Draft) Writes(key store.Key) bool {
	s := d.slot(key)
	return s != nil && s.Dirty
}

// Size is the size of a known record in bytes.
func (d *Draft) Size(key store.Key) int {
	if s := d.slot(key); s != nil {
		return len(s.Body)
	}
	return 0
}

// Items counts the items that the unit would commit.
func (d *Draft) Items() int { return d.count }

// Apply adds a decision to the draft.
func (d *Draft) Apply(x record.Decision) error {
	for _, w := range x.Writes {
		var replaced []byte
		if s := d.slot(w.Key); s != nil {
			replaced = s.Body
		}
		body, err := d.Kept.Encode(w, replaced)
		if err != nil {
			return err
		}
		s := d.ours(w.Key)
		d.counts(s)
		s.Body, s.Expires, s.Dirty = body, w.Expires, true
	}
	for _, key := range x.Holds {
		if d.slot(key) != nil {
			s := d.ours(key)
			d.counts(s)
			s.Held = true
		}
	}
	for _, key := range x.Touches {
		if d.slot(key) != nil {
			s := d.ours(key)
			d.counts(s)
			s.Dirty = true
		}
	}
	d.Emits = append(d.Emits, x.Emits...)
	d.count += len(x.Emits)
	return nil
}

// ours returns the draft's own copy of a slot.
func (d *Draft) ours(key store.Key) *Slot {
	s, ok := d.own[key]
	if !ok {
		if of := d.Slots[key]; of != nil {
			copied := *of
			s = &copied
		} else {
			s = d.Unread(key)
		}
		d.own[key] = s
		d.Changed = append(d.Changed, s)
	}
	return s
}

// counts counts a slot that is about to be written or held, unless it was counted before.
func (d *Draft) counts(s *Slot) {
	if !s.Dirty && !s.Held {
		d.count++
	}
}

// ToWrite returns the write that commits a record. ok is false if there is nothing to do.
func (s *Slot) ToWrite() (store.Write, bool) {
	if s.Held && !s.Dirty {
		return store.Write{Op: store.Check, Key: s.Key, Expect: s.Base}, true
	}
	w := store.Write{Op: store.Put, Key: s.Key, Expect: s.Base, Body: s.Body, Expires: s.Expires}
	if s.Blind {
		w.Expect = store.Any
	}
	if s.Body == nil {
		w.Op = store.Delete
		if s.Base == store.Absent && !s.Blind {
			return w, false // the unit created and removed it
		}
	}
	return w, s.Dirty
}
