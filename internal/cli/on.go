package cli

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

// onFlags adds to run the flags of a broker that buys machines and has no public address.
func (a *app) onFlags(c *cobra.Command, b *buyFlags) {
	c.Flags().StringSliceVar(&b.clouds, "on", nil,
		"clouds to buy machines on, with this computer's credentials: aws,gcp. Sets\n"+
			"them up if needed; this computer needs no public address (docs/laptop.md)")
	_ = c.RegisterFlagCompletionFunc("on", func(*cobra.Command, []string, string) ([]string,
		cobra.ShellCompDirective) {
		return cloudkit.Names(a.clouds.Kits), cobra.ShellCompDirectiveNoFileComp
	})
	awayFlag(c, b)
	agentsFlag(c, b)
}

// checkOn validates the flags of onFlags, before anything is planned. A job on named clouds is planned on these only.
func (a *app) checkOn(o *runOptions) error {
	for _, name := range o.buy.clouds {
		if !slices.Contains(cloudkit.Names(a.clouds.Kits), name) {
			return clouds.Unknown(a.clouds.Kits, "--on", name)
		}
	}
	switch {
	case len(o.buy.clouds) == 0 && o.buy.agents != "":
		return command.BadInput("", "--agents needs --on")
	case len(o.buy.clouds) > 0 && len(o.clouds) > 0:
		return command.BadInput("leave out --cloud", "--on names the clouds already")
	}
	o.clouds = append(o.clouds, o.buy.clouds...)
	return o.buy.checkAway()
}

// setUpOn sets up the clouds that --on names, and sets them in the broker's options. The first with buckets gets one,
// unless another cloud has one.
func (a *app) setUpOn(ctx context.Context, o *runOptions) error {
	if len(o.buy.clouds) == 0 {
		return nil
	}
	if err := findAgents(&o.host, &o.buy); err != nil { // before anything is created in the cloud
		return err
	}
	state := absolute(o.host.State)
	settings, err := cloudkit.Load(state)
	if err != nil {
		return err
	}
	chosen, _, err := cloudkit.Choose(a.clouds.Kits, o.buy.clouds)
	if err != nil {
		return err
	}
	bucket := !slices.ContainsFunc(chosen, func(k cloudkit.Kit) bool { return len(settings[k.Name].Stores) > 0 })
	for _, k := range chosen {
		needs := bucket && driver.Scheme(k.Name) != ""
		if err := clouds.Added(ctx, a.App, k, state, needs, a.logger); err != nil {
			return err
		}
		bucket = bucket && !needs
	}
	return a.buyOn(&o.host, &o.buy)
}
