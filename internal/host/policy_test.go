package host_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// lockedBuffer is a log that can be written and read at the same time.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestReloadsPolicyAndLogsInvalidOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	put := func(text string) {
		next := path + ".new" // replaces the file, as editors do
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
	}
	put("actions: [allocate]\ntiers: [[priority]]\n")
	log := &lockedBuffer{}
	h, _ := serve(t, host.Options{State: t.TempDir(), Policy: path, Log: slog.New(slog.NewTextHandler(log, nil))})
	plugin := func() string { return host.PolicyOf(h).Tiers[0][0].Name }
	if got := plugin(); got != "priority" {
		t.Fatalf("at the start %s", got)
	}
	put("actions: [allocate]\ntiers: [[drf]]\n")
	eventually(t, "the changed file is taken", func() bool { return plugin() == "drf" })
	put("actions: [preempt]\ntiers: [[gang]]\n")
	eventually(t, "the bad file is refused", func() bool { return strings.Contains(log.String(), "policy.yaml:1:10: actions: without allocate") })
	put("actions: [allocate]\ntiers: [[gnag]]\n")
	eventually(t, "the next bad file is refused", func() bool { return strings.Contains(log.String(), "policy.yaml:2:10: tiers[0][0]:") })
	if got := plugin(); got != "drf" {
		t.Errorf("in force is %s", got)
	}
	put("actions: [allocate]\ntiers: [[capacity]]\n")
	eventually(t, "it is mended", func() bool { return plugin() == "capacity" })
}

func TestOpenRejectsInvalidPolicy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte("actions: [allocate]\ntiers:\n  - [gnag]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := host.Open(context.Background(), host.Options{State: t.TempDir(), Policy: path})
	if err == nil {
		_ = h.Close()
		t.Fatal("it started")
	}
	var bad *scheduler.PolicyError
	if !errors.As(err, &bad) || bad.Line != 3 || bad.Field != "tiers[0][0]" || bad.File != path {
		t.Errorf("it says %v", err)
	}
}
