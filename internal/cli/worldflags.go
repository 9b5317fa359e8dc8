package cli

import (
	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/host"
)

// worldFlags adds the options of a broker on this computer.
func (a *app) worldFlags(c *cobra.Command, o *host.Options) {
	a.StateFlag(c, &o.State)
	command.CatalogFlag(c, &o.Catalog)
	f := c.Flags()
	f.Float64Var(&o.TimeScale, "time-scale", 1,
		"real seconds for each second of the job: with 0.001 an hour takes 3.6 s; with\n"+
			"0 recorded tasks take no time")
	f.StringVar(&o.Scenario, "scenario", "", "file that lists which launches fail and which machines are interrupted")
	_ = c.MarkFlagFilename("scenario", "yaml", "yml", "json")
	f.Var(&bootTimes{into: &o.Boots}, "boot-times",
		"take the boot times of simulated machines from this file: CSV with the columns\n"+
			"cloud, type and first_script_line_s (in seconds)")
	_ = c.MarkFlagFilename("boot-times", "csv", "gz")
	f.Uint64Var(
		&o.Seed,
		"seed",
		0,
		"inject random failed launches and spot interruptions, the same ones for the same number; 0 means none",
	)
	policyFlag(c, o)
	f.IntVar(
		&o.MaxMachines,
		"max-machines",
		0,
		"maximum number of machines at the same time on this computer (default: by its processors)",
	)
}

// bootTimes is a flag that names a file of boot times and reads it.
type bootTimes struct {
	name string
	into **hardware.Boots
}

func (b *bootTimes) String() string { return b.name }

func (b *bootTimes) Type() string { return "string" }

func (b *bootTimes) Set(name string) (err error) {
	b.name = name
	*b.into, err = hardware.ReadBootsFile(name)
	return err
}

// checkWorld refuses invalid values.
func checkWorld(o *host.Options) error {
	const most = 1000 // one second takes sixteen minutes: slower than real time helps to watch details
	switch {
	case o.TimeScale < 0 || o.TimeScale > most || o.TimeScale != o.TimeScale:
		return command.BadInput("1 is real time, 0.001 a thousand times faster",
			"--time-scale: %v is not between 0 and %d", o.TimeScale, most)
	case o.Scenario != "" && o.Seed != 0:
		return command.BadInput("a scenario lists the failures, a seed draws them at random",
			"--scenario and --seed exclude each other")
	case o.MaxMachines < 0:
		return command.BadInput("", "--max-machines: %d is below 0", o.MaxMachines)
	case o.Policy != "": // check it before anything starts
		body, err := command.ReadFile(o.Policy)
		if err != nil {
			return err
		}
		_, err = session.ReadPolicy(o.Policy, body)
		return err
	}
	return nil
}

// policyFlag adds the flag for the file that configures the broker's scheduling.
func policyFlag(c *cobra.Command, o *host.Options) {
	c.Flags().StringVar(&o.Policy, "policy", "",
		"file that configures how queued tasks are admitted; edits take effect at once (see\n"+
			"\"tradewind queue policy check\")")
	_ = c.MarkFlagFilename("policy", "yaml", "yml")
}
