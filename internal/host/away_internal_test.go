package host

import (
	"testing"
	"time"
)

// TestWaitsForMachinesAfterSleep: the broker waits for its machines only if it was suspended before.
func TestWaitsForMachinesAfterSleep(t *testing.T) {
	for _, c := range []struct {
		away   time.Duration
		bought bool
		waits  bool
	}{
		{15 * time.Second, true, false}, {time.Minute, true, false}, {61 * time.Second, true, true},
		{7 * time.Hour, true, true}, {7 * time.Hour, false, false}, {-time.Hour, true, false},
	} {
		if waits := hold(c.away, c.bought) > 0; waits != c.waits {
			t.Errorf("%+v: %v", c, waits)
		}
	}
	dir := t.TempDir()
	s, err := openState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !s.lastWorked().IsZero() {
		t.Error("somebody worked on a new folder")
	}
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	if err := s.writeJSON("clock.json", clockMark{Virtual: at, Wall: at}); err != nil {
		t.Fatal(err)
	}
	if got := s.lastWorked(); !got.Equal(at) {
		t.Errorf("last worked %v", got)
	}
}
