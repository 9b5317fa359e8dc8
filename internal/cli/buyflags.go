package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/fault"
	"github.com/tradewind-broker/tradewind/pkg/host"
)

// buyFlags say on which clouds a broker on this computer buys machines.
type buyFlags struct {
	clouds     []string
	publicURL  string
	deployment string
	agents     string
	bootWithin time.Duration
}

func (a *app) buyFlags(c *cobra.Command, b *buyFlags) {
	f := c.Flags()
	f.StringSliceVar(&b.clouds, "clouds", nil,
		"clouds to buy machines on, such as aws,lambda; local among them has this\n"+
			"computer play the others (default: it plays all)")
	_ = c.RegisterFlagCompletionFunc("clouds", func(*cobra.Command, []string, string) ([]string,
		cobra.ShellCompDirective) {
		return append(cloudkit.Names(a.kits), cloudkit.Local), cobra.ShellCompDirectiveNoFileComp
	})
	f.StringVar(&b.publicURL, "public-url", "",
		"where bought machines reach this broker: https://HOST, a tunnel or an ingress\nthat leads to its address")
	f.StringVar(&b.deployment, "deployment", "",
		"what bought machines are named or tagged after (default: a name that the\nstate folder keeps)")
	f.StringVar(&b.agents, "agents", "",
		"folder with the agent's programs for bought machines, as make agent builds\n"+
			"them (default: agent/ or ../dist/agent beside this program)")
	_ = c.MarkFlagDirname("agents")
	f.DurationVar(&b.bootWithin, "boot-within", 0,
		"how long a bought machine may take from its launch to its agent's first\n"+
			"call, images pulled included (default: 15m)")
}

// What a machine may be given to boot: less than a minute none needs, and a token to boot with lasts a day.
const (
	leastBoot = time.Minute
	mostBoot  = 12 * time.Hour
)

// checkBoot checks how long machines may take to boot, of which some are bought or none.
func (b *buyFlags) checkBoot(bought bool) error {
	switch {
	case b.bootWithin == 0:
		return nil
	case !bought:
		return command.BadInput("--clouds names the clouds", "--boot-within is for clouds that machines are bought on")
	case b.bootWithin < leastBoot || b.bootWithin > mostBoot:
		return command.BadInput("", "--boot-within: %s is not between %s and %s", b.bootWithin, leastBoot, mostBoot)
	}
	return nil
}

// buyOn fills the options of a broker with the clouds that it is to buy on.
func (a *app) buyOn(o *host.Options, b *buyFlags) error {
	for _, name := range b.clouds {
		if _, _, err := cloudkit.Choose(a.kits, []string{name}); err != nil {
			known := append(cloudkit.Names(a.kits), cloudkit.Local)
			return command.BadInput(fault.OneOf(name, known), "--clouds: %v", err)
		}
	}
	chosen, local, err := cloudkit.Choose(a.kits, b.clouds)
	if err != nil {
		return command.BadInput("", "--clouds: %v", err)
	}
	if err := b.checkBoot(len(chosen) > 0); err != nil {
		return err
	}
	if len(chosen) == 0 {
		if b.publicURL != "" {
			return command.BadInput("--clouds names the clouds",
				"--public-url is for clouds that machines are bought on")
		}
		return nil
	}
	if o.TimeScale != 1 {
		return command.BadInput("leave --time-scale out, or --clouds", "bought machines run in real time")
	}
	if !local && (o.Scenario != "" || o.Seed != 0) {
		return command.BadInput("leave it out, or --clouds",
			"--scenario and --seed are for clouds that this computer plays")
	}
	if o.PublicURL, err = host.PublicURL(b.publicURL); err != nil {
		return command.BadInput("docs/clouds.md says what leads to a broker that listens on loopback",
			"--public-url: %v", err)
	}
	folders := cloudkit.AgentFolders()
	if b.agents != "" {
		folders = []string{b.agents}
	}
	if o.Agents, o.Programs, err = cloudkit.FindAgents(folders...); err != nil {
		return command.BadInput("--agents names another folder", "%v", err)
	}
	settings, err := cloudkit.Load(absolute(o.State))
	if err != nil {
		return err
	}
	for _, k := range chosen {
		if err := k.Ready(settings[k.Name], a.Lookup); err != nil {
			return command.BadInput("`tradewind cloud check` says more", "--clouds: %s: %v", k.Name, err)
		}
		o.Clouds = append(o.Clouds, host.Bought{Kit: k, Settings: settings[k.Name]})
	}
	o.PlayOthers, o.Deployment, o.BootWithin = local, b.deployment, b.bootWithin
	return nil
}
