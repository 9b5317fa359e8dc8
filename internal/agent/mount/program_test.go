package mount_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/agent/mount/mounttest"
)

func TestFetchDownloadsOnceAndVerifies(t *testing.T) {
	asked := 0
	script := "#!/bin/sh\necho rclone v9.0.0\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = w.Write([]byte(script))
	}))
	defer server.Close()
	dir, digest := t.TempDir(), strings.Fields(mounttest.Shell(t, "printf '"+strings.ReplaceAll(script, "\n", `\n`)+"' | sha256sum"))[0]
	for range 2 {
		path, err := mount.Fetch(t.Context(), server.Client(), dir, server.URL, digest)
		if err != nil || filepath.Dir(path) != dir {
			t.Fatal(path, err)
		}
	}
	if asked != 1 {
		t.Errorf("fetched %d times", asked)
	}
	other := strings.Repeat("0", 64)
	if path, err := mount.Fetch(t.Context(), server.Client(), dir, server.URL, other); !errors.Is(err, mount.ErrNoProgram) {
		t.Errorf("%s, %v", path, err)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestOldRcloneIsRejected(t *testing.T) {
	for version, fits := range map[string]bool{
		"v1.60.1-DEV": false, "v1.75.9": false, mount.Version: true, "v1.76.1": true, "v2.0.0": true, "none": false,
	} {
		path := filepath.Join(t.TempDir(), "rclone")
		if err := os.WriteFile(path, []byte("#!/bin/sh\necho rclone "+version+"\n"), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		_, err := mount.Find(t.Context(), []string{mount.ProgramEnv + "=" + path})
		if fits != (err == nil) || err != nil && !errors.Is(err, mount.ErrNoProgram) {
			t.Errorf("%s: %v", version, err)
		}
	}
}
