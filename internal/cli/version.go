package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

// VersionResult is what `version -o json` prints.
type VersionResult struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source
	Modified bool   `json:"modified,omitempty"` // the source was not as committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (a *app) versionCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Say which version this is",
		Long:    "Says which version of Tradewind this is, and what it was built from and with.",
		Example: "  tradewind version\n  tradewind version -o json",
		Args:    command.Args(0, 0),
	}
	output := command.OutputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		v := a.version()
		if output.JSON() {
			return a.PrintJSON(v)
		}
		line := "tradewind " + v.Version + " (" + v.Go + ", " + v.Platform
		if v.Revision != "" {
			line += ", " + v.Revision[:min(len(v.Revision), 12)]
		}
		return a.Printf("%s)\n", line)
	}
	return c
}

func (a *app) version() VersionResult {
	v := VersionResult{Version: a.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Revision = s.Value
			case "vcs.modified":
				v.Modified = s.Value == "true"
			}
		}
	}
	return v
}
