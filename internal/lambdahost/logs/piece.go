package logs

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// The first byte of a record gives the format of the rest: the text; its length and the compressed text; the length of
// an object and the end of its name; or the length of the text's marks, these, and a record of another format.
const (
	textHere     = 't'
	textDeflated = 'z'
	textObject   = 'o'
	textMarked   = 'm'
)

// writeUnit is the unit by which DynamoDB bills writes, and around the size of an item in addition to its key and body
// ("Item sizes and formats" in its developer guide).
const (
	writeUnit = 1 << 10
	around    = len("pk") + len("sk") + len("v") + len("b") + 2
)

// errPiece: a record is damaged, or was written by a newer version.
var errPiece = errors.New("unknown record format")

func units(at string, body int) int {
	return (around + len(at) + len(piece(0)) + body + writeUnit - 1) / writeUnit
}

// seal makes the record of a text, compressed if that saves a write unit: output of tasks is repetitive.
func seal(at string, text []byte) []byte {
	body := append([]byte{textHere}, text...)
	if units(at, len(body)) == 1 {
		return body
	}
	var b bytes.Buffer
	b.WriteByte(textDeflated)
	b.Write(binary.AppendUvarint(nil, uint64(len(text))))
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil && w.Close() == nil && units(at, b.Len()) < units(at, len(body)) {
		return b.Bytes()
	}
	return body
}

// part is one piece of a log.
type part struct {
	offset, size int64
	text         []byte
	deflated     bool // text is compressed
	marks        []wire.LogMark
	key          string // of the object, if the record does not contain the text
}

func partOf(at string, r *store.Record) (p part, err error) {
	if p.offset, err = strconv.ParseInt(r.Key.Sort, 16, 64); err != nil || len(r.Body) == 0 {
		return p, fmt.Errorf("logs: %s/%s is not a piece of a log", at, r.Key.Sort)
	}
	times, body, ok := cutMarks(r.Body)
	if !ok {
		return p, fmt.Errorf("logs: %s/%s: %w", at, r.Key.Sort, errPiece)
	}
	rest := body[1:]
	defer func() {
		if err == nil {
			p.marks, err = wire.ParseMarks(p.offset, p.size, times)
		}
	}()
	switch body[0] {
	case textHere:
		p.text, p.size = rest, int64(len(rest))
		return p, nil
	case textDeflated:
		size, n := binary.Uvarint(rest)
		if n > 0 && size <= wire.MaxLogChunk {
			p.text, p.size, p.deflated = rest[n:], int64(size), true //nolint:gosec // bounded
			return p, nil
		}
	case textObject:
		var end string
		if _, err = fmt.Sscanf(string(rest), "%d %s", &p.size, &end); err == nil {
			p.key = at + end
			return p, nil
		}
	}
	return p, fmt.Errorf("logs: %s/%s: %w", at, r.Key.Sort, errPiece)
}

// withMarks adds the marks of a piece to its record. If they would make it cost more than one more write unit, it keeps
// only the first.
func withMarks(at string, offset int64, marks []wire.LogMark, body []byte) []byte {
	for n := len(marks); n > 0; n = min(n-1, 1) {
		times := wire.FormatMarks(offset, marks[:n])
		marked := binary.AppendUvarint([]byte{textMarked}, uint64(len(times)))
		marked = append(append(marked, times...), body...)
		if n == 1 || units(at, len(marked)) <= units(at, len(body))+1 {
			return marked
		}
	}
	return body
}

// cutMarks separates the marks of a record from the rest, which is not empty.
func cutMarks(body []byte) (times string, rest []byte, ok bool) {
	if body[0] != textMarked {
		return "", body, true
	}
	size, n := binary.Uvarint(body[1:])
	if n <= 0 || size >= uint64(len(body)-1-n) { //nolint:gosec // Uvarint has read n bytes
		return "", nil, false
	}
	body = body[1+n:]
	return string(body[:size]), body[size:], true
}

// open returns the text of a piece that is stored in its record.
func (o *part) open() ([]byte, error) {
	if !o.deflated {
		return o.text, nil
	}
	text := make([]byte, o.size)
	r := flate.NewReader(bytes.NewReader(o.text))
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, fmt.Errorf("logs: a piece of a log at %d: %w", o.offset, err)
	}
	return text, r.Close()
}
