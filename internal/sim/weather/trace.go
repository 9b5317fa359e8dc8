package weather

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Trace is the recorded number of available spot machines in one market at each step.
type Trace struct {
	Gap       time.Duration
	Available []int
	most      int
}

// MaxTraceBytes is the maximum size of a trace file, decompressed.
const MaxTraceBytes = 64 << 20

// ErrTrace means that a file is not a trace.
var ErrTrace = errors.New("sim: not an availability trace")

// ReadTrace reads an availability trace in the format of Can't Be Late (NSDI '24): JSON with metadata.gap_seconds and
// data, the number of machines available at each step. If compressed is set, r is gzip. It returns ErrTrace if the
// file is not a trace.
func ReadTrace(r io.Reader, compressed bool) (*Trace, error) {
	if compressed {
		zr, err := gzip.NewReader(r)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTrace, err)
		}
		r = zr
	}
	var file struct {
		Metadata struct {
			GapSeconds float64 `json:"gap_seconds"`
		} `json:"metadata"`
		Data []int `json:"data"`
	}
	if err := json.NewDecoder(io.LimitReader(r, MaxTraceBytes)).Decode(&file); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	gap := file.Metadata.GapSeconds
	if !(gap >= 1 && gap <= 7*24*3600) {
		return nil, fmt.Errorf("%w: metadata.gap_seconds is %v, not between 1 and a week", ErrTrace, gap)
	}
	t := &Trace{Gap: time.Duration(gap * float64(time.Second)), Available: file.Data}
	for i, n := range file.Data {
		if n < 0 {
			return nil, fmt.Errorf("%w: data[%d] is %d", ErrTrace, i, n)
		}
		t.most = max(t.most, n)
	}
	if t.most == 0 {
		return nil, fmt.Errorf("%w: nothing is ever available", ErrTrace)
	}
	return t, nil
}

// capacity reports whether a number of machines is available at a time of the trace, which repeats, and until when that
// stays so.
func (t *Trace) capacity(at time.Duration, now time.Time, nodes int) (has bool, until time.Time) {
	need := min(nodes, t.most)
	step := int(at / t.Gap)
	has = t.Available[step%len(t.Available)] >= need
	n := 1
	for n < len(t.Available) && (t.Available[(step+n)%len(t.Available)] >= need) == has {
		n++
	}
	return has, now.Add(time.Duration(step+n)*t.Gap - at)
}
