package mount

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// folder returns a writeBehind without rclone. Its uploads and removals only call functions.
func folder(t *testing.T, send func(context.Context) error) (b *writeBehind, removed *[]string) {
	t.Helper()
	dir := t.TempDir()
	b, removed = &writeBehind{overlay: overlay{lower: t.TempDir(), upper: dir, point: dir}}, &[]string{}
	b.send = func(ctx context.Context, _ string, _ []string) error { return send(ctx) }
	b.remove = func(_ context.Context, file string) error {
		*removed = append(*removed, file)
		return nil
	}
	b.forget = func(context.Context) error { return nil }
	b.reset()
	if err := os.WriteFile(filepath.Join(dir, "result"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return b, removed
}

// A folder cannot be read. Its files must not count as removed.
func TestUnreadableFolderRemovesNothing(t *testing.T) {
	b, removed := folder(t, func(context.Context) error { return nil })
	if _, err := b.pass(t.Context(), 0); err != nil || len(b.sent) != 1 {
		t.Fatalf("%d sent, %v", len(b.sent), err)
	}
	b.upper += "-gone"
	if _, err := b.pass(t.Context(), 0); err == nil {
		t.Error("a pass over a missing folder succeeded")
	}
	if len(*removed) > 0 {
		t.Errorf("removed %v", *removed)
	}
}

// A caller waits for a running upload. It must stop waiting when its context ends.
func TestPassWaitsOnlyUntilContextEnds(t *testing.T) {
	sending, end := make(chan struct{}), make(chan struct{})
	b, _ := folder(t, func(context.Context) error {
		close(sending)
		<-end // even if its caller has given up
		return nil
	})
	first := make(chan error)
	go func() {
		_, err := b.pass(context.Background(), 0)
		first <- err
	}()
	<-sending
	over := errors.New("no more time")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	if err := b.uploadClosed(ctx); !errors.Is(err, ErrUnsent) || !errors.Is(err, over) {
		t.Errorf("settling: %v", err)
	}
	if err := b.flush(ctx, time.Hour); !errors.Is(err, ErrUnsent) || !errors.Is(err, over) {
		t.Errorf("flushing: %v", err)
	}
	if names := (&Mount{behind: b}).Unkept(); len(names) > 0 {
		t.Errorf("not kept: %v", names)
	}
	close(end)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
