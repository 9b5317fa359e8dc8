package market

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Trace has the results of a probe over time: Available[i] machines were available from i·Gap to (i+1)·Gap.
type Trace struct {
	Name      string
	Gap       time.Duration
	Available []int32
}

// Up reports, for each step, whether at least the given number of nodes was available at the same time.
func (t *Trace) Up(nodes int) []bool {
	up := make([]bool, len(t.Available))
	for i, n := range t.Available {
		up[i] = int(n) >= max(nodes, 1)
	}
	return up
}

// readTrace reads a trace such as `{"metadata":{"gap_seconds":195},"data":[0,1,…]}`. Errors are *BadData; Row is the
// index of the value.
func readTrace(name string, in io.Reader) (*Trace, error) {
	var raw struct {
		Metadata struct {
			GapSeconds *float64 `json:"gap_seconds"`
		} `json:"metadata"`
		Data []json.RawMessage `json:"data"`
	}
	if err := json.NewDecoder(in).Decode(&raw); err != nil {
		reason := err.Error()
		if errors.Is(err, io.EOF) {
			reason = "the file is empty"
		}
		return nil, &BadData{File: name, Reason: reason}
	}
	gap := raw.Metadata.GapSeconds
	if gap == nil || !(*gap >= 1) || *gap > 86400 {
		return nil, &BadData{File: name, Column: "metadata.gap_seconds",
			Reason: "it must be a number of seconds from 1 to 86400"}
	}
	if len(raw.Data) == 0 {
		return nil, &BadData{File: name, Column: "data", Reason: "it has no values"}
	}
	t := &Trace{Name: name, Gap: time.Duration(*gap * float64(time.Second)), Available: make([]int32, len(raw.Data))}
	for i, value := range raw.Data {
		n, reason := parseCount(value)
		if reason != "" {
			return nil, &BadData{File: name, Row: i, Column: fmt.Sprintf("data[%d]", i), Reason: reason}
		}
		t.Available[i] = n
	}
	return t, nil
}

// parseCount parses a number of machines. If it is invalid, reason explains why.
func parseCount(value json.RawMessage) (n int32, reason string) {
	var f *float64
	if err := json.Unmarshal(value, &f); err != nil {
		return 0, fmt.Sprintf("%s is not a number", value)
	}
	switch {
	case f == nil:
		return 0, "the value is missing"
	case *f < 0:
		return 0, fmt.Sprintf("%s: a number of machines cannot be negative", value)
	case *f != math.Trunc(*f) || *f > math.MaxInt32:
		return 0, fmt.Sprintf("%s is not a whole number of machines", value)
	}
	return int32(*f), ""
}
