package broker

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// reader is what a decision reads records from: a unit, which asks the store, or a draft, which does not.
type reader interface {
	// preload has several records read at once.
	preload(keys ...store.Key) error
	// find returns a record, one without a body where there is none.
	find(key store.Key) (*slot, error)
	// findAll returns the records of a span that are there, by key.
	findAll(r span) ([]*slot, error)
	// cache is what is kept of what was read.
	cache() *kept
	// spec, plan and bids return what never changes of a job. It is shared: it must not be changed.
	spec(j Job) (*dag.Job, error)
	plan(j Job) (*Plan, error)
	bids(j Job) (*Bids, error)
}

// slot is a record as a unit sees it: as loaded, then as decisions left it.
type slot struct {
	key     store.Key
	base    store.Version // as loaded
	body    []byte        // nil when absent
	expires time.Time
	dirty   bool
	blind   bool // written without having been loaded
	held    bool // must not have changed
}

// book is what is known of the store: records, by key and in the order in which they came, which spans are complete, and blobs.
type book struct {
	slots map[store.Key]*slot
	order []*slot
	spans map[span]bool
	kept  *kept
}

func newBook(k *kept) *book {
	return &book{slots: map[store.Key]*slot{}, spans: map[span]bool{}, kept: k}
}

func (k *book) add(s *slot) {
	k.slots[s.key] = s
	k.order = append(k.order, s)
}

// seed takes in a record as it was seen elsewhere, so that what is written there is on the condition that it is still so.
func (k *book) seed(r store.Record) {
	if _, known := k.slots[r.Key]; !known {
		k.add(&slot{key: r.Key, base: r.Version, body: r.Body})
	}
}

// change is a record that is written, or that must not have changed.
type change struct {
	store.Record      // as it will be; Version is the one it was loaded with
	written      bool // else it is only held
	blind        bool // written without having been loaded
}

// changes are the records that a commit would hold, in the order in which they came.
func (k *book) changes(yield func(change) bool) {
	for _, s := range k.order {
		if !s.dirty && !s.held {
			continue
		}
		r := store.Record{Key: s.key, Version: s.base, Body: s.body, Expires: s.expires}
		if !yield(change{Record: r, written: s.dirty, blind: s.blind}) {
			return
		}
	}
}

// knows says whether a record is known, be it that there is none.
func (k *book) knows(key store.Key) bool { return k.slots[key] != nil }

// size is how many bytes a record has that is known.
func (k *book) size(key store.Key) int {
	if s := k.slots[key]; s != nil {
		return len(s.body)
	}
	return 0
}

// written counts the records that a commit would hold.
func (k *book) written() (n int) {
	for range k.changes {
		n++
	}
	return n
}

// span is a part of a partition: the records whose sort keys begin with a prefix, at most limit (0 is all).
type span struct {
	partition, prefix string
	limit             int
}

// cache implements reader.
func (k *book) cache() *kept { return k.kept }

// get reads a record. What it returns is the caller's own.
func get[T any](r reader, key store.Key) (value T, found bool, err error) {
	s, err := r.find(key)
	if err != nil || s.body == nil {
		return value, false, err
	}
	value, err = decode[T](r.cache().records, s)
	return value, err == nil, err
}

