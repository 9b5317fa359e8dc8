package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// An input's path in a container ends with a slash. The file must go into the folder of that name, as without a
// container.
func TestStageFileIntoContainerFolder(t *testing.T) {
	from := t.TempDir()
	a := &attempt{
		agent: &agent{}, dirs: dirsIn(t.TempDir()), work: &wire.Assignment{}, reports: &reports{}, out: &taskLog{},
		boxed: &containerState{mounts: map[string]string{}},
	}
	for _, in := range []wire.Input{
		{URI: filepath.Join(from, "x.csv"), Path: "/data/"}, {URI: filepath.Join(from, "y.csv"), Path: "/data/"},
		{URI: filepath.Join(from, "x.csv"), Path: "/etc/z.csv"},
	} {
		if err := os.WriteFile(in.URI, []byte(filepath.Base(in.URI)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := a.stageInput(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	for seen, want := range map[string]string{"/data/x.csv": "x.csv", "/data/y.csv": "y.csv", "/etc/z.csv": "x.csv"} {
		at, ok := a.boxed.mounts[seen]
		if !ok {
			at = filepath.Join(a.boxed.mounts[filepath.Dir(seen)], filepath.Base(seen))
		}
		if got, err := os.ReadFile(at); string(got) != want || err != nil {
			t.Errorf("%s is %q, %v", seen, got, err)
		}
	}
}
