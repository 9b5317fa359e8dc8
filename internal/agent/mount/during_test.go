package mount

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// An upload took longer than Spec.Still but made progress all the time. One failure of it must not end the flush.
func TestFlushContinuesAfterLongUpload(t *testing.T) {
	still, tries := 300*time.Millisecond, 0
	b, _ := folder(t, func(context.Context) error {
		tries++
		switch tries {
		case 1:
			return errors.New("connection reset by peer")
		case 2: // a large file: its upload makes progress all the time
			time.Sleep(2 * still)
			return errors.New("connection reset by peer")
		}
		return nil
	})
	if err := b.flush(t.Context(), still); err != nil {
		t.Errorf("after %d try: %v", tries, err)
	}
}

// A task runs `rm -rf dir; mkdir dir` during uploads. The removed files must be removed from the store.
func TestRemovalDuringPassReachesStore(t *testing.T) {
	var b *writeBehind
	var removed *[]string
	first := true
	b, removed = folder(t, func(context.Context) error {
		if !first {
			return nil
		}
		first = false // during the upload, the task runs: rm -rf dir; mkdir dir
		time.Sleep(20 * time.Millisecond)
		for _, f := range []string{"dir", "dir/" + mark + mark + ".opq"} {
			if f == "dir" {
				if err := os.Mkdir(filepath.Join(b.upper, f), 0o700); err != nil {
					t.Error(err)
				}
			} else if err := os.WriteFile(filepath.Join(b.upper, f), nil, 0o600); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	b.daemon = &fuseOverlay{} // fuse-overlayfs marks removals with files
	if err := os.Mkdir(filepath.Join(b.lower, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.lower, "dir", "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b.lastRefresh = time.Now().Add(-refreshInterval) // so that the bucket is listed again after these uploads
	for range 3 {
		if _, err := b.pass(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Contains(*removed, "dir/old") {
		t.Errorf("the task removed dir/old, but the store removed %v", *removed)
	}
}
