package host

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
)

// TestFullDiskIsLoggedOnce: while the disk is full, records, logs and clock marks cannot be written. All of these
// failures must be logged as one error, until there is room again.
func TestFullDiskIsLoggedOnce(t *testing.T) {
	var out strings.Builder
	free := int64(1 << 30)
	g := &diskGuard{dir: t.TempDir(), reserve: 1 << 20, log: slog.New(slog.DiscardHandler), space: func(string) (int64, int64, error) {
		return free, 100 << 30, nil
	}}
	log := slog.New(diskLog{slog.NewTextHandler(&out, nil), g})
	full := fmt.Errorf("commit: %w", &os.PathError{Op: "write", Path: "/state/x", Err: syscall.ENOSPC})
	for range 10 {
		log.Error("api: internal error", "err", full)
		log.With("job", "j").Warn("clock", "err", full)
	}
	log.Warn("another error", "err", errors.New("not about the disk"))
	got := out.String()
	if n := strings.Count(got, "is full: "); n != 1 || strings.Count(got, "\n") != 2 {
		t.Errorf("the log has %d errors about the disk:\n%s", n, got)
	}
	for _, want := range []string{"level=ERROR", g.dir, " KiB free", "tradewind rm --all-finished"} {
		if !strings.Contains(got, want) {
			t.Errorf("the log does not say %q:\n%s", want, got)
		}
	}
	free = 0
	g.look()
	free = 1 << 30
	if !g.look() {
		t.Fatal("admission does not resume")
	}
	out.Reset()
	log.Error("api: internal error", "err", full)
	if !strings.Contains(out.String(), "is full: ") {
		t.Errorf("the disk is full again, and the log says %q", out.String())
	}
}

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
