package record

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strconv"
)

// Phases has one Phase for each task of a job. The record is written whenever a task ends, so the phases of a large
// job are written as runs of equal phases, ~900s64r36w: neighbours mostly have the same phase. Those of a small job
// are written as base64, which older versions can read.
type Phases []byte

// PackedFormat is the format of a Progress whose Phases are written as runs. ChunkedFormat is the format of one with
// members in chunks.
const (
	PackedFormat  = 2
	ChunkedFormat = 3
)

// packedFrom is the number of tasks from which on Phases are written as runs.
const packedFrom = 512

// packedMark begins Phases that are written as runs. It is not in the alphabet of base64.
const packedMark = '~'

// Packed returns the progress with the format in which its phases are written.
func (p Progress) Packed() Progress {
	switch {
	case bytes.IndexByte(p.Phases, PhaseChunked) >= 0:
		p.Format = ChunkedFormat
	case len(p.Phases) >= packedFrom:
		p.Format = PackedFormat
	default:
		p.Format = 0
	}
	return p
}

// MarshalText implements encoding.TextMarshaler.
func (p Phases) MarshalText() ([]byte, error) {
	if len(p) < packedFrom {
		return base64.StdEncoding.AppendEncode(nil, p), nil
	}
	out := []byte{packedMark}
	for i, n := 0, 0; i < len(p); i += n {
		for n = 1; i+n < len(p) && p[i+n] == p[i]; n++ {
		}
		if n > 1 {
			out = strconv.AppendInt(out, int64(n), 10)
		}
		out = append(out, p[i])
	}
	return out, nil
}

// errPhases means that a text is not the phases of a job.
var errPhases = errors.New("record: not the phases of a job")

// maxPhases is greater than the maximum number of tasks of a job.
const maxPhases = 1 << 24

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Phases) UnmarshalText(text []byte) (err error) {
	*p = nil
	if len(text) == 0 || text[0] != packedMark {
		*p, err = base64.StdEncoding.AppendDecode(nil, text)
		return err
	}
	n := 0
	for _, c := range text[1:] {
		if c >= '0' && c <= '9' {
			n = 10*n + int(c-'0')
		}
		if n > maxPhases || len(*p)+n > maxPhases {
			return errPhases
		}
		if c >= '0' && c <= '9' {
			continue
		}
		for range max(n, 1) {
			*p = append(*p, c)
		}
		n = 0
	}
	if n > 0 {
		return errPhases
	}
	return nil
}
