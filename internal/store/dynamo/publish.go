package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Published implements store.Store. It removes the events that Outbox returned; an event committed again later stays.
func (s *Store) Published(ctx context.Context, ids ...string) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	wanted := make(map[string]bool, len(ids))
	var distinct []string
	for _, id := range ids {
		if !wanted[id] && (store.Key{Partition: id, Sort: "x"}).Validate() == nil { // an invalid ID has no event
			wanted[id] = true
			distinct = append(distinct, id)
		}
	}
	items, unknown := s.places.find(distinct)
	if len(unknown) > 0 {
		all, err := s.readShards(ctx, 0)
		if err != nil {
			return err
		}
		for i := range all {
			if slices.ContainsFunc(all[i].Events, func(e store.Event) bool { return slices.Contains(unknown, e.ID) }) &&
				!slices.ContainsFunc(items, all[i].same) {
				items = append(items, &all[i])
			}
		}
	}
	if err := s.removePublished(ctx, items, func(id string) bool { return wanted[id] }); err != nil {
		return err
	}
	s.places.forget(distinct)
	return nil
}

// removePublished removes the published events of items: the whole item if all are published, otherwise it marks them.
func (s *Store) removePublished(ctx context.Context, items []*Pending, published func(id string) bool) error {
	var gone []*Pending
	for _, p := range items {
		var index []string
		for i, e := range p.Events {
			if published(e.ID) {
				index = append(index, strconv.Itoa(p.index[i]))
			}
		}
		if len(index) < len(p.Events) {
			last, err := s.mark(ctx, p, index)
			if err != nil {
				return err
			}
			if !last {
				continue
			}
		}
		gone = append(gone, p)
	}
	return s.remove(ctx, gone)
}

// mark marks events of an item as published; last is true if now all of them are.
func (s *Store) mark(ctx context.Context, p *Pending, index []string) (last bool, err error) {
	out, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: s.table, Key: p.key(), UpdateExpression: aws.String("ADD d :d"),
		ConditionExpression:       aws.String("attribute_exists(pk)"),
		ExpressionAttributeValues: item{":d": &types.AttributeValueMemberNS{Value: index}},
		ReturnValues:              types.ReturnValueUpdatedNew, ReturnConsumedCapacity: s.meter.level(),
	})
	var unmet *types.ConditionalCheckFailedException
	if errors.As(err, &unmet) {
		return false, nil // another process published the item
	}
	if err != nil {
		return false, wrapError(ctx, "published", err)
	}
	s.meter.writeSizes("UpdateItem", []int{p.size}, optional(out.ConsumedCapacity)...)
	done, ok := out.Attributes[attrDone].(*types.AttributeValueMemberNS)
	if !ok {
		return false, nil
	}
	left := slices.ContainsFunc(p.index, func(i int) bool { return !slices.Contains(done.Value, strconv.Itoa(i)) })
	return !left, nil
}

func (p *Pending) key() item { return item{AttrPartition: text(p.pk), AttrSort: text(p.sk)} }

// maxBatchWrite is the maximum number of items in one BatchWriteItem of DynamoDB.
const maxBatchWrite = 25

// remove deletes outbox items. It repeats requests that DynamoDB left unprocessed.
func (s *Store) remove(ctx context.Context, gone []*Pending) error {
	for chunk := range slices.Chunk(gone, maxBatchWrite) {
		requests := make([]types.WriteRequest, len(chunk))
		sizes := make(map[string]int, len(chunk))
		for i, p := range chunk {
			requests[i] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: p.key()}}
			sizes[p.pk+p.sk] = p.size
		}
		if err := s.batchDelete(ctx, requests, sizes); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) batchDelete(ctx context.Context, requests []types.WriteRequest, sizes map[string]int) error {
	for attempt := 1; ; attempt++ {
		out, err := s.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
			RequestItems:           map[string][]types.WriteRequest{*s.table: requests},
			ReturnConsumedCapacity: s.meter.level(),
		})
		if err != nil {
			return wrapError(ctx, "published", err)
		}
		left := out.UnprocessedItems[*s.table]
		s.meter.writeSizes("BatchWriteItem", processed(requests, left, sizes), out.ConsumedCapacity...)
		if len(left) == 0 {
			return nil
		}
		if len(left) < len(requests) {
			attempt = 0 // some progress: start counting again
		}
		requests = left
		switch again, err := s.pause(ctx, attempt); {
		case err != nil:
			return err
		case !again:
			return fmt.Errorf("dynamo: published: %w: %d items left unprocessed", store.ErrThrottled, len(left))
		}
	}
}

// processed returns the sizes of the requests that are not in left.
func processed(requests, left []types.WriteRequest, sizes map[string]int) []int {
	name := func(r types.WriteRequest) string {
		if r.DeleteRequest == nil {
			return ""
		}
		pk, sk, err := decodeKey(r.DeleteRequest.Key)
		if err != nil {
			return ""
		}
		return pk + sk
	}
	undone := make(map[string]bool, len(left))
	for _, r := range left {
		undone[name(r)] = true
	}
	var done []int
	for _, r := range requests {
		if n := name(r); !undone[n] {
			done = append(done, sizes[n])
		}
	}
	return done
}
