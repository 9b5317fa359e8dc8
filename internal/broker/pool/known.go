package pool

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Known is one process's view of the pools (ATC '21, §4): for each partition, its content at the last read. In each
// turn the process reads one partition again; a rotation ensures that no two processes read the same partition in the
// same turn. A process takes a machine on the condition that its partition has not changed since the read. If it has,
// the commit fails, the partition is read again, and the session decides again.
//
// It is only a cache. Without it, the store is read instead.
type Known struct {
	mu    sync.Mutex
	until time.Time // when to read the list of pools again
	pools map[string]*poolKnown
	seat  seat
}

// poolKnown is the view of one pool.
type poolKnown struct {
	record.Pool
	rotation parsync.Rotation
	turn     uint64
	turned   time.Time // time of the last turn
	looked   int       // number of reads of partitions so far
	parts    []*partKnown
}

// partKnown is the view of one partition.
type partKnown struct {
	record.PartSeen
	record  store.Record // as read; Version is Absent if the partition does not exist
	unknown bool         // it must be read before it is used
	looked  int          // the value of poolKnown.looked at the read
	at      time.Time
}

// forget makes the next session read the list of pools.
func (k *Known) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.until = time.Time{}
}

// NewKnown makes an empty view.
func NewKnown() *Known { return &Known{} }

// Committed updates the view with the partitions that a committed unit has written.
func (k *Known) Committed(u *txn.Unit) { k.apply(u, true) }

// Conflicted marks the partitions that a unit failed to write, so that they are read again.
func (k *Known) Conflicted(u *txn.Unit) { k.apply(u, false) }

// apply adds to the view what this process has committed. It marks the partitions of a failed transaction for
// reading.
func (k *Known) apply(u *txn.Unit, committed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range u.Changes {
		p := k.part(c.Key)
		if p == nil || committed && !c.Written {
			continue
		}
		c.Version++
		if !committed || c.Blind || c.Body == nil || p.take(u.Cache(), c.Record) != nil {
			p.unknown = true
		}
	}
}

// part finds the view of the partition with the given key, or nil.
func (k *Known) part(key store.Key) *partKnown {
	name, ok := strings.CutPrefix(key.Partition, record.PoolPart(""))
	p := k.pools[name]
	number, found := strings.CutSuffix(key.Sort, "#"+record.PartitionSuffix)
	if !ok || !found || p == nil {
		return nil
	}
	if index, err := strconv.Atoi(number); err == nil && index < len(p.parts) {
		return p.parts[index]
	}
	return nil
}

// take updates the view with a record, unless it already has a newer version.
func (p *partKnown) take(kept *recordcache.Cache, r store.Record) error {
	if r.Version < p.record.Version && !p.unknown {
		return nil
	}
	part, err := recordcache.Shared[record.Partition](kept.Records(), r.Key, r.Body)
	if err != nil {
		return err
	}
	p.Partition, p.record, p.unknown = *part, r, false
	return nil
}

// PoolsNow returns the views of the pools that accept tasks, and the partition records on which the views are based.
// It first reads the partitions whose turn it is, and all partitions of the pools in fresh. Without pools, it reads
// the store only now and then.
func (b *Keeper) PoolsNow(ctx context.Context, now time.Time, fresh ...string) ([]record.PoolSeen, []store.Record,
	error) {
	if err := b.lookForPools(ctx, now); err != nil {
		return nil, nil, err
	}
	b.known.markUnknown(fresh)
	if len(b.known.names()) > 0 {
		at, err := b.seat(ctx, now)
		if err != nil {
			return nil, nil, err
		}
		b.known.setSeat(at)
	}
	for _, look := range b.known.looks(b.txns.Config, now) {
		parts, err := b.readParts(ctx, look.pool, look.prefix)
		b.known.learn(look, parts, now, err == nil)
		if err != nil {
			return nil, nil, err
		}
	}
	pools, records := b.known.seen()
	return pools, records, nil
}

// markUnknown marks all partitions of pools, so that they are read again.
func (k *Known) markUnknown(pools []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range pools {
		if p := k.pools[name]; p != nil {
			for _, part := range p.parts {
				part.unknown = true
			}
		}
	}
}

// lookForPools reads the list of pools if it was last read too long ago. It keeps the views of existing pools.
func (b *Keeper) lookForPools(ctx context.Context, now time.Time) error {
	k := b.known
	if !k.due(now) {
		return nil
	}
	pools, err := recordcache.List[record.Pool](b.txns.NewUnit(ctx, fnPool), record.PartPools, "", 0)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.pools
	k.pools = make(map[string]*poolKnown, len(pools))
	for _, p := range pools {
		view := was[p.Name]
		if view == nil || view.Partitions != p.Partitions || !view.Created.Equal(p.Created) {
			view = b.newPoolKnown(p, now)
		}
		view.Pool, k.pools[p.Name] = p, view
	}
	k.until = now.Add(b.txns.Config.Pool.Known)
	return nil
}

func (k *Known) due(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !now.Before(k.until)
}

// names lists the pools.
func (k *Known) names() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.pools))
}

// accepting yields the pools that accept tasks, by name.
func (k *Known) accepting(yield func(*poolKnown) bool) {
	for _, name := range slices.Sorted(maps.Keys(k.pools)) {
		if p := k.pools[name]; !p.Draining && !yield(p) {
			return
		}
	}
}

