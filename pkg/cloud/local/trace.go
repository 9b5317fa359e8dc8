package local

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// ErrTrace is of a trace that cannot be read.
var ErrTrace = errors.New("local: bad availability trace")

// Limits of a trace.
const (
	maxTraceBytes = 64 << 20
	maxTraceSteps = 4 << 20
)

// Trace is how many machines one could get at a place, step by step, as recorded.
type Trace struct {
	Name string
	Gap  time.Duration // between steps
	// Available machines at each step. Where it drops to n, machines of rank n and above are taken.
	Available []uint16
}

// ReadTrace reads a trace in the form of the spot-traces set: {"metadata": {"gap_seconds": 195}, "data": [0, 1, …]}.
// It fails with ErrTrace.
func ReadTrace(r io.Reader) (*Trace, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxTraceBytes+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	if len(b) > maxTraceBytes {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTrace, maxTraceBytes)
	}
	var file struct {
		Metadata struct {
			GapSeconds float64 `json:"gap_seconds"`
		} `json:"metadata"`
		Data []uint16 `json:"data"`
	}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&file); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	gap := file.Metadata.GapSeconds
	switch {
	case !(gap >= 1e-3 && gap <= 1e7):
		return nil, fmt.Errorf("%w: gap_seconds is %v", ErrTrace, gap)
	case len(file.Data) == 0:
		return nil, fmt.Errorf("%w: no data", ErrTrace)
	case len(file.Data) > maxTraceSteps:
		return nil, fmt.Errorf("%w: %d steps, at most %d", ErrTrace, len(file.Data), maxTraceSteps)
	}
	return &Trace{Gap: time.Duration(math.Round(gap * float64(time.Second))), Available: file.Data}, nil
}

// LoadTraces reads every trace below dir: *.json and *.json.gz.
func LoadTraces(dir string) ([]*Trace, error) {
	var traces []*Trace
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".json") && !strings.HasSuffix(path, ".json.gz") {
			return err
		}
		t, err := loadTrace(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		t.Name = filepath.Base(path)
		traces = append(traces, t)
		return nil
	})
	if err == nil && len(traces) == 0 {
		err = fmt.Errorf("%w: none below %s", ErrTrace, dir)
	}
	return traces, err
}

func loadTrace(path string) (*Trace, error) {
	f, err := os.Open(path) //nolint:gosec // named by the user
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	if !strings.HasSuffix(path, ".gz") {
		return ReadTrace(f)
	}
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTrace, err)
	}
	return ReadTrace(z)
}

// Recorded lets spot machines be had and taken as recorded traces say: each place (zone, machine type) follows one of them
// from a point of its own, both chosen by Seed, round and round. On-demand machines can always be had.
type Recorded struct {
	Traces []*Trace
	Seed   uint64
	Notice time.Duration // DefaultNotice when 0
}

// follow returns the trace of an offer's place and the step at which it is at since.
func (b Recorded) follow(o cloud.Offer, since time.Duration) (t *Trace, step int) {
	p := place(o)
	t = b.Traces[mix(b.Seed, "trace", p, 0)%uint64(len(b.Traces))]
	offset := int(mix(b.Seed, "offset", p, 0) % uint64(len(t.Available))) //nolint:gosec // less than the length
	return t, offset + int(max(since, 0)/t.Gap)
}

// at is how many machines there are at a step, of any round.
func (t *Trace) at(step int) int { return int(t.Available[step%len(t.Available)]) }

// Launch finds no capacity where fewer machines are available than asked for.
func (b Recorded) Launch(r Request) Verdict {
	if !r.Offer.Spot || len(b.Traces) == 0 {
		return Verdict{}
	}
	if t, step := b.follow(r.Offer, r.Since); t.at(step) < r.Nodes {
		return noCapacity(r.Offer)
	}
	return Verdict{}
}

// Preemption comes at the first step at which there are too few machines for one of that rank.
func (b Recorded) Preemption(r Request, rank int) (Preemption, bool) {
	if !r.Offer.Spot || len(b.Traces) == 0 {
		return Preemption{}, false
	}
	t, now := b.follow(r.Offer, r.Since)
	ahead := 1
	for t.at(now+ahead) > rank {
		if ahead++; ahead > len(t.Available) {
			return Preemption{}, false
		}
	}
	intoStep := max(r.Since, 0) % t.Gap
	notice := b.Notice
	if notice <= 0 {
		notice = DefaultNotice
	}
	return Preemption{At: r.Now.Add(time.Duration(ahead)*t.Gap - intoStep), Notice: notice}, true
}
