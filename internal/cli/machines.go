package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func machinesCommand(app *command.App, brokers WatchBrokers) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "machines", Short: "Show the machines that were bought, what they cost and how well they are used",
		Long: "Lists the machines of the newest 500 jobs. A machine runs one attempt of a task, or several tasks of a\n" +
			"job that share it. UTILISATION is the share of the machine's vCPU hours that tasks had reserved. BOOT\n" +
			"is the part of its cost until it was up, IDLE the part for vCPUs that no task had reserved.",
		Example: "  tradewind machines\n  tradewind machines --all\n  tradewind machines --all -o json",
		Args:    command.Args(0, 0),
	}
	c.Flags().BoolVar(&all, "all", false, "also list machines that have ended")
	output := command.OutputFlag(c)
	brokers.command(app, c, func(ctx context.Context, b WatchBroker) error {
		list, err := b.Machines(ctx, all)
		switch {
		case err != nil:
			return err
		case output.JSON():
			return app.PrintJSON(list)
		case len(list.Machines) == 0 && all:
			app.Tell("no machine was bought yet")
			return nil
		case len(list.Machines) == 0:
			app.Tell("no machine runs; --all shows those that have ended")
			return nil
		}
		if list.Partial {
			app.Tell("the list is incomplete: it has only the machines of the newest jobs")
		}
		return app.PrintTable(machineTable(list))
	})
	return c
}

func machineTable(list *apitypes.MachineList) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "MACHINE"}, {Name: "OFFER", Flexible: true, MinWidth: 20, Fit: text.Place}, {Name: "STATE"},
		{Name: "TIME", Right: true}, {Name: "TASKS", Right: true}, {Name: "UTILISATION", Right: true},
		{Name: "USD", Right: true}, {Name: "BOOT", Right: true, Optional: 1}, {Name: "IDLE", Right: true, Optional: 1},
	}}
	for i := range list.Machines {
		m := &list.Machines[i]
		until := m.Until
		if until.IsZero() {
			until = list.Now
		}
		t.Row(m.ID, m.Offer, string(m.State), text.Span(until.Sub(m.Since)), fmt.Sprint(m.Tasks),
			fmt.Sprintf("%.0f%%", 100*m.Utilisation), text.Estimate(m.USD, m.Simulated),
			text.Estimate(m.BootUSD, m.Simulated), text.Estimate(m.IdleUSD, m.Simulated))
	}
	return t
}
