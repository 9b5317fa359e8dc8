package mount

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// A file has a name that no object can have. It must be listed as not kept, and other uploads must continue.
func TestInvalidObjectNameDoesNotBlockOthers(t *testing.T) {
	var sent []string
	b, _ := folder(t, nil)
	b.validName = func(name string) bool {
		_, err := grant.Below("s3://bucket/out/", name)
		return err == nil
	}
	b.send = func(_ context.Context, _ string, files []string) error {
		for _, f := range files {
			if !b.validName(f) {
				t.Errorf("%q is sent", f)
			}
		}
		sent = append(sent, files...)
		return nil
	}
	bad := []string{"a\nb", `a\b`, "caf\xe9.txt"} // the last one as in an archive with Latin-1 names
	for _, name := range bad {
		if err := os.WriteFile(filepath.Join(b.upper, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.flush(t.Context(), time.Second); err != nil || len(sent) == 0 {
		t.Errorf("sent is %q: %v", sent, err)
	}
	if unkept := slices.Sorted(maps.Keys(b.unkept)); !slices.Equal(unkept, bad) {
		t.Errorf("not kept is %q", unkept)
	}
}
