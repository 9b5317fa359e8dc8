package cli

import (
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

// The command of the hint installs the agent where `run --on` looks for it.
func TestHintInstallsAgentWhereItIsFound(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux")
	}
	folder := filepath.Join(cloudkit.AgentFolders()[0], runtime.GOARCH)
	if hint := agentsHint(); !strings.Contains(hint, "GOBIN="+folder+" go install github.com/") ||
		!strings.HasSuffix(hint, "/cmd/tradewind-agent@latest") {
		t.Errorf("%s", hint)
	}
}
