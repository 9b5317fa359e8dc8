package dynamo

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

const (
	// Shards is how many partitions the outbox has. One takes 500 transactions a second (DynamoDB:
	// 1,000 write units a partition), and the events of one stay in order in the stream.
	Shards = 4
	// packMost bounds the packed events of an item. One event of the largest size fits alone.
	packMost = store.MaxItemBytes + packOverhead
	// packOverhead is what the format adds to one event.
	packOverhead = 1 + 2*binary.MaxVarintLen32
	// unit is what a write is billed by: a kilobyte begun.
	unit = 1 << 10
)

// pack puts the events of a transaction into as few outbox items as hold them, mostly one.
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
		if len(raw) > 0 && 1+len(raw)+eventBytes(e) > packMost {
			flush()
		}
		raw = appendEvent(raw, e)
	}
	flush()
	return items
}

// shard is that of the partition first written, so that the events of a job lie together.
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

// appendEvent: lengths as varints, each before its bytes.
func appendEvent(raw []byte, e *store.Event) []byte {
	raw = binary.AppendUvarint(raw, uint64(len(e.ID)))
	raw = append(raw, e.ID...)
	raw = binary.AppendUvarint(raw, uint64(len(e.Body)))
	return append(raw, e.Body...)
}

// How the bytes after the first of an outbox body are written.
const (
	plain    = 0
	deflated = 1
)

// seal puts the format before packed events, and compresses them where that saves a unit of
// writing: envelopes repeat each other.
func seal(raw []byte) []byte {
	if len(raw) > unit {
		var b bytes.Buffer
		b.WriteByte(deflated)
		w, err := flate.NewWriter(&b, flate.BestSpeed)
		if err == nil {
			_, err = w.Write(raw)
		}
		if err == nil {
			err = w.Close()
		}
		if err == nil && b.Len()/unit < (1+len(raw))/unit {
			return b.Bytes()
		}
	}
	return append([]byte{plain}, raw...)
}

var errOutboxBody = errors.New("dynamo: an outbox item that cannot be read")

// unpack reads what pack wrote.
func unpack(sealed []byte) ([]store.Event, error) {
	if len(sealed) == 0 {
		return nil, fmt.Errorf("%w: it is empty", errOutboxBody)
	}
	raw := sealed[1:]
	switch sealed[0] {
	case plain:
	case deflated:
		var err error
		// What does not fit an item was not packed; a corrupt one may claim to be larger.
		const most = store.MaxTxBytes
		if raw, err = io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(raw)), most)); err != nil {
			return nil, fmt.Errorf("%w: %w", errOutboxBody, err)
		}
	default:
		return nil, fmt.Errorf("%w: format %d", errOutboxBody, sealed[0])
	}
	var events []store.Event
	for len(raw) > 0 {
		id, rest, ok := cutPiece(raw)
		if !ok {
			return nil, fmt.Errorf("%w: event %d is cut off", errOutboxBody, len(events))
		}
		body, rest, ok := cutPiece(rest)
		if !ok {
			return nil, fmt.Errorf("%w: the body of event %d is cut off", errOutboxBody, len(events))
		}
		events, raw = append(events, store.Event{ID: string(id), Body: body}), rest
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("%w: no event in it", errOutboxBody)
	}
	return events, nil
}

func cutPiece(raw []byte) (piece, rest []byte, ok bool) {
	n, used := binary.Uvarint(raw)
	if used <= 0 || n > uint64(len(raw)) || int(n) > len(raw)-used { //nolint:gosec // at most the length of raw
		return nil, nil, false
	}
	end := used + int(n) //nolint:gosec // the same
	return raw[used:end:end], raw[end:], true
}

// sequenceTag is how many hexadecimal digits tell processes apart.
const sequenceTag = 16

// sequence makes sort keys that grow: the time, never the same twice in a process, and the process's tag.
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
