package host

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

func TestDiskGuard(t *testing.T) {
	var free int64
	var failed error
	g := &diskGuard{dir: "/state", log: slog.New(slog.DiscardHandler), space: func(string) (int64, int64, error) {
		return free, 100 << 30, failed
	}}
	for _, step := range []struct {
		mib     int64
		err     error
		paused  bool
		resumed bool
	}{
		{mib: 1024}, {mib: 1023, paused: true}, {mib: 1100, paused: true}, {mib: 1279, paused: true},
		{mib: 5000, err: errors.New("no answer"), paused: true}, {mib: 1280, resumed: true}, {mib: 1100}, {mib: 0, paused: true},
	} {
		free, failed = step.mib<<20, step.err
		if resumed := g.look(); resumed != step.resumed || (g.paused() != "") != step.paused {
			t.Errorf("%d MiB: resumed %v, paused %q", step.mib, resumed, g.paused())
		}
	}
	if !strings.Contains(g.paused(), "/state has 0 MiB free; at least 1280 MiB must be") {
		t.Errorf("%q", g.paused())
	}
	if got := defaultReserve(10 << 30); got != 10<<30/50 {
		t.Errorf("reserve of 10 GiB: %d", got)
	}
}
