package pack_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/pack"
)

// TestPackStopsWithContext: reading a single file may take minutes. Pack must stop when its context ends.
func TestPackStopsWithContext(t *testing.T) {
	dir := t.TempDir()
	const size = 64 << 20
	put(t, dir, "data", noise(1, size), 0o600)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var read int64
	_, err := pack.Pack(ctx, filepath.Join(dir, "data"), pack.Options{Read: func(n, _ int64) {
		read += n
		cancel()
	}})
	if !errors.Is(err, context.Canceled) || read > size/2 {
		t.Errorf("%d of %d bytes were read, then: %v", read, size, err)
	}
}
