package gcpkit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

// Without credentials, the error must name the command that creates them. Any other problem must be in the error.
func TestNoCredentials(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	t.Setenv("GCE_METADATA_HOST", "")
	t.Setenv("NO_GCE_CHECK", "true")
	if _, err := tokens(t.Context(), cloudkit.Settings{}); !errors.Is(err, errNoCredentials) {
		t.Errorf("%v", err)
	}
	broken := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", broken)
	if _, err := tokens(t.Context(), cloudkit.Settings{}); err == nil || errors.Is(err, errNoCredentials) {
		t.Errorf("%v", err)
	}
}
