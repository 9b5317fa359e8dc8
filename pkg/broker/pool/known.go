package pool

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	json "github.com/go-json-experiment/json/v1"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// poolsKnown is what one process knows of the pools (ATC '21, §4): a view of every partition, each as old as the last
// time it was looked at. In each turn one of them is looked at anew, by a rotation that has no two processes look at
// the same one. Whoever takes a machine does so on the condition that its partition is as he has seen it: a view that
// is too old is found then, looked at anew, and the session decides again.
//
// It is a cache: without it the store is asked, and nothing else changes.
type poolsKnown struct {
	mu    sync.Mutex
	until time.Time // when to look again which pools there are
	pools []*poolKnown
}

// poolKnown is the view of one pool.
type poolKnown struct {
	record.Pool
	rotation  parsync.Rotation
	scheduler int
	turn      uint64
	turned    time.Time // when the last turn was
	looked    int       // how often a partition was looked at
	parts     []*partKnown
}

// partKnown is the view of one partition.
type partKnown struct {
	record.Partition
	record  store.Record // as it was; Version Absent where there is none
	seen    map[string]time.Time
	unknown bool // it is to be looked at before it is used
	looked  int  // when it was looked at, in the order of the pool's
	at      time.Time
}

// forget has the next session look which pools there are.
func (k *poolsKnown) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until = time.Time{}
}

// conflicted has the partitions of a transaction that failed looked at anew.
func (k *poolsKnown) conflicted(u *unit.Unit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pools) == 0 {
		return
	}
	for c := range u.Changes {
		if p := k.part(c.Key); p != nil {
			p.unknown = true
		}
	}
}

// committed takes over what this process itself has written.
func (k *poolsKnown) committed(u *unit.Unit) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pools) == 0 {
		return
	}
	for c := range u.Changes {
		p := k.part(c.Key)
		if p == nil || !c.Written {
			continue
		}
		c.Version++
		if c.Blind || c.Body == nil || p.take(c.Record) != nil {
			p.unknown = true
		}
	}
}

// part finds the view that a record belongs to, nil where it is none's.
func (k *poolsKnown) part(key store.Key) *partKnown {
	name, ok := strings.CutPrefix(key.Partition, record.PoolPart(""))
	number, found := strings.CutSuffix(key.Sort, "#"+record.PartitionSuffix)
	if !ok || !found {
		return nil
	}
	index, err := strconv.Atoi(number)
	for _, p := range k.pools {
		if p.Name == name && err == nil && index < len(p.parts) {
			return p.parts[index]
		}
	}
	return nil
}

// take takes over a record, unless a newer one is known.
func (p *partKnown) take(r store.Record) error {
	if r.Version < p.record.Version && !p.unknown {
		return nil
	}
	var part record.Partition
	if err := json.Unmarshal(r.Body, &part); err != nil {
		return fmt.Errorf("broker: record %s: %w", r.Key, err)
	}
	p.Partition, p.record, p.unknown = part, r, false
	return nil
}

// PoolsNow returns the views of the pools that take anything, brought up to date as far as it is their turn, and the
// records of their partitions that the views are of. Without pools it asks the store only now and then.
func (b *Keeper) PoolsNow(ctx context.Context, now time.Time) ([]record.PoolSeen, []store.Record, error) {
	if err := b.lookForPools(ctx, now); err != nil {
		return nil, nil, err
	}
	k := &b.known
	for _, look := range k.looks(b.Config.Pool, now) {
		parts, err := readParts(ctx, b.Store, look)
		if err != nil {
			k.unknown(look)
			return nil, nil, err
		}
		k.learn(look, parts, now)
	}
	pools, records := k.seen()
	return pools, records, nil
}

// lookForPools finds out which pools there are, where that was long ago. What is known of their machines stays.
func (b *Keeper) lookForPools(ctx context.Context, now time.Time) error {
	k := &b.known
	if !k.due(now) {
		return nil
	}
	pools, err := book.List[record.Pool](b.NewUnit(ctx, fnPool), record.PartPools, "", 0)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	known := map[string]*poolKnown{}
	for _, p := range k.pools {
		known[p.Name] = p
	}
	k.pools = nil
	for _, p := range pools {
		view := known[p.Name]
		if view == nil || view.Partitions != p.Partitions || !view.Created.Equal(p.Created) {
			view = b.newPoolKnown(p, now)
		}
		view.Pool = p
		k.pools = append(k.pools, view)
	}
	k.until = now.Add(b.Config.Pool.Known)
	return nil
}

func (k *poolsKnown) due(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !now.Before(k.until)
}

