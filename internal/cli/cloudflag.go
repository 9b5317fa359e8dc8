package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/jobfile"
	"github.com/tradewind-broker/tradewind/internal/cli/planning"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// cloudFlag adds --cloud to a command that submits jobs.
func (a *app) cloudFlag(c *cobra.Command, clouds *[]string) {
	c.Flags().StringSliceVar(clouds, "cloud", nil, "only these clouds: aws,gcp (default: the enabled ones)")
	_ = c.RegisterFlagCompletionFunc("cloud", func(*cobra.Command, []string, string) ([]string,
		cobra.ShellCompDirective) {
		return cloudkit.Names(a.clouds.Kits), cobra.ShellCompDirectiveNoFileComp
	})
}

// onClouds restricts a job to the named clouds. With no names, the job may use all clouds of its broker.
func onClouds(f *jobfile.File, dir string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	c, err := catalog.Open(dir)
	if err != nil {
		return err
	}
	if err := planning.KnownClouds(c, names); err != nil {
		return err
	}
	if err := f.OnClouds(slices.Compact(slices.Sorted(slices.Values(names)))); err != nil {
		return err
	}
	if err := f.Spec.Validate(); err != nil {
		return command.BadInput("leave out --cloud, or change what the task asks for", "--cloud: %v", err)
	}
	return nil
}
