package dynamo

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tradewind-broker/tradewind/internal/base/deflate"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

type item = map[string]types.AttributeValue

// escape is the prefix of the partition key of a record whose partition looks like an outbox partition or an escaped
// one. A partition key may have 2048 bytes, so the prefix always fits.
const escape = "="

func partitionKey(partition string) string {
	if strings.HasPrefix(partition, OutboxPrefix) || strings.HasPrefix(partition, escape) {
		return escape + partition
	}
	return partition
}

func partitionOf(pk string) string { return strings.TrimPrefix(pk, escape) }

func text(s string) *types.AttributeValueMemberS { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) *types.AttributeValueMemberN {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func versionValue(v store.Version) *types.AttributeValueMemberN {
	return &types.AttributeValueMemberN{Value: strconv.FormatUint(uint64(v), 10)}
}

func keyItem(k store.Key) item {
	return item{AttrPartition: text(partitionKey(k.Partition)), AttrSort: text(k.Sort)}
}

// recordItem returns the item of a record.
func recordItem(w *store.Write, version store.Version) item {
	it := keyItem(w.Key)
	it[attrVersion] = versionValue(version)
	if small, ok := deflate.Saves(w.Body, unit); ok {
		it[attrDeflated] = &types.AttributeValueMemberB{Value: small}
	} else if len(w.Body) > 0 {
		it[attrBody] = &types.AttributeValueMemberB{Value: w.Body}
	}
	if !w.Expires.IsZero() {
		it[AttrExpires] = number(store.RoundExpiry(w.Expires).Unix())
	}
	return it
}

// decodeRecord is the inverse of recordItem. An empty body is non-nil, because callers use nil for
// records that do not exist.
func decodeRecord(it item) (store.Record, error) {
	pk, sk, err := decodeKey(it)
	if err != nil {
		return store.Record{}, err
	}
	r := store.Record{Key: store.Key{Partition: partitionOf(pk), Sort: sk}, Body: []byte{}}
	v, ok := it[attrVersion].(*types.AttributeValueMemberN)
	if !ok {
		return store.Record{}, fmt.Errorf("item %s has no version", r.Key)
	}
	n, err := strconv.ParseUint(v.Value, 10, 64)
	if err != nil {
		return store.Record{}, fmt.Errorf("item %s: version: %w", r.Key, err)
	}
	r.Version = store.Version(n)
	if b, ok := it[attrBody].(*types.AttributeValueMemberB); ok {
		r.Body = b.Value
	}
	if z, ok := it[attrDeflated].(*types.AttributeValueMemberB); ok {
		if r.Body, err = deflate.Inflate(z.Value, store.MaxTxBytes); err != nil {
			return store.Record{}, fmt.Errorf("item %s: %w", r.Key, err)
		}
	}
	if e, ok := it[AttrExpires].(*types.AttributeValueMemberN); ok {
		seconds, err := strconv.ParseInt(e.Value, 10, 64)
		if err != nil {
			return store.Record{}, fmt.Errorf("item %s: expiry: %w", r.Key, err)
		}
		r.Expires = time.Unix(seconds, 0).UTC()
	}
	return r, nil
}

func decodeKey(it item) (pk, sk string, err error) {
	p, ok := it[AttrPartition].(*types.AttributeValueMemberS)
	if !ok {
		return "", "", fmt.Errorf("an item has no partition key (%s)", AttrPartition)
	}
	s, ok := it[AttrSort].(*types.AttributeValueMemberS)
	if !ok {
		return "", "", fmt.Errorf("an item of %s has no sort key (%s)", p.Value, AttrSort)
	}
	return p.Value, s.Value, nil
}

// itemBytes returns the size that DynamoDB bills and limits: names and values ("DynamoDB item
// sizes and formats" in the developer guide).
func itemBytes(it item) int {
	n := 0
	for name, value := range it {
		n += len(name)
		switch v := value.(type) {
		case *types.AttributeValueMemberS:
			n += len(v.Value)
		case *types.AttributeValueMemberB:
			n += len(v.Value)
		case *types.AttributeValueMemberN:
			n += numberBytes(v.Value)
		case *types.AttributeValueMemberNS:
			n += 3
			for _, digits := range v.Value {
				n += numberBytes(digits)
			}
		}
	}
	return n
}

// numberBytes returns the size of a number: one byte for two digits, plus one.
func numberBytes(digits string) int { return (len(digits)+1)/2 + 1 }
