package cli

import (
	"cmp"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/cli/clouds"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/host"
)

// buyFlags choose the clouds on which a local broker buys machines.
type buyFlags struct {
	clouds     []string
	publicURL  string
	deployment string
	agents     string
	bootWithin time.Duration
	away       time.Duration
}

func (a *app) buyFlags(c *cobra.Command, b *buyFlags) {
	f := c.Flags()
	f.StringSliceVar(&b.clouds, "clouds", nil,
		"clouds to buy machines on, such as aws,lambda; add local to simulate the\n"+
			"others here (default: simulate all clouds)")
	_ = c.RegisterFlagCompletionFunc("clouds", func(*cobra.Command, []string, string) ([]string,
		cobra.ShellCompDirective) {
		return append(cloudkit.Names(a.clouds.Kits), cloudkit.Local), cobra.ShellCompDirectiveNoFileComp
	})
	f.StringVar(
		&b.publicURL,
		"public-url",
		"",
		"URL at which bought machines reach this broker: https://HOST of a tunnel or ingress that forwards to\n"+
			"--addr",
	)
	awayFlag(c, b)
	f.StringVar(&b.deployment, "deployment", "",
		"prefix of the names or tags of bought machines (default: stored in the state folder)")
	agentsFlag(c, b)
	f.DurationVar(&b.bootWithin, "boot-within", 0,
		"maximum time from a machine's launch to its agent's first call, including\n"+
			"image pulls (default: 15m)")
}

func agentsFlag(c *cobra.Command, b *buyFlags) {
	c.Flags().StringVar(&b.agents, "agents", "",
		"folder with the agents for bought machines, built by make agent (default:\n"+
			"those of the package or clone from which this program runs)")
	_ = c.MarkFlagDirname("agents")
}

func awayFlag(c *cobra.Command, b *buyFlags) {
	c.Flags().DurationVar(&b.away, "away", 0,
		"without --public-url: how long bought machines continue if this computer does\n"+
			"not answer; then they end (default: 10m)")
}

// Limits of --away. URLs signed by Google are valid for at most 12 hours.
const (
	minAway = time.Minute
	maxAway = 12 * time.Hour
)

// checkAway validates --away.
func (b *buyFlags) checkAway() error {
	switch {
	case b.away == 0:
		return nil
	case len(b.clouds) == 0:
		return command.BadInput("name the clouds with --clouds", "--away needs a cloud to buy machines on")
	case b.publicURL != "":
		return command.BadInput("leave out one of them", "--away is for brokers without --public-url")
	case b.away < minAway || b.away > maxAway:
		return command.BadInput("", "--away: %s is not between %s and %s", b.away, minAway, maxAway)
	}
	return nil
}

// Limits of --boot-within. No machine boots in less than a minute, and the boot token is valid for one day.
const (
	minBoot = time.Minute
	maxBoot = 12 * time.Hour
)

// checkBoot validates --boot-within. bought says whether the broker buys machines.
func (b *buyFlags) checkBoot(bought bool) error {
	switch {
	case b.bootWithin == 0:
		return nil
	case !bought:
		return command.BadInput("--clouds names the clouds", "--boot-within needs a cloud to buy machines on")
	case b.bootWithin < minBoot || b.bootWithin > maxBoot:
		return command.BadInput("", "--boot-within: %s is not between %s and %s", b.bootWithin, minBoot, maxBoot)
	}
	return nil
}

// buyOn sets the clouds to buy on in the broker's options.
func (a *app) buyOn(o *host.Options, b *buyFlags) error {
	for _, name := range b.clouds {
		if _, _, err := cloudkit.Choose(a.clouds.Kits, []string{name}); err != nil {
			if len(a.clouds.Kits) == 0 {
				return clouds.Unknown(nil, "", name)
			}
			known := append(cloudkit.Names(a.clouds.Kits), cloudkit.Local)
			return command.BadInput(fault.OneOf(name, known), "--clouds: %v", err)
		}
	}
	chosen, local, err := cloudkit.Choose(a.clouds.Kits, b.clouds)
	if err != nil {
		return command.BadInput("", "--clouds: %v", err)
	}
	if err := cmp.Or(b.checkBoot(len(chosen) > 0), b.checkAway()); err != nil {
		return err
	}
	if len(chosen) == 0 {
		if b.publicURL != "" {
			return command.BadInput("--clouds names the clouds",
				"--public-url needs a cloud to buy machines on")
		}
		return nil
	}
	if o.TimeScale != 1 {
		return command.BadInput("leave out --time-scale or --clouds", "bought machines run in real time")
	}
	if !local && (o.Scenario != "" || o.Seed != 0 || o.Boots != nil) {
		return command.BadInput("leave it out, or leave out --clouds",
			"--scenario, --seed and --boot-times need simulated clouds")
	}
	if b.publicURL != "" {
		if o.PublicURL, err = host.PublicURL(b.publicURL); err != nil {
			return command.BadInput("docs/clouds.md lists ways to forward to a broker that listens on loopback",
				"--public-url: %v", err)
		}
	}
	if err := a.buyWith(o, b, chosen); err != nil {
		return err
	}
	o.Away = b.away
	o.PlayOthers, o.Deployment, o.BootWithin = local, b.deployment, b.bootWithin
	return nil
}

// buyWith sets the settings of the clouds to buy on and the agents of their machines in the broker's options.
func (a *app) buyWith(o *host.Options, b *buyFlags, chosen []cloudkit.Kit) error {
	settings, err := cloudkit.Load(absolute(o.State))
	if err != nil {
		return err
	}
	for _, k := range chosen {
		o.Clouds = append(o.Clouds, host.Bought{Kit: k, Settings: settings[k.Name]})
	}
	if b.publicURL == "" {
		if _, _, err := host.MailStore(o.Clouds); err != nil {
			return command.BadInput("docs/laptop.md and docs/clouds.md describe both ways", "%v", err)
		}
	}
	if err := findAgents(o, b); err != nil {
		return err
	}
	for _, k := range chosen {
		if err := k.Ready(settings[k.Name], a.Lookup); err != nil {
			return command.BadInput("`tradewind cloud check` shows details", "--clouds: %s: %v", k.Name, err)
		}
	}
	return nil
}

// findAgents sets the programs for bought machines in the broker's options, unless they are set.
func findAgents(o *host.Options, b *buyFlags) (err error) {
	if len(o.Agents) > 0 {
		return nil
	}
	folders := cloudkit.AgentFolders()
	if b.agents != "" {
		folders = []string{b.agents}
	}
	if o.Agents, o.Programs, err = cloudkit.FindAgents(folders...); err != nil {
		return command.BadInput(agentsHint(), "%v", err)
	}
	return nil
}

// agentsHint says how to get the agents. On Linux, a program that was installed with `go install` can get the one for
// machines like this computer in the same way; go refuses to install programs for others into a named folder.
func agentsHint() string {
	const hint = "--agents names another folder"
	folders := cloudkit.AgentFolders()
	if runtime.GOOS != "linux" || len(folders) == 0 {
		return hint
	}
	return hint + "; after `go install`, this gets the agent for " + runtime.GOARCH + " machines:\n" +
		"CGO_ENABLED=0 GOBIN=" + quote(filepath.Join(folders[0], runtime.GOARCH)) +
		" go install github.com/tradewind-broker/tradewind/cmd/tradewind-agent@latest"
}
