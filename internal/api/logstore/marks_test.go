package logstore_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/logstore"
)

func TestMarksOfLog(t *testing.T) {
	dir := t.TempDir()
	s, err := logstore.New(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // a test
	log := api.Log{Job: "j", Attempt: "j.0.1"}
	at := func(offset, ms int64) wire.LogMark {
		return wire.LogMark{Offset: offset, At: time.UnixMilli(1_764_000_000_000 + ms).UTC()}
	}
	if got, err := s.Marks(t.Context(), log, 0); err != nil || got != nil {
		t.Errorf("a log that is missing: %v, %v", got, err)
	}
	for _, p := range []struct {
		from  int64
		text  string
		marks []wire.LogMark
	}{
		{0, "old\n", nil}, {4, "one\ntwo\n", []wire.LogMark{at(4, 1), at(8, 2)}},
		{12, "three\n", []wire.LogMark{at(8, 9), at(12, 3)}}, // the first mark is already known
	} {
		if err := s.Append(t.Context(), log, p.from, []byte(p.text), p.marks...); err != nil {
			t.Fatal(err)
		}
	}
	for offset, want := range map[int64][]wire.LogMark{
		0: {at(4, 1), at(8, 2), at(12, 3)}, 7: {at(4, 1), at(8, 2), at(12, 3)}, 8: {at(8, 2), at(12, 3)}, 100: {at(12, 3)},
	} {
		if got, err := s.Marks(t.Context(), log, offset); err != nil || !slices.Equal(got, want) {
			t.Errorf("from %d: %v, %v", offset, got, err)
		}
	}
	if err := s.Remove("j"); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Join(dir, "j")); len(left) > 0 {
		t.Errorf("%v remain", left)
	}
}