// newPoolKnown makes a view that knows nothing yet. Where nobody has said which of how many schedulers this is, it
// begins its turns where the clock says.
func (b *Keeper) newPoolKnown(p record.Pool, now time.Time) *poolKnown {
	v := &poolKnown{Pool: p, scheduler: b.Config.Scheduler}
	var err error
	// more schedulers than partitions
	if v.rotation, err = parsync.NewRotation(max(b.Config.Schedulers, 1), p.Partitions); err != nil {
		v.rotation, v.turn, v.scheduler = parsync.Rotation{Schedulers: 1, Partitions: p.Partitions}, uint64(max(v.scheduler, 0)), 0 //nolint:gosec // not negative
	}
	if b.Config.Schedulers <= 0 && b.Config.Pool.Turn > 0 {
		v.turn = uint64(max(now.UnixNano(), 0) / int64(b.Config.Pool.Turn)) //nolint:gosec // not negative
	}
	for i := range p.Partitions {
		v.parts = append(v.parts, &partKnown{unknown: true, record: store.Record{Key: record.PartitionKey(p.Name, i)}})
	}
	return v
}

// look is a reading of partitions that is to be done: of one, or of all of a pool.
type look struct {
	pool   string
	prefix string // of the keys
}

func (l look) covers(index int) bool { return strings.HasPrefix(record.SlicePrefix(index), l.prefix) }

// looks says what is to be looked at: the partitions that are not known, or the one whose turn it is.
func (k *poolsKnown) looks(t record.PoolTimes, now time.Time) []look {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []look
	for _, p := range k.pools {
		if p.Draining {
			continue
		}
		unknown, last := 0, -1
		for i, part := range p.parts {
			if part.unknown || now.Sub(part.at) > p.oldest(t) {
				unknown, last = unknown+1, i
			}
		}
		switch {
		case unknown > 1:
			out = append(out, look{pool: p.Name})
		case unknown == 1:
			out = append(out, look{pool: p.Name, prefix: record.SlicePrefix(last)})
		case now.Sub(p.turned) >= t.Turn:
			p.turn++
			out = append(out, look{pool: p.Name, prefix: record.SlicePrefix(p.rotation.Partition(p.scheduler, p.turn))})
		default:
			continue
		}
		p.turned = now
	}
	return out
}

// oldest is how old a view may be: two rounds of turns, which it is older than only where there are few sessions, that
// can afford to look at all of it; and no older than that its machines seem not to have been heard of.
func (p *poolKnown) oldest(t record.PoolTimes) time.Duration {
	return min(2*t.Turn*time.Duration(p.Partitions), t.StaleAfter/4)
}

// unknown notes that a reading has failed.
func (k *poolsKnown) unknown(l look) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pools {
		for i, part := range p.parts {
			if p.Name == l.pool && l.covers(i) {
				part.unknown = true
			}
		}
	}
}

// learn takes over what was read, except where a newer state is known by now.
func (k *poolsKnown) learn(l look, parts map[int]*partKnown, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pools {
		if p.Name != l.pool {
			continue
		}
		for i, part := range p.parts {
			if !l.covers(i) {
				continue
			}
			read := parts[i]
			if read == nil {
				read = &partKnown{record: store.Record{Key: record.PartitionKey(p.Name, i)}}
			}
			p.looked++
			if part.record.Version > read.record.Version && !part.unknown {
				part.seen, part.looked, part.at = read.seen, p.looked, now
				continue
			}
			read.looked, read.at = p.looked, now
			*part = *read
		}
	}
}

// seen copies what is known of the pools that take anything.
func (k *poolsKnown) seen() (out []record.PoolSeen, records []store.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pools {
		if p.Draining {
			continue
		}
		s := record.PoolSeen{Pool: p.Pool}
		for i, part := range p.parts {
			s.Parts, s.Order = append(s.Parts, record.PartSeen{Partition: part.Partition, Seen: part.seen}),
				append(s.Order, i)
			records = append(records, part.record)
		}
		slices.SortStableFunc(s.Order, func(x, y int) int { return cmp.Compare(p.parts[y].looked, p.parts[x].looked) })
		out = append(out, s)
	}
	return out, records
}

// readParts reads partitions and the beats of their machines, by index; those that were never written are not among
// them.
func readParts(ctx context.Context, st store.Store, l look) (map[int]*partKnown, error) {
	out := map[int]*partKnown{}
	for after, more := "", true; more; {
		var records []store.Record
		var err error
		if records, more, err = st.Query(ctx, record.PoolPart(l.pool), l.prefix, store.Page{After: after}); err != nil {
			return nil, err
		}
		for _, r := range records {
			after = r.Key.Sort
			number, rest, _ := strings.Cut(r.Key.Sort, "#")
			index, err := strconv.Atoi(number)
			if err != nil {
				continue
			}
			if out[index] == nil {
				out[index] = &partKnown{record: store.Record{Key: record.PartitionKey(l.pool, index)},
					seen: map[string]time.Time{}}
			}
			if err := out[index].read(r, rest); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// read takes over a record of the partition: its own, or the beat of a machine.
func (p *partKnown) read(r store.Record, name string) error {
	machine, isBeat := strings.CutPrefix(name, record.BeatInfix)
	if !isBeat {
		return p.take(r)
	}
	var beat record.Beat
	if err := json.Unmarshal(r.Body, &beat); err != nil {
		return fmt.Errorf("broker: record %s: %w", r.Key, err)
	}
	p.seen[machine] = beat.At
	return nil
}
