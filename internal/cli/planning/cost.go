package planning

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/jobfile"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/cost"
)

// Cost is the cost command.
func Cost(in *command.App) *cobra.Command {
	a := app{in}
	var dir string
	c := &cobra.Command{
		Use:   "cost FILE",
		Short: "Estimate what the control plane on AWS costs for a DAG",
		Long: "Estimates what the broker itself costs on AWS while it runs the DAG in FILE. It runs the DAG through\n" +
			"the broker's functions in virtual time, counts their requests to AWS, and applies list prices. The\n" +
			"cost of machines is not included (`tradewind plan` estimates it). - is standard input.",
		Example: "  tradewind cost examples/train-infer.yaml\n  tradewind cost job.yaml -o json | jq .usd",
		Args:    command.Args(1, 1), ValidArgsFunction: command.CompleteFile,
	}
	command.CatalogFlag(c, &dir)
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		return a.cost(ctx, given[0], dir, output)
	}
	return c
}

func (a app) cost(ctx context.Context, path, dir string, output *command.Choice) error {
	f, err := jobfile.Read(a.App, path)
	if err != nil {
		return err
	}
	// the same file always gets the same bill
	p, _, err := newPlanner(dir, []string{"aws"}, func(o *planner.Options) { o.Now = nil })
	if err != nil {
		return err
	}
	b, err := cost.BillFor(ctx, f.Spec, p, a.Now())
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return command.Because(err, command.ExitInfeasible,
			"`tradewind plan --cloud aws` shows where its tasks could run", "%v", err)
	}
	if output.JSON() {
		return a.PrintJSON(b)
	}
	a.Warn(f.Spec.Warnings)
	return a.printBill(b)
}

// printBill prints a bill for a person.
func (a app) printBill(b *cost.Bill) error {
	t := text.Table{Columns: []text.Column{
		{Name: "SERVICE"}, {Name: "UNIT", Flexible: true}, {Name: "FOR EVENTS", Right: true},
		{Name: "WHILE OPEN", Right: true}, {Name: "USD/MILLION", Right: true, Optional: 1}, {Name: "USD", Right: true},
	}}
	for _, l := range b.Lines {
		t.Row(l.Service, l.Unit, units(l.Events), units(l.Open), fmt.Sprintf("%.4g", l.USDPerUnit*1e6), micro(l.USD))
	}
	if err := a.PrintTable(&t); err != nil {
		return err
	}
	style := a.Style(a.Out)
	err := a.Printf("\n%s: %s USD for the events of %s, and %s USD for the %s until the work has finished: %s USD\n",
		style.Paint(text.Strong, "control plane"),
		micro(b.EventsUSD), text.Count(b.Tasks, "task"), micro(b.OpenUSD), text.Span(text.Hours(b.Hours)), micro(b.USD))
	if err != nil {
		return err
	}
	if err := a.Printf("%s: %s USD a month, only for storage\n\n", style.Paint(text.Strong, "idle"),
		micro(b.Idle.USD)); err != nil {
		return err
	}
	r := text.Table{Columns: []text.Column{{Name: "MOST EXPENSIVE RECORDS"}, {Name: "WRITES", Right: true},
		{Name: "UNITS", Right: true}, {Name: "USD", Right: true}}}
	for _, k := range b.Records[:min(len(b.Records), maxRecordKinds)] {
		r.Row(k.Kind, fmt.Sprint(k.Writes), units(k.Units), micro(k.USD))
	}
	if err := a.PrintTable(&r); err != nil {
		return err
	}
	if err := a.Printf("\nPrices: %s.\n", b.Prices); err != nil {
		return err
	}
	for _, s := range b.Assumptions {
		if err := a.Printf("%s\n", s); err != nil {
			return err
		}
	}
	return nil
}

// maxRecordKinds is the maximum number of kinds of records to show.
const maxRecordKinds = 8

// units formats a count that may be a fraction.
func units(n float64) string {
	switch {
	case n == 0:
		return ""
	case n < 10:
		return fmt.Sprintf("%.3g", n)
	default:
		return fmt.Sprintf("%.0f", n)
	}
}

// micro formats an amount of money to a ten-thousandth of a cent.
func micro(usd float64) string { return fmt.Sprintf("%.6f", usd) }
