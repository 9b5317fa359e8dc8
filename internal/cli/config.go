package cli

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/settings"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
)

// ConfigResult is the output of `config -o json`.
type ConfigResult struct {
	Settings []settings.Row  `json:"settings"`
	Files    []settings.File `json:"files"` // that may set them, the strongest last
}

func (a *app) configCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "config [FILE]",
		Short: "Show the defaults of jobs and the limit for confirmation",
		Long: "Shows the settings that apply to the job in FILE (default: to jobs in this folder), each with its\n" +
			"source. Settings are in ~/.config/tradewind/config.yaml and in " + settings.BesideJob + " next to the\n" +
			"job. The second file takes precedence, but it cannot raise confirmAbove, the cost above which a job\n" +
			"needs a yes. See docs/configuration.md.",
		Example: "  tradewind config\n  tradewind config jobs/train.yaml\n  tradewind config -o json",
		Args:    command.Args(0, 1), ValidArgsFunction: command.CompleteFile,
	}
	output := command.OutputFlag(c)
	c.RunE = func(_ *cobra.Command, given []string) error {
		folder := "."
		if len(given) > 0 && given[0] != command.Stdin {
			if !command.Exists(given[0]) {
				return command.BadInput("name a job file, or leave it out", "%s does not exist", given[0])
			}
			folder = filepath.Dir(given[0])
		}
		s, err := settings.Load(a.Lookup, folder)
		if err != nil {
			return err
		}
		if output.JSON() {
			return a.PrintJSON(ConfigResult{Settings: s.Rows(), Files: s.Files})
		}
		return a.printConfig(s)
	}
	return c
}

func (a *app) printConfig(s *settings.Settings) error {
	t := &text.Table{Columns: []text.Column{
		{Name: "SETTING"}, {Name: "VALUE", Flexible: true}, {Name: "SOURCE", Flexible: true},
	}}
	for _, r := range s.Rows() {
		t.Row(r.Name, text.Clean(r.Text), r.Source)
	}
	if err := a.PrintTable(t); err != nil {
		return err
	}
	for _, f := range s.Files {
		if !f.Exists {
			a.Tell("%s does not exist: it could set any of them", f.Path)
		}
	}
	return nil
}
