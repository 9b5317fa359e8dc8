package apitest

import (
	"context"
	"sync/atomic"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// keysAtOnce is the maximum number of records per read by key in DynamoDB.
const keysAtOnce = 100

// Counted is a store that counts reads as DynamoDB would.
type Counted struct {
	store.Store
	// Committed is called after each transaction, unless it is nil.
	Committed func()

	requests, records, bytes atomic.Int64
}

// Reads counts requests, records returned, and the bytes of their bodies.
type Reads struct{ Requests, Records, Bytes int64 }

// Take returns the counts since the last call.
func (c *Counted) Take() Reads {
	return Reads{c.requests.Swap(0), c.records.Swap(0), c.bytes.Swap(0)}
}

// Get implements store.Store.
func (c *Counted) Get(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
	records, err := c.Store.Get(ctx, keys...)
	c.count((len(keys)+keysAtOnce-1)/keysAtOnce, records)
	return records, err
}

// Query implements store.Store.
func (c *Counted) Query(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
	records, more, err := c.Store.Query(ctx, partition, prefix, page)
	c.count(1, records)
	return records, more, err
}

func (c *Counted) count(requests int, records []store.Record) {
	c.requests.Add(int64(requests))
	c.records.Add(int64(len(records)))
	for _, r := range records {
		c.bytes.Add(int64(len(r.Body)))
	}
}

// Commit implements store.Store.
func (c *Counted) Commit(ctx context.Context, tx store.Tx) error {
	err := c.Store.Commit(ctx, tx)
	if c.Committed != nil && err == nil {
		c.Committed()
	}
	return err
}
