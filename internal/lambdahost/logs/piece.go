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

// The first byte of a record says what follows: the text, its length and itself compressed, or the length of the object
// with it and the end of its name.
const (
	textHere     = 't'
	textDeflated = 'z'
	textObject   = 'o'
)

// writeUnit is what DynamoDB bills a write by, and around what a record's item has beside its key and its body ("Item
// sizes and formats" in its developer guide).
const (
	writeUnit = 1 << 10
	around    = len("pk") + len("sk") + len("v") + len("b") + 2
)

// errPiece is of a record that is damaged, or that a newer version wrote.
var errPiece = errors.New("what it holds is not known")

func units(at string, body int) int {
	return (around + len(at) + len(piece(0)) + body + writeUnit - 1) / writeUnit
}

// seal makes the record of a text, compressed where that saves a unit of writing: what tasks print repeats itself.
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
	deflated     bool   // the text is
	key          string // of the object, where the text is not here
}

func partOf(at string, r *store.Record) (p part, err error) {
	if p.offset, err = strconv.ParseInt(r.Key.Sort, 16, 64); err != nil || len(r.Body) == 0 {
		return p, fmt.Errorf("logs: %s/%s is no piece of a log", at, r.Key.Sort)
	}
	rest := r.Body[1:]
	switch r.Body[0] {
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

// open is the text of a piece that is in its record.
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
