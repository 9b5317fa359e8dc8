package dynamo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tradewind-broker/tradewind/internal/base/deflate"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

const (
	// Shards is the number of partitions of the outbox. One partition takes 500 transactions a second (DynamoDB:
	// 1,000 write units a partition), and its events stay in order in the stream.
	Shards = 4
	// maxPackedBytes bounds the packed events of an item. One event of the maximum size just fits.
	maxPackedBytes = store.MaxItemBytes + packOverhead
	// packOverhead is the size that the format adds to one event.
	packOverhead = 1 + 2*binary.MaxVarintLen32
	// unit is the billing unit of a write: a started kilobyte.
	unit = 1 << 10
)

// pack puts the events of a transaction into as few outbox items as possible, usually one.
func (s *Store) pack(tx store.Tx) []item {
	if len(tx.Events) == 0 {
		return nil
	}
	pk := OutboxPrefix + strconv.Itoa(shard(tx))
	var items []item
	var raw []byte
	flush := func() {
		items = append(items, item{
			AttrPartition: text(pk), AttrSort: text(s.names.next()),
			attrBody: &types.AttributeValueMemberB{Value: seal(raw)},
		})
		raw = raw[:0]
	}
	for i := range tx.Events {
		e := &tx.Events[i]
		if len(raw) > 0 && 1+len(raw)+eventBytes(e) > maxPackedBytes {
			flush()
		}
		raw = appendEvent(raw, e)
	}
	flush()
	return items
}

// shard returns the shard for the first partition that tx writes, so that a job's events are in one shard.
func shard(tx store.Tx) int {
	h := fnv.New32a()
	if len(tx.Writes) > 0 {
		_, _ = io.WriteString(h, tx.Writes[0].Key.Partition)
	} else {
		_, _ = io.WriteString(h, tx.Events[0].ID)
	}
	return int(h.Sum32() % Shards)
}

func eventBytes(e *store.Event) int { return len(e.ID) + len(e.Body) + packOverhead - 1 }

// appendEvent encodes an event: the ID and the body, each after its length as a varint.
func appendEvent(raw []byte, e *store.Event) []byte {
	raw = binary.AppendUvarint(raw, uint64(len(e.ID)))
	raw = append(raw, e.ID...)
	raw = binary.AppendUvarint(raw, uint64(len(e.Body)))
	return append(raw, e.Body...)
}

// Formats of an outbox body; its first byte is one of them.
const (
	plain    = 0
	deflated = 1
)

// seal puts the format byte before packed events, and compresses them if that saves a write unit:
// envelopes are repetitive.
func seal(raw []byte) []byte {
	if small, ok := deflate.Saves(raw, unit); ok {
		return append([]byte{deflated}, small...)
	}
	return append([]byte{plain}, raw...)
}

var errOutboxBody = errors.New("dynamo: unreadable outbox item")

// unpack returns the events in the body of an outbox item.
func unpack(sealed []byte) ([]store.Event, error) {
	if len(sealed) == 0 {
		return nil, fmt.Errorf("%w: empty body", errOutboxBody)
	}
	raw := sealed[1:]
	switch sealed[0] {
	case plain:
	case deflated:
		var err error
		// pack writes no larger body, but a corrupt one may claim to be larger.
		if raw, err = deflate.Inflate(raw, store.MaxTxBytes); err != nil {
			return nil, fmt.Errorf("%w: %w", errOutboxBody, err)
		}
	default:
		return nil, fmt.Errorf("%w: format %d", errOutboxBody, sealed[0])
	}
	var events []store.Event
	for len(raw) > 0 {
		id, rest, ok := cutPiece(raw)
		if !ok {
			return nil, fmt.Errorf("%w: event %d is truncated", errOutboxBody, len(events))
		}
		body, rest, ok := cutPiece(rest)
		if !ok {
			return nil, fmt.Errorf("%w: the body of event %d is truncated", errOutboxBody, len(events))
		}
		events, raw = append(events, store.Event{ID: string(id), Body: body}), rest
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("%w: no events", errOutboxBody)
	}
	return events, nil
}

func cutPiece(raw []byte) (piece, rest []byte, ok bool) {
	n, used := binary.Uvarint(raw)
	if used <= 0 || n > uint64(len(raw)) || int(n) > len(raw)-used { //nolint:gosec // at most len(raw)
		return nil, nil, false
	}
	end := used + int(n) //nolint:gosec // at most len(raw)
	return raw[used:end:end], raw[end:], true
}

// sequenceTag is the number of hexadecimal digits in a process's tag.
const sequenceTag = 16

// sequence makes growing sort keys: the time, unique within a process, and the process's tag.
type sequence struct {
	mu   sync.Mutex
	last int64
	tag  string
	now  func() time.Time
}

func newSequence(tag string, now func() time.Time) *sequence { return &sequence{tag: tag, now: now} }

func (q *sequence) next() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = max(q.last+1, q.now().UnixNano(), 0)
	return fmt.Sprintf("%016x#%s", q.last, q.tag)
}
