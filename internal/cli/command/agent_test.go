package command

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAgentUsesProgramOfSameVersion: an agent of another version may not be compatible with the broker.
func TestAgentUsesProgramOfSameVersion(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(self), AgentProgram)
	t.Cleanup(func() { _ = os.Remove(beside) })
	for _, c := range []struct {
		name, version, script string
		taken                 bool
	}{
		{"none", "v1.2.3", "", false},
		{"of this version", "v1.2.3", "echo tradewind-agent v1.2.3", true},
		{"of another", "v1.2.4", "echo tradewind-agent v1.2.3", false},
		{"that does not know", "v1.2.3", "exit 1", false},
		{"of no version, as this one", Unversioned, "echo tradewind-agent dev", false},
	} {
		if c.script != "" {
			script := "#!/bin/sh\n[ \"$*\" = --version ] && " + c.script + "\n"
			if err := os.WriteFile(beside, []byte(script), 0o700); err != nil { //nolint:gosec // a program
				t.Fatal(err)
			}
		}
		got := (&App{Env: &Env{Version: c.version}}).Agent(t.Context())
		if taken := len(got) == 1 && got[0] == beside; taken != c.taken || !taken && got != nil {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}
