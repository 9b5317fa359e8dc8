// Package about is the version and upgrade commands.
package about

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
)

// Result is the output of `version -o json`.
type Result struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"` // of the source
	Modified bool   `json:"modified,omitempty"` // the source had uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Version is the version command of a program.
func Version(a *command.App, program string) *cobra.Command {
	c := &cobra.Command{
		Use: "version", Short: "Print the version",
		Long:    "Prints the version of Tradewind, and the source, Go version and platform it was built with.",
		Example: "  " + program + " version\n  " + program + " version -o json",
		Args:    command.Args(0, 0),
	}
	output := command.OutputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		v := CurrentVersion(a)
		if output.JSON() {
			return a.PrintJSON(v)
		}
		line := program + " " + v.Version + " (" + v.Go + ", " + v.Platform
		if v.Revision != "" {
			line += ", " + v.Revision[:min(len(v.Revision), 12)]
		}
		return a.Printf("%s)\n", line)
	}
	return c
}

// CurrentVersion returns the version of a program.
func CurrentVersion(a *command.App) Result {
	v := Result{Version: a.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
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
