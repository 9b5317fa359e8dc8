package dynamo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Pending is an outbox item: unpublished events of one transaction, all or some of them.
type Pending struct {
	Events []store.Event // those not yet published

	pk, sk string
	index  []int // each event's position in the item
	size   int   // bytes of the item
}

// minItemsPerShard is the minimum number of items of a shard that Outbox reads. If an event was committed twice,
// Outbox returns it once if it reads both items.
const minItemsPerShard = 256

// Outbox implements store.Store. If an ID was committed again while it was pending, the later event replaces the
// earlier one, provided one call reads both (it reads about 1,000 transactions). Otherwise both are returned, in two
// calls.
func (s *Store) Outbox(ctx context.Context, limit int) ([]store.Event, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if limit <= 0 {
		return nil, nil
	}
	pending, err := s.readShards(ctx, max(limit, minItemsPerShard))
	if err != nil {
		return nil, err
	}
	s.places.add(pending)
	events := merged(pending)
	return events[:min(limit, len(events))], nil
}

// merged lists the events of items in order, each ID once: at its first position, with its last body.
func merged(pending []Pending) []store.Event {
	var events []store.Event
	at := make(map[string]int)
	for _, p := range pending {
		for _, e := range p.Events {
			if i, again := at[e.ID]; again {
				events[i] = e
				continue
			}
			at[e.ID] = len(events)
			events = append(events, e)
		}
	}
	return events
}

// readShards reads the oldest items of every shard, at most each of one shard (0: all), and returns them oldest first.
func (s *Store) readShards(ctx context.Context, each int) ([]Pending, error) {
	var shards [Shards][]Pending
	g, ctx := errgroup.WithContext(ctx)
	for i := range shards {
		g.Go(func() (err error) {
			shards[i], err = s.readShard(ctx, OutboxPrefix+strconv.Itoa(i), each)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	all := slices.Concat(shards[:]...)
	slices.SortStableFunc(all, func(a, b Pending) int { return strings.Compare(a.sk, b.sk) })
	return all, nil
}

func (s *Store) readShard(ctx context.Context, pk string, each int) ([]Pending, error) {
	in := s.queryInput(pk, "")
	if each > 0 {
		in.Limit = clampLimit(each)
	}
	var found []Pending
	for {
		items, next, err := s.queryPage(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, it := range items {
			p, err := decodePending(it)
			if err != nil { // it stays for inspection; the others are processed
				s.log.Error("outbox: cannot read an item", "key", keyName(it), "err", err)
				continue
			}
			found = append(found, p)
		}
		// A page may end early because of its size.
		if next == nil || each > 0 && len(found) > 0 {
			return found, nil
		}
		in.ExclusiveStartKey = next
	}
}

func keyName(it item) string {
	pk, sk, err := decodeKey(it)
	if err != nil {
		return err.Error()
	}
	return pk + "/" + sk
}

func decodePending(it item) (Pending, error) {
	pk, sk, err := decodeKey(it)
	if err != nil {
		return Pending{}, err
	}
	body, ok := it[attrBody].(*types.AttributeValueMemberB)
	if !ok {
		return Pending{}, fmt.Errorf("%w: no body", errOutboxBody)
	}
	events, err := unpack(body.Value)
	if err != nil {
		return Pending{}, err
	}
	var done []string
	if d, ok := it[attrDone].(*types.AttributeValueMemberNS); ok {
		done = d.Value
	}
	p := Pending{pk: pk, sk: sk, size: itemBytes(it)}
	for i, e := range events {
		if !slices.Contains(done, strconv.Itoa(i)) {
			p.Events, p.index = append(p.Events, e), append(p.index, i)
		}
	}
	return p, nil
}

// places remembers the items of the events that Outbox returned, so that Published, which gets only
// IDs, need not search them. Published searches for unknown IDs.
type places struct {
	mu   sync.Mutex
	byID map[string][]*Pending
}

// maxPlaces bounds the memory for events that another process published.
const maxPlaces = 50_000

func (p *places) add(pending []Pending) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byID == nil || len(p.byID) > maxPlaces {
		p.byID = make(map[string][]*Pending)
	}
	for i := range pending {
		item := pending[i].withoutBodies()
		for _, e := range item.Events {
			p.byID[e.ID] = append(slices.DeleteFunc(p.byID[e.ID], item.same), item)
		}
	}
}

func (p *Pending) withoutBodies() *Pending {
	bare := *p
	bare.Events = make([]store.Event, len(p.Events))
	for i, e := range p.Events {
		bare.Events[i].ID = e.ID
	}
	return &bare
}

func (p *Pending) same(other *Pending) bool { return p.pk == other.pk && p.sk == other.sk }

// find returns the items that contain the IDs, and the IDs that it does not know.
func (p *places) find(ids []string) (items []*Pending, unknown []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := make(map[*Pending]bool)
	for _, id := range ids {
		known := p.byID[id]
		if len(known) == 0 {
			unknown = append(unknown, id)
		}
		for _, item := range known {
			if !seen[item] {
				seen[item] = true
				items = append(items, item)
			}
		}
	}
	return items, unknown
}

func (p *places) forget(ids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range ids {
		delete(p.byID, id)
	}
}
