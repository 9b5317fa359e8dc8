package local_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/cloud/local"
)

// Killed machines have left names in the computer's hosts file. A broker that starts must remove them.
func TestNamesOfKilledMachinesAreRemoved(t *testing.T) {
	const own = "127.0.0.1 localhost\n"
	const left = `127.1.0.1 a-0.g a-0 # tradewind {"pid":1,"start":1,"boot":"another","attempt":"a1"}` + "\n"
	path := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(path, []byte(own+left), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := local.New(local.Config{Dir: t.TempDir(), Environ: []string{agent.EnvHosts + "=" + path}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if text, err := os.ReadFile(path); string(text) != own || err != nil { //nolint:gosec // of the test
		t.Errorf("left: %s %v", text, err)
	}
}
