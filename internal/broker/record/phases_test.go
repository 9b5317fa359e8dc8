package record_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

func TestPhasesAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var phases record.Phases
		for range rapid.IntRange(0, 20).Draw(t, "runs") {
			phase := rapid.SampledFrom([]byte("wrsfxe")).Draw(t, "phase")
			phases = append(phases, bytes.Repeat([]byte{phase}, rapid.IntRange(1, 400).Draw(t, "tasks"))...)
		}
		text, err := json.Marshal(record.Progress{Phases: phases}.Packed())
		if err != nil {
			t.Fatal(err)
		}
		var got record.Progress
		if err := json.Unmarshal(text, &got); err != nil || !bytes.Equal(got.Phases, phases) {
			t.Fatalf("%s is read as %s, %v", phases, got.Phases, err)
		}
		if packed := got.Format == record.PackedFormat; packed != (len(phases) >= 512) {
			t.Fatalf("%d phases have format %d", len(phases), got.Format)
		}
	})
}

func TestPhasesOfLargeJobAreSmall(t *testing.T) {
	phases := strings.Repeat("s", 7000) + strings.Repeat("r", 200) + "s" + strings.Repeat("w", 2799)
	text, err := json.Marshal(record.Progress{Phases: []byte(phases)}.Packed())
	if err != nil || len(text) > 100 {
		t.Errorf("%d bytes, %v: %s", len(text), err, text)
	}
}

func TestWrongPhasesAreRejected(t *testing.T) {
	for _, text := range []string{`"~12"`, `"~99999999999w"`, `"~16777216w16777216w"`, `"?"`} {
		var p record.Phases
		if err := json.Unmarshal([]byte(text), &p); err == nil {
			t.Errorf("%s is read as %d phases", text, len(p))
		}
	}
}
