package weather

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
)

const smallTrace = `{"metadata": {"gap_seconds": 60}, "data": [1, 1, 0, 0, 4]}`

func TestTraceCapacity(t *testing.T) {
	trace, err := ReadTrace(strings.NewReader(smallTrace), false)
	if err != nil {
		t.Fatal(err)
	}
	now := timeline.Beginning()
	for _, c := range []struct {
		at    time.Duration
		nodes int
		has   bool
		until time.Duration
	}{
		{0, 1, true, 2 * time.Minute},
		{90 * time.Second, 1, true, 30 * time.Second},
		{2 * time.Minute, 1, false, 2 * time.Minute},
		{0, 2, false, 4 * time.Minute},
		{4 * time.Minute, 4, true, time.Minute},
		{4 * time.Minute, 9, true, time.Minute}, // more than the maximum of the trace counts as the maximum
		{5 * time.Minute, 1, true, 2 * time.Minute},
	} {
		has, until := trace.capacity(c.at, now, c.nodes)
		if has != c.has || until.Sub(now) != c.until {
			t.Errorf("%d nodes at %v: %v for %v, want %v for %v", c.nodes, c.at, has, until.Sub(now), c.has, c.until)
		}
	}
}

func TestReadTraceRejectsInvalidFiles(t *testing.T) {
	for name, text := range map[string]string{
		"not JSON": "hello", "no gap": `{"data":[1]}`, "negative": `{"metadata":{"gap_seconds":60},"data":[1,-1]}`,
		"nothing available": `{"metadata":{"gap_seconds":60},"data":[0,0]}`, "empty": `{"metadata":{"gap_seconds":60},"data":[]}`,
	} {
		if _, err := ReadTrace(strings.NewReader(text), false); !errors.Is(err, ErrTrace) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadTrace(strings.NewReader(smallTrace), true); !errors.Is(err, ErrTrace) {
		t.Errorf("not compressed: %v", err)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(smallTrace), false)
	var zipped bytes.Buffer
	zw := gzip.NewWriter(&zipped)
	_, _ = zw.Write([]byte(smallTrace))
	_ = zw.Close()
	f.Add(zipped.Bytes(), true)
	f.Fuzz(func(t *testing.T, body []byte, compressed bool) {
		trace, err := ReadTrace(bytes.NewReader(body), compressed)
		if err != nil {
			if !errors.Is(err, ErrTrace) {
				t.Fatalf("%v", err)
			}
			return
		}
		if _, until := trace.capacity(time.Hour, timeline.Beginning(), 3); !until.After(timeline.Beginning()) {
			t.Fatalf("what begins at %v ends at %v", timeline.Beginning(), until)
		}
	})
}
