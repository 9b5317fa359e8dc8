package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/store/bolt"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// The bus's keys in the file:
//
//	"bm" length of the queue's name (1 byte), name, number (8) → message
//
// "bs" as after "bm" → state of a message that was delivered
// "bd" time when it became a dead letter (8), number (8) → dead letter
//
// Numbers are big-endian, so that keys sort in their order; lengths and the times in values are varints. A
// message is a format byte, its not-before time, ID, type, group and body. A dead letter is a format byte,
// queue, reason, attempts and the message.
var (
	messageSpace = []byte("bm")
	stateSpace   = []byte("bs")
	deadSpace    = []byte("bd")
)

const format = 1

var errCorrupt = fmt.Errorf("local: %w", bolt.ErrCorrupt)

func messageKey(r ref) []byte { return refKey(messageSpace, r) }
func stateKey(r ref) []byte   { return refKey(stateSpace, r) }

func refKey(space []byte, r ref) []byte {
	key := make([]byte, 0, len(space)+1+len(r.queue)+8)
	key = append(append(key, space...), byte(len(r.queue))) //nolint:gosec // QueueConfig.Validate bounds it
	return binary.BigEndian.AppendUint64(append(key, r.queue...), r.number)
}

func decodeMessageKey(key []byte) (ref, error) {
	rest := key[len(messageSpace):]
	if len(rest) < 1+8 || len(rest) != 1+int(rest[0])+8 {
		return ref{}, fmt.Errorf("%w: message key of %d bytes", errCorrupt, len(key))
	}
	return ref{queue: string(rest[1 : len(rest)-8]), number: binary.BigEndian.Uint64(rest[len(rest)-8:])}, nil
}

func deadKey(id letterID) []byte {
	key := binary.BigEndian.AppendUint64(append(make([]byte, 0, len(deadSpace)+16), deadSpace...), uint64(id.at)) //nolint:gosec // not negative
	return binary.BigEndian.AppendUint64(key, id.number)
}

func encodeMessage(b []byte, m *bus.Message) []byte {
	b = append(b, format)
	if m.NotBefore.IsZero() {
		b = append(b, 0)
	} else {
		b = binary.AppendVarint(append(b, 1), m.NotBefore.Unix())
		b = binary.AppendUvarint(b, uint64(m.NotBefore.Nanosecond())) //nolint:gosec // not negative
	}
	for _, s := range [...]string{m.ID, m.Type, m.Group} {
		b = appendString(b, s)
	}
	return append(b, m.Body...)
}

// messageBytes returns an estimate of a message's encoded size.
func messageBytes(m *bus.Message) int {
	return 32 + len(m.ID) + len(m.Type) + len(m.Group) + len(m.Body)
}

func decodeMessage(value []byte) (bus.Message, error) {
	r := reader{rest: value}
	m := bus.Message{NotBefore: r.messageHead(), ID: r.string(), Type: r.string(), Group: r.string()}
	m.Body = bytes.Clone(r.rest)
	return m, r.error("message")
}

// decodeNotBefore reads only the start of a message, so that pages of the file with the rest of the
// body need not be loaded.
func decodeNotBefore(value []byte) (int64, error) {
	r := reader{rest: value}
	t := r.messageHead()
	if t.IsZero() {
		return 0, r.error("message")
	}
	return unixNano(t), r.error("message")
}

func encodeState(s state) []byte {
	b := binary.AppendUvarint([]byte{format}, uint64(s.attempts)) //nolint:gosec // not negative
	return binary.AppendVarint(b, s.until)
}

func decodeState(value []byte) (attempts int32, until int64, err error) {
	r := reader{rest: value}
	r.format()
	attempts, until = int32(r.uvarint()), r.varint() //nolint:gosec // encoded from an int32
	return attempts, until, r.error("state")
}

// encodeLetter encodes a dead letter without its message, which the caller appends.
func encodeLetter(queue, reason string, attempts, room int) []byte {
	b := append(make([]byte, 0, 16+len(queue)+len(reason)+room), format)
	b = appendString(appendString(b, queue), reason)
	return binary.AppendUvarint(b, uint64(attempts)) //nolint:gosec // not negative
}

func decodeLetter(key, value []byte) (letter, error) {
	id := key[len(deadSpace):]
	if len(id) != 16 {
		return letter{}, fmt.Errorf("%w: dead letter key of %d bytes", errCorrupt, len(key))
	}
	l := letter{id: letterID{at: int64(binary.BigEndian.Uint64(id)), number: binary.BigEndian.Uint64(id[8:])}} //nolint:gosec // as encoded
	l.At = time.Unix(0, l.id.at).UTC()
	r := reader{rest: value}
	r.format()
	l.Queue, l.Reason, l.Attempts = r.string(), r.string(), int(r.uvarint()) //nolint:gosec // as encoded
	if err := r.error("dead letter"); err != nil {
		return letter{}, err
	}
	var err error
	l.Message, err = decodeMessage(r.rest)
	return l, err
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// reader reads the parts of a value and remembers whether one was missing.
type reader struct {
	rest []byte
	bad  bool
}

var errShort = errors.New("truncated, or in an unknown format")

func (r *reader) error(what string) error {
	if !r.bad {
		return nil
	}
	return fmt.Errorf("%w: %s %w", errCorrupt, what, errShort)
}

func (r *reader) byte() byte {
	if len(r.rest) == 0 {
		r.bad = true
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

func (r *reader) format() {
	if r.byte() != format {
		r.bad = true
	}
}

func (r *reader) advance(n int) {
	if n <= 0 {
		r.bad = true
		return
	}
	r.rest = r.rest[n:]
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.advance(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	r.advance(n)
	return v
}

func (r *reader) string() string {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

func (r *reader) messageHead() time.Time {
	r.format()
	if r.byte() == 0 {
		return time.Time{}
	}
	seconds := r.varint()
	return time.Unix(seconds, int64(r.uvarint())).UTC() //nolint:gosec // below a billion
}

// encoded is a change in its encoded form.
type encoded struct {
	puts    []pair
	deletes [][]byte
	bury    []burial
}

type pair struct{ key, value []byte }

// encode encodes a change, so that the file's single writer has less to do.
func encode(c change) *encoded {
	e := &encoded{bury: c.bury}
	for _, s := range c.insert {
		e.put(messageKey(s.ref), encodeMessage(make([]byte, 0, messageBytes(s.message)), s.message))
	}
	for _, s := range c.states {
		e.put(stateKey(s.ref), encodeState(s))
	}
	for _, r := range c.remove {
		e.deletes = append(e.deletes, messageKey(r), stateKey(r))
	}
	for _, l := range c.dead {
		head := encodeLetter(l.Queue, l.Reason, l.Attempts, messageBytes(&l.Message))
		e.put(deadKey(l.id), encodeMessage(head, &l.Message))
	}
	for _, id := range c.exhume {
		e.deletes = append(e.deletes, deadKey(id))
	}
	return e
}

func (e *encoded) put(key, value []byte) { e.puts = append(e.puts, pair{key, value}) }

// apply is the change of the file.
func (e *encoded) apply(tx *bolt.Tx) error {
	for _, b := range e.bury {
		if message := tx.Get(messageKey(b.ref)); message != nil {
			tx.Put(deadKey(b.letter), append(encodeLetter(b.queue, b.reason, b.attempts, len(message)), message...))
		}
		tx.Delete(messageKey(b.ref))
		tx.Delete(stateKey(b.ref))
	}
	for _, p := range e.puts {
		tx.Put(p.key, p.value)
	}
	for _, key := range e.deletes {
		tx.Delete(key)
	}
	return nil
}
