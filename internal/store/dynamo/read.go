package dynamo

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// maxBatchGet is the maximum number of keys in one BatchGetItem of DynamoDB.
const maxBatchGet = 100

// Get implements store.Store.
func (s *Store) Get(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	wanted := make([]store.Key, 0, len(keys)) // without duplicates, which DynamoDB rejects
	found := make(map[store.Key]*store.Record, len(keys))
	for _, k := range keys {
		if err := k.Validate(); err != nil {
			return nil, fmt.Errorf("dynamo: get: %w", err)
		}
		if _, again := found[k]; !again {
			found[k] = nil
			wanted = append(wanted, k)
		}
	}
	if err := s.fetch(ctx, wanted, found); err != nil {
		return nil, err
	}
	var records []store.Record
	for _, k := range keys {
		if r := found[k]; r != nil {
			records = append(records, *r)
		}
	}
	return records, nil
}

func (s *Store) fetch(ctx context.Context, wanted []store.Key, found map[store.Key]*store.Record) error {
	take := func(it item) error {
		r, err := decodeRecord(it)
		if err != nil {
			return fmt.Errorf("dynamo: get: %w", err)
		}
		found[r.Key] = &r
		return nil
	}
	if len(wanted) == 1 {
		it, err := s.getItem(ctx, wanted[0], nil)
		if err != nil || it == nil {
			return err
		}
		return take(it)
	}
	for chunk := range slices.Chunk(wanted, maxBatchGet) {
		keys := make([]item, len(chunk))
		for i, k := range chunk {
			keys[i] = keyItem(k)
		}
		if err := s.batchGet(ctx, keys, take); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) getItem(ctx context.Context, k store.Key, projection *string) (item, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: s.table, Key: keyItem(k), ConsistentRead: aws.Bool(true), ProjectionExpression: projection,
		ReturnConsumedCapacity: s.meter.level(),
	})
	if err != nil {
		return nil, wrapError(ctx, "get", err)
	}
	s.meter.read("GetItem", []item{out.Item}, 1, out.ConsumedCapacity)
	return out.Item, nil
}

// batchGet reads the keys. It repeats requests that DynamoDB left unprocessed because of throttling or because
// the answer would exceed 16 MB.
func (s *Store) batchGet(ctx context.Context, keys []item, take func(item) error) error {
	for attempt := 1; ; attempt++ {
		out, err := s.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{
				*s.table: {Keys: keys, ConsistentRead: aws.Bool(true)}},
			ReturnConsumedCapacity: s.meter.level(),
		})
		if err != nil {
			return wrapError(ctx, "get", err)
		}
		left := out.UnprocessedKeys[*s.table].Keys
		items := out.Responses[*s.table]
		s.meter.readBatch("BatchGetItem", items, len(keys)-len(left), out.ConsumedCapacity)
		for _, it := range items {
			if err := take(it); err != nil {
				return err
			}
		}
		if len(left) == 0 {
			return nil
		}
		if len(items) > 0 {
			attempt = 0 // some progress: start counting again
		}
		keys = left
		switch again, err := s.pause(ctx, attempt); {
		case err != nil:
			return err
		case !again:
			return fmt.Errorf("dynamo: get: %w: %d keys left unprocessed", store.ErrThrottled, len(left))
		}
	}
}

// Query implements store.Store.
func (s *Store) Query(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
	if err := s.usable(ctx); err != nil {
		return nil, false, err
	}
	if err := store.ValidateQuery(partition, prefix, page); err != nil {
		return nil, false, fmt.Errorf("dynamo: query: %w", err)
	}
	if page.After > prefix && !strings.HasPrefix(page.After, prefix) {
		return nil, false, nil // past the prefix: DynamoDB would reject this start key
	}
	in := s.queryInput(partitionKey(partition), prefix)
	if page.After >= prefix && page.After != "" {
		in.ExclusiveStartKey = keyItem(store.Key{Partition: partition, Sort: page.After})
	}
	if page.Limit > 0 {
		in.Limit = clampLimit(page.Limit + 1) // one extra record shows whether there are more
	}
	items, next, err := s.queryPage(ctx, in)
	if err != nil {
		return nil, false, err
	}
	records, more, err := cutPage(items, page)
	if err != nil || more || next == nil {
		return records, more, err
	}
	// DynamoDB ended the page because of its size, possibly just after the last record.
	in.ExclusiveStartKey, in.Limit = next, aws.Int32(1)
	for next != nil && !more {
		if items, next, err = s.queryPage(ctx, in); err != nil {
			return nil, false, err
		}
		more, in.ExclusiveStartKey = len(items) > 0, next
	}
	return records, more, nil
}

// clampLimit converts a limit to the API's type and range.
func clampLimit(n int) *int32 {
	const most = 1 << 20
	return aws.Int32(int32(min(n, most))) //nolint:gosec // bounded
}

func (s *Store) queryInput(pk, prefix string) *dynamodb.QueryInput {
	in := &dynamodb.QueryInput{
		TableName: s.table, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String("pk = :p"),
		ExpressionAttributeValues: item{":p": text(pk)},
		ReturnConsumedCapacity:    s.meter.level(),
	}
	if prefix != "" {
		in.KeyConditionExpression = aws.String("pk = :p AND begins_with(sk, :s)")
		in.ExpressionAttributeValues[":s"] = text(prefix)
	}
	return in
}

func (s *Store) queryPage(ctx context.Context, in *dynamodb.QueryInput) (items []item, next item, err error) {
	out, err := s.client.Query(ctx, in)
	if err != nil {
		return nil, nil, wrapError(ctx, "query", err)
	}
	s.meter.read("Query", out.Items, 1, out.ConsumedCapacity)
	if len(out.LastEvaluatedKey) == 0 {
		return out.Items, nil, nil
	}
	return out.Items, out.LastEvaluatedKey, nil
}

// cutPage decodes the items that fit in the page.
func cutPage(items []item, page store.Page) (records []store.Record, more bool, err error) {
	size := 0
	for _, it := range items {
		r, err := decodeRecord(it)
		if err != nil {
			return nil, false, fmt.Errorf("dynamo: query: %w", err)
		}
		size += len(r.Key.Partition) + len(r.Key.Sort) + len(r.Body)
		if len(records) > 0 && (len(records) == page.Limit || size > store.MaxPageBytes) {
			return records, true, nil
		}
		records = append(records, r)
	}
	return records, false, nil
}
