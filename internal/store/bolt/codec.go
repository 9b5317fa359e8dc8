package bolt

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/store"
)

// The store's keys in the file:
//
//	"sr" length of the partition (2 bytes), partition, sort key → record
//	"sx" second of expiry (8), the record's key after "sr" → empty
//	"so" number (8) → event of the outbox
//	"se" event ID → its number (8)
//
// Thus the records of a partition are stored together, in the order of the sort key. A record consists of
// a format byte, the version (8), optionally the second of expiry (8, if the format byte says so), and the
// body. An event is the length of its ID (2), the ID and the body. All numbers are big-endian.
var (
	recordSpace = []byte("sr")
	expirySpace = []byte("sx")
	outboxSpace = []byte("so")
	eventSpace  = []byte("se")
)

const (
	formatPlain    = 1
	formatExpiring = 2

	versionOffset = 1
	plainHeader   = versionOffset + 8
	expiryOffset  = plainHeader
	longHeader    = expiryOffset + 8
)

// errCorrupt: the file holds data that no store wrote.
var errCorrupt = ErrCorrupt

func recordKey(k store.Key) []byte {
	return append(partitionPrefix(k.Partition, len(k.Sort)), k.Sort...)
}

// partitionPrefix returns the prefix of all record keys of a partition, with room for more bytes.
func partitionPrefix(partition string, room int) []byte {
	key := make([]byte, 0, len(recordSpace)+2+len(partition)+room)
	key = append(key, recordSpace...)
	key = binary.BigEndian.AppendUint16(key, uint16(len(partition))) //nolint:gosec // at most store.MaxKeyBytes
	return append(key, partition...)
}

// encodeRecord returns a value without its version; setVersion fills it in.
func encodeRecord(body []byte, expires time.Time) []byte {
	if expires.IsZero() {
		value := make([]byte, plainHeader, plainHeader+len(body))
		value[0] = formatPlain
		return append(value, body...)
	}
	value := make([]byte, longHeader, longHeader+len(body))
	value[0] = formatExpiring
	binary.BigEndian.PutUint64(value[expiryOffset:], orderedSecond(store.RoundExpiry(expires)))
	return append(value, body...)
}

func setVersion(value []byte, v store.Version) {
	binary.BigEndian.PutUint64(value[versionOffset:], uint64(v))
}

// header is the part of a value before its body.
type header struct {
	version store.Version
	expires uint64 // as orderedSecond; 0 means never
	size    int
}

func decodeHeader(value []byte) (header, error) {
	switch {
	case len(value) >= plainHeader && value[0] == formatPlain:
		return header{version: store.Version(binary.BigEndian.Uint64(value[versionOffset:])), size: plainHeader}, nil
	case len(value) >= longHeader && value[0] == formatExpiring:
		return header{
			version: store.Version(binary.BigEndian.Uint64(value[versionOffset:])),
			expires: binary.BigEndian.Uint64(value[expiryOffset:]),
			size:    longHeader,
		}, nil
	}
	return header{}, fmt.Errorf("%w: record of %d bytes in an unknown format", errCorrupt, len(value))
}

func decodeRecord(k store.Key, value []byte) (store.Record, error) {
	h, err := decodeHeader(value)
	if err != nil {
		return store.Record{}, fmt.Errorf("%q: %w", k, err)
	}
	r := store.Record{Key: k, Version: h.version, Body: append([]byte(nil), value[h.size:]...)}
	if h.expires != 0 {
		r.Expires = timeOf(h.expires)
	}
	return r, nil
}

// orderedSecond returns t's Unix second as a number whose big-endian bytes sort in the order of time, also before
// 1970.
func orderedSecond(t time.Time) uint64 {
	return uint64(t.Unix()) ^ 1<<63 //nolint:gosec // the sign bit is flipped, not lost
}

func timeOf(second uint64) time.Time {
	return time.Unix(int64(second^1<<63), 0).UTC() //nolint:gosec // as above
}

func expiryKey(second uint64, recordKey []byte) []byte {
	key := binary.BigEndian.AppendUint64(append([]byte(nil), expirySpace...), second)
	return append(key, recordKey[len(recordSpace):]...)
}

// readExpiryKey is the inverse of expiryKey.
func readExpiryKey(key []byte) (second uint64, record []byte, err error) {
	rest := key[len(expirySpace):]
	if len(rest) < 8 {
		return 0, nil, fmt.Errorf("%w: expiry key with %d bytes after the prefix", errCorrupt, len(rest))
	}
	return binary.BigEndian.Uint64(rest), append(append([]byte(nil), recordSpace...), rest[8:]...), nil
}

func outboxKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, len(outboxSpace)+8), outboxSpace...), number)
}

func readNumber(b []byte) (uint64, error) {
	if len(b) != 8 {
		return 0, fmt.Errorf("%w: event number of %d bytes", errCorrupt, len(b))
	}
	return binary.BigEndian.Uint64(b), nil
}

func eventKey(id string) []byte { return append(append([]byte(nil), eventSpace...), id...) }

func encodeEvent(e store.Event) []byte {
	value := make([]byte, 2, 2+len(e.ID)+len(e.Body))
	binary.BigEndian.PutUint16(value, uint16(len(e.ID))) //nolint:gosec // at most store.MaxKeyBytes
	return append(append(value, e.ID...), e.Body...)
}

func decodeEvent(value []byte) (store.Event, error) {
	if len(value) < 2 {
		return store.Event{}, fmt.Errorf("%w: event of %d bytes", errCorrupt, len(value))
	}
	n := int(binary.BigEndian.Uint16(value))
	if len(value) < 2+n {
		return store.Event{}, fmt.Errorf("%w: event of %d bytes with an ID of %d bytes", errCorrupt, len(value), n)
	}
	return store.Event{ID: string(value[2 : 2+n]), Body: append([]byte(nil), value[2+n:]...)}, nil
}