// list reads the records of a partition by prefix, at most limit (0 is all).
func list[T any](r reader, partition, prefix string, limit int) ([]T, error) {
	found, err := r.findAll(span{partition, prefix, limit})
	if err != nil {
		return nil, err
	}
	out := make([]T, len(found))
	for i, s := range found {
		if out[i], err = decode[T](r.cache().records, s); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// inSpan are those of some slots that hold a record of a span, by key.
func inSpan(slots []*slot, r span) []*slot {
	var found []*slot
	for _, s := range slots {
		if s.key.Partition == r.partition && s.body != nil && strings.HasPrefix(s.key.Sort, r.prefix) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b *slot) int { return cmp.Compare(a.key.Sort, b.key.Sort) })
	if r.limit > 0 && len(found) > r.limit {
		found = found[:r.limit]
	}
	return found
}

// draft is a decision in the making. It reads what a unit has loaded and what it has written itself, and asks no store:
// what it lacks it notes, and fails with errLacking. A decision that lacked anything is thrown away, and made again when
// all that it lacked is loaded at once. So a decision that cannot say beforehand what it will look at is pure all the
// same, and reads a store in a few batches.
type draft struct {
	now     time.Time
	crowded bool // the unit handles several events
	*book        // what it reads
	own     map[store.Key]*slot
	mine    []*slot // of own, in order
	emits   []events.Data
	count   int // items that the unit would commit
	lack    lacking
}

// errLacking says that a draft has noted what it lacks. Whoever looks at many things goes on to the next, so that all that is lacking is noted.
var errLacking = errors.New("broker: not loaded yet")

// lacking is what a draft has looked for in vain.
type lacking struct {
	keys  []store.Key
	spans []span
	blobs []lackingBlob
	pools bool
}

// lackingBlob is a blob of a job.
type lackingBlob struct {
	ref Blob
	job Job
}

func (l *lacking) any() bool { return len(l.keys)+len(l.spans)+len(l.blobs) > 0 || l.pools }

// newDraft begins a decision on what is known, for a transaction that holds so many items.
func newDraft(k *book, now time.Time, items int) *draft {
	return &draft{now: now, book: k, own: map[store.Key]*slot{}, count: items}
}

// slot returns a record as the draft sees it; nil where it is not known.
func (d *draft) slot(key store.Key) *slot {
	if s, ok := d.own[key]; ok {
		return s
	}
	return d.slots[key]
}

// find implements reader.
func (d *draft) find(key store.Key) (*slot, error) {
	if s := d.slot(key); s != nil {
		return s, nil
	}
	if !slices.Contains(d.lack.keys, key) {
		d.lack.keys = append(d.lack.keys, key)
	}
	return nil, errLacking
}

// preload implements reader.
func (d *draft) preload(keys ...store.Key) (err error) {
	for _, key := range keys {
		if _, lacking := d.find(key); lacking != nil {
			err = lacking
		}
	}
	return err
}

// findAll implements reader.
func (d *draft) findAll(r span) ([]*slot, error) {
	if !d.spans[r] {
		if !slices.Contains(d.lack.spans, r) {
			d.lack.spans = append(d.lack.spans, r)
		}
		return nil, errLacking
	}
	slots := make([]*slot, 0, len(d.order)+len(d.mine))
	for _, s := range d.order {
		if _, ok := d.own[s.key]; !ok {
			slots = append(slots, s)
		}
	}
	return inSpan(append(slots, d.mine...), r), nil
}

// spec implements reader.
func (d *draft) spec(j Job) (*dag.Job, error) {
	return known[dag.Job](d, j, j.Spec)
}

// plan implements reader.
func (d *draft) plan(j Job) (*Plan, error) {
	return known[Plan](d, j, j.Plan)
}

// bids implements reader.
func (d *draft) bids(j Job) (*Bids, error) {
	return known[Bids](d, j, j.Bids)
}

// known returns a blob that was read before.
func known[T any](d *draft, job Job, ref Blob) (*T, error) {
	if t, ok := d.kept.blobs.get(ref.in(job.ID)).(*T); ok {
		return t, nil
	}
	if !slices.ContainsFunc(d.lack.blobs, func(l lackingBlob) bool { return l.ref == ref }) {
		d.lack.blobs = append(d.lack.blobs, lackingBlob{ref, job})
	}
	return nil, errLacking
}

// writes says whether the unit, or the draft, writes a record.
func (d *draft) writes(key store.Key) bool {
	s := d.slot(key)
	return s != nil && s.dirty
}

// size is how many bytes a record has that is known.
func (d *draft) size(key store.Key) int {
	if s := d.own[key]; s != nil {
		return len(s.body)
	}
	return d.book.size(key)
}

// items counts what a commit would hold.
func (d *draft) items() int { return d.count }

// apply takes a decision into the draft.
func (d *draft) apply(x Decision) error {
	for _, w := range x.Writes {
		var body []byte
		if w.Value != nil {
			var err error
			if body, err = json.Marshal(w.Value); err != nil {
				return fmt.Errorf("broker: record %s: %w", w.Key, err)
			}
		}
		s := d.ours(w.Key)
		d.counts(s)
		s.body, s.expires, s.dirty = body, w.Expires, true
	}
	for _, key := range x.Holds {
		if d.slot(key) != nil {
			s := d.ours(key)
			d.counts(s)
			s.held = true
		}
	}
	d.emits = append(d.emits, x.Emits...)
	d.count += len(x.Emits)
	return nil
}

// ours returns the draft's own copy of a slot.
func (d *draft) ours(key store.Key) *slot {
	s, ok := d.own[key]
	if !ok {
		s = &slot{key: key, blind: true}
		if of := d.slots[key]; of != nil {
			*s = *of
		}
		d.own[key] = s
		d.mine = append(d.mine, s)
	}
	return s
}

// counts counts a slot that is about to be written or held, unless it is counted.
func (d *draft) counts(s *slot) {
	if !s.dirty && !s.held {
		d.count++
	}
}
