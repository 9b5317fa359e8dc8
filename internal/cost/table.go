package cost

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/deflate"
	"github.com/tradewind-broker/tradewind/pkg/store"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// DynamoDB's rules of billing ("Read and write capacity", "Item sizes and formats" in its developer guide): a write
// unit is a started kilobyte, twice that in a transaction, also for a check and for a cancelled transaction; a read
// unit is four started kilobytes of a consistent read.
const (
	writeUnit = 1 << 10
	readUnit  = 4 << 10
	inTx      = 2
)

// table is a store that counts the units that internal/store/dynamo would be billed. A test compares it with that
// driver's meter.
type table struct {
	*mem.Store
	meter    *meter
	onCommit func(outboxBytes int)
}

// recordBytes returns the size of a record's item. Its body is compressed if that saves a unit.
func recordBytes(k store.Key, body []byte, expires bool) int {
	if small, ok := deflate.Saves(body, writeUnit); ok {
		body = small
	}
	return itemBytes(k, len(body), expires)
}

// itemBytes returns the size of a record's item: names and values of pk, sk, v, b and ttl.
func itemBytes(k store.Key, body int, expires bool) int {
	n := len("pk") + len(k.Partition) + len("sk") + len(k.Sort) + len("v") + 2
	if body > 0 {
		n += len("b") + body
	}
	if expires {
		n += len("ttl") + 6
	}
	return n
}

// Get implements store.Store.
func (t *table) Get(ctx context.Context, keys ...store.Key) ([]store.Record, error) {
	records, err := t.Store.Get(ctx, keys...)
	units := float64(max(0, len(keys)-len(records))) // a missing record costs one unit
	for _, r := range records {
		units += chunks(recordBytes(r.Key, r.Body, !r.Expires.IsZero()), readUnit)
	}
	t.meter.add(TableReads, units)
	t.meter.wait(waitRead)
	return records, err
}

// Query implements store.Store.
func (t *table) Query(ctx context.Context, partition, prefix string, page store.Page) ([]store.Record, bool, error) {
	records, more, err := t.Store.Query(ctx, partition, prefix, page)
	size := 0
	for _, r := range records {
		size += recordBytes(r.Key, r.Body, !r.Expires.IsZero())
	}
	t.meter.add(TableReads, chunks(size, readUnit))
	t.meter.wait(waitRead)
	return records, more, err
}

// Commit implements store.Store.
func (t *table) Commit(ctx context.Context, tx store.Tx) error {
	err := t.Store.Commit(ctx, tx)
	factor, wait := float64(inTx), waitTransaction
	if len(tx.Writes)+min(len(tx.Events), 1) <= 1 {
		factor, wait = 1, waitWrite
	}
	for i := range tx.Writes {
		w := &tx.Writes[i]
		if w.Op == store.Check && factor == 1 {
			t.meter.add(TableReads, 1)
			continue
		}
		size := recordBytes(w.Key, w.Body, !w.Expires.IsZero())
		if w.Op != store.Put {
			size = 0
		}
		t.meter.wrote(kindOf(w), factor*chunks(size, writeUnit))
	}
	if size := outboxBytes(tx.Events); size > 0 {
		t.meter.wrote("outbox, put", factor*chunks(size, writeUnit))
	}
	t.meter.wait(wait)
	if err == nil && len(tx.Events) > 0 && t.onCommit != nil {
		t.onCommit(outboxBytes(tx.Events))
	}
	return err
}

// outboxBytes returns the size of the item with the packed events of one transaction, compressed if
// that saves a unit.
func outboxBytes(events []store.Event) int {
	if len(events) == 0 {
		return 0
	}
	var raw []byte
	for _, e := range events {
		raw = append(binary.AppendUvarint(raw, uint64(len(e.ID))), e.ID...)
		raw = append(binary.AppendUvarint(raw, uint64(len(e.Body))), e.Body...)
	}
	if small, ok := deflate.Saves(raw, writeUnit); ok {
		raw = small
	}
	const keys = len("pk") + len("outbox#0") + len("sk") + 16 + 1 + 16 + len("b")
	return 1 + len(raw) + keys
}

// published counts the removal of outbox items.
func (t *table) published(items []int) {
	for _, size := range items {
		t.meter.wrote("outbox, removed", chunks(size, writeUnit))
	}
	for n := len(items); n > 0; n -= 25 { // BatchWriteItem
		t.meter.wait(waitWrite)
	}
}

// kindOf returns the kind of record of a write.
func kindOf(w *store.Write) string {
	name := w.Key.Partition
	if head, rest, ok := strings.Cut(name, "#"); ok {
		switch head {
		case "job":
			name, _, _ = strings.Cut(w.Key.Sort, "#")
		case "seen":
			fn, _, _ := strings.Cut(rest, "#")
			name = "seen by " + fn
		case "queue":
			name = "waiting"
		default:
			name = head
		}
	}
	if _, err := strconv.Atoi(name); err == nil {
		name = "other"
	}
	if strings.HasPrefix(name, "logs/") {
		name = "log"
	}
	switch w.Op {
	case store.Check:
		name += ", checked"
	case store.Delete:
		name += ", removed"
	case store.Put:
	}
	return name
}

// bytes returns the size of the table.
func (t *table) bytes() (n int) {
	for r := range t.All() {
		n += recordBytes(r.Key, r.Body, !r.Expires.IsZero()) + 100 // DynamoDB adds this to each item
	}
	return n
}
