package dynamo

import (
	"context"
	"fmt"
	"strings"
	"sync"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// FromRecord reads a record of the table's stream as Lambda delivers it. ok is false if the record
// holds no newly committed events; the stream's filter lets few such records through.
func FromRecord(r lambdaevents.DynamoDBEventRecord) (p Pending, ok bool, err error) {
	if r.EventName != string(lambdaevents.DynamoDBOperationTypeInsert) {
		return Pending{}, false, nil
	}
	image := make(item, len(r.Change.NewImage))
	for name, v := range r.Change.NewImage {
		switch v.DataType() {
		case lambdaevents.DataTypeString:
			image[name] = text(v.String())
		case lambdaevents.DataTypeBinary:
			image[name] = &types.AttributeValueMemberB{Value: v.Binary()}
		case lambdaevents.DataTypeNumber:
			image[name] = &types.AttributeValueMemberN{Value: v.Number()}
		case lambdaevents.DataTypeNumberSet:
			image[name] = &types.AttributeValueMemberNS{Value: v.NumberSet()}
		default: // outbox items have no other types
		}
	}
	return FromImage(image)
}

// FromImage reads an item of the table. ok is false if the item holds no events.
func FromImage(image map[string]types.AttributeValue) (p Pending, ok bool, err error) {
	pk, _, err := decodeKey(image)
	if err != nil || !strings.HasPrefix(pk, OutboxPrefix) {
		return Pending{}, false, err
	}
	p, err = decodePending(image)
	if err != nil {
		return Pending{}, false, fmt.Errorf("%s: %w", keyName(image), err)
	}
	return p, true, nil
}

// Feed is the store for a relay that gets its events from the stream: its outbox holds only those events, so that
// the relay's only requests are those that remove published events, 25 transactions at a time.
//
//	n, err := outbox.Relay{Store: s.Feed(pending...), …}.All(ctx)
type Feed struct {
	*Store
	mu      sync.Mutex
	pending []Pending
}

// Feed returns a store with the outbox pending.
func (s *Store) Feed(pending ...Pending) *Feed { return &Feed{Store: s, pending: pending} }

// Outbox returns the unpublished events of the feed.
func (f *Feed) Outbox(ctx context.Context, limit int) ([]store.Event, error) {
	if err := f.usable(ctx); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	events := merged(f.pending)
	return events[:min(max(limit, 0), len(events))], nil
}

// Published removes events from the feed and from the table.
func (f *Feed) Published(ctx context.Context, ids ...string) error {
	if err := f.usable(ctx); err != nil {
		return err
	}
	published := make(map[string]bool, len(ids))
	for _, id := range ids {
		published[id] = true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var touched []*Pending
	for i := range f.pending {
		for _, e := range f.pending[i].Events {
			if published[e.ID] {
				touched = append(touched, &f.pending[i])
				break
			}
		}
	}
	if err := f.removePublished(ctx, touched, func(id string) bool { return published[id] }); err != nil {
		return err
	}
	var left []Pending
	for _, p := range f.pending {
		if p = p.without(published); len(p.Events) > 0 {
			left = append(left, p)
		}
	}
	f.pending = left
	return nil
}

func (p Pending) without(published map[string]bool) Pending {
	rest := Pending{pk: p.pk, sk: p.sk, size: p.size}
	for i, e := range p.Events {
		if !published[e.ID] {
			rest.Events, rest.index = append(rest.Events, e), append(rest.index, p.index[i])
		}
	}
	return rest
}