// newPoolKnown returns an empty view of a pool. If the configuration does not state the number of this scheduler, the
// clock determines its first turn.
func (b *Keeper) newPoolKnown(p record.Pool, now time.Time) *poolKnown {
	v := &poolKnown{Pool: p}
	v.rotation = parsync.Rotation{Schedulers: 1, Partitions: p.Partitions}
	if b.txns.Config.Schedulers <= 0 {
		v.turn = turnAt(b.txns.Config, now)
	}
	for i := range p.Partitions {
		v.parts = append(v.parts, &partKnown{unknown: true, record: store.Record{Key: record.PartitionKey(p.Name, i)}})
	}
	return v
}

// turnAt returns the number of the turn by the clock.
func turnAt(cfg config.Config, now time.Time) uint64 {
	if cfg.Pool.Turn <= 0 {
		return 0
	}
	return uint64(max(now.UnixNano(), 0) / int64(cfg.Pool.Turn)) //nolint:gosec // not negative
}

// setSeat sets the number of this process and of all processes, for the rotation.
func (k *Known) setSeat(at seat) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seat.number, k.seat.of = at.number, at.of
	for _, p := range k.pools {
		p.rotation.Schedulers = at.of
	}
}

// look is one read of partitions: of one, or of all of a pool.
type look struct {
	pool   string
	prefix string // of the keys
}

// looks returns the reads that are due: unknown or old partitions, or the one whose turn it is.
func (k *Known) looks(cfg config.Config, now time.Time) (out []look) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p := range k.accepting {
		unknown, index := 0, -1
		for i, part := range p.parts {
			if part.unknown || now.Sub(part.at) > p.oldest(cfg.Pool) {
				unknown, index = unknown+1, i
			}
		}
		if unknown == 0 {
			if now.Sub(p.turned) < cfg.Pool.Turn {
				continue
			}
			p.turn++
			if cfg.Schedulers <= 0 && k.seat.of > 1 { // the processes agree on the turn by the clock
				p.turn = turnAt(cfg, now)
			}
			index = p.rotation.Partition(k.seat.number, p.turn)
		}
		at := look{pool: p.Name}
		if unknown <= 1 {
			at.prefix = record.SlicePrefix(index)
		}
		out, p.turned = append(out, at), now
	}
	return out
}

// oldest returns the maximum age of a view: two rounds of turns. Views get that old only if there are few sessions,
// which can afford to read everything. It is also far below the age at which machines seem silent.
func (p *poolKnown) oldest(t config.PoolTimes) time.Duration {
	return min(2*t.Turn*time.Duration(p.Partitions), t.StaleAfter/4)
}

// learn updates the views with the result of a read, except views that are newer. A partition that could not be read
// becomes unknown.
func (k *Known) learn(l look, parts map[int]*partKnown, now time.Time, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.pools[l.pool]
	for i := 0; p != nil && i < len(p.parts); i++ {
		part, read := p.parts[i], parts[i]
		switch {
		case !strings.HasPrefix(record.SlicePrefix(i), l.prefix):
			continue
		case !ok:
			part.unknown = true
			continue
		case read == nil: // it does not exist
			read = &partKnown{record: store.Record{Key: record.PartitionKey(p.Name, i)}}
		}
		p.looked++
		if part.record.Version <= read.record.Version || part.unknown {
			part.Partition, part.record, part.unknown = read.Partition, read.record, false
		}
		part.Seen, part.looked, part.at = read.Seen, p.looked, now
	}
}

// seen returns copies of the views of the pools that accept tasks.
func (k *Known) seen() (out []record.PoolSeen, records []store.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for p := range k.accepting {
		s := record.PoolSeen{Pool: p.Pool}
		for i, part := range p.parts {
			s.Parts, s.Order = append(s.Parts, part.PartSeen), append(s.Order, i)
			records = append(records, part.record)
		}
		slices.SortStableFunc(s.Order, func(x, y int) int { return cmp.Compare(p.parts[y].looked, p.parts[x].looked) })
		out = append(out, s)
	}
	return out, records
}

// Parts reads the partitions of a pool, by index, with the time of the last call of each machine.
func (b *Keeper) Parts(ctx context.Context, pool string) ([]record.PartSeen, error) {
	read, err := b.readParts(ctx, pool, "")
	var out []record.PartSeen
	for _, index := range slices.Sorted(maps.Keys(read)) {
		out = append(out, read[index].PartSeen)
	}
	return out, err
}

// readParts reads partitions and the beats of their machines, by index. Partitions that were never written are
// missing.
func (b *Keeper) readParts(ctx context.Context, pool, prefix string) (map[int]*partKnown, error) {
	out := map[int]*partKnown{}
	for after, more := "", true; more; {
		var records []store.Record
		var err error
		records, more, err = b.txns.Store.Query(ctx, record.PoolPart(pool), prefix, store.Page{After: after})
		if err != nil {
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
				out[index] = &partKnown{record: store.Record{Key: record.PartitionKey(pool, index)}}
				out[index].Seen = map[string]time.Time{}
			}
			if err := out[index].read(b.txns.Cache(), r, rest); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// read updates the view with a record of the partition: the partition itself, or the beat of a machine.
func (p *partKnown) read(kept *recordcache.Cache, r store.Record, name string) error {
	machine, isBeat := strings.CutPrefix(name, record.BeatInfix)
	if !isBeat {
		return p.take(kept, r)
	}
	beat, err := recordcache.Shared[record.Beat](kept.Records(), r.Key, r.Body)
	if err != nil {
		return err
	}
	p.Seen[machine] = beat.At
	return nil
}
