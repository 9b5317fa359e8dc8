package cli

import (
	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/broker/session"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/host"
)

// worldFlags add what a broker on this computer can be told.
func (a *app) worldFlags(c *cobra.Command, o *host.Options) {
	a.StateFlag(c, &o.State)
	command.CatalogFlag(c, &o.Catalog)
	f := c.Flags()
	f.Float64Var(&o.TimeScale, "time-scale", 1,
		"wall seconds per second of the job: at 0.001 an hour takes 3.6 s;\nat 0 recorded tasks take no time")
	f.StringVar(&o.Scenario, "scenario", "", "file that says which launches fail and which machines are taken")
	_ = c.MarkFlagFilename("scenario", "yaml", "yml", "json")
	f.Uint64Var(&o.Seed, "seed", 0,
		"have launches fail and spot machines be taken at random, the same\nway for the same number; 0 is a calm world")
	policyFlag(c, o)
	f.IntVar(&o.MaxMachines, "max-machines", 0, "most machines at once on this computer (default: by its processors)")
}

// checkWorld refuses values that no broker can take.
func checkWorld(o *host.Options) error {
	const most = 1000 // a second in sixteen minutes: slower than real is for looking closely
	switch {
	case o.TimeScale < 0 || o.TimeScale > most || o.TimeScale != o.TimeScale:
		return command.BadInput("1 is real time, 0.001 a thousand times faster",
			"--time-scale: %v is not between 0 and %d", o.TimeScale, most)
	case o.Scenario != "" && o.Seed != 0:
		return command.BadInput("a scenario says what goes wrong, a seed makes it up",
			"--scenario and --seed exclude each other")
	case o.MaxMachines < 0:
		return command.BadInput("", "--max-machines: %d is below 0", o.MaxMachines)
	case o.Policy != "": // before anything is started
		body, err := command.ReadFile(o.Policy)
		if err != nil {
			return err
		}
		_, err = session.ReadPolicy(o.Policy, body)
		return err
	}
	return nil
}

// policyFlag is the file that tells the broker's sessions how to decide.
func policyFlag(c *cobra.Command, o *host.Options) {
	c.Flags().StringVar(&o.Policy, "policy", "", "file that says how queued tasks are admitted, read again when it "+
		"changes\n(see \"tradewind queue policy check\")")
	_ = c.MarkFlagFilename("policy", "yaml", "yml")
}
