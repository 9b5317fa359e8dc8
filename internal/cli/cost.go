package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/cost"
	"github.com/tradewind-broker/tradewind/pkg/broker/planner"
)

func (a *app) costCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "cost FILE",
		Short: "Say what the control plane on AWS would cost for a DAG",
		Long: "Runs the DAG in FILE through the broker's functions in virtual time, counts what they ask of AWS, and prices\n" +
			"it at list prices. The machines are not in it (`tradewind plan` says what they cost). - is standard input.",
		Example: "  tradewind cost examples/train-infer.yaml\n  tradewind cost job.yaml -o json | jq .usd",
		Args:    args(1, 1), ValidArgsFunction: completeFile,
	}
	catalogFlag(c, &dir)
	output := outputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		ctx, cancel := a.interrupts.context(c.Context())
		defer cancel()
		return a.cost(ctx, given[0], dir, output)
	}
	return c
}

func (a *app) cost(ctx context.Context, path, dir string, output *choice) error {
	f, err := a.readJob(path)
	if err != nil {
		return err
	}
	p, _, err := newPlanner(dir, []string{"aws"}, func(o *planner.Options) { o.Now = nil }) // the same file, the same bill
	if err != nil {
		return err
	}
	b, err := cost.Of(ctx, f.spec, p, a.Now())
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return because(err, ExitInfeasible, "`tradewind plan --cloud aws` says where its tasks could run", "%v", err)
	}
	if output.json() {
		return a.printJSON(b)
	}
	a.warn(f.spec.Warnings)
	return a.printBill(b)
}

// printBill shows a bill to a person.
func (a *app) printBill(b *cost.Bill) error {
	t := text.Table{Columns: []text.Column{
		{Name: "SERVICE"}, {Name: "UNIT", Flexible: true}, {Name: "FOR EVENTS", Right: true}, {Name: "WHILE OPEN", Right: true},
		{Name: "USD/MILLION", Right: true, Optional: 1}, {Name: "USD", Right: true},
	}}
	for _, l := range b.Lines {
		t.Row(l.Service, l.Unit, units(l.Events), units(l.Open), fmt.Sprintf("%.4g", l.USDPerUnit*1e6), micro(l.USD))
	}
	if err := a.printTable(&t); err != nil {
		return err
	}
	style := a.style(a.Out)
	err := a.printf("\n%s: %s USD for the events of %s, and %s USD for the %s that work is open: %s USD\n", style.Paint(text.Strong, "control plane"),
		micro(b.EventsUSD), text.Count(b.Tasks, "task"), micro(b.OpenUSD), text.Span(text.Hours(b.Hours)), micro(b.USD))
	if err != nil {
		return err
	}
	if err := a.printf("%s: %s USD a month, for storage alone\n\n", style.Paint(text.Strong, "idle"), micro(b.Idle.USD)); err != nil {
		return err
	}
	r := text.Table{Columns: []text.Column{{Name: "DEAREST RECORDS"}, {Name: "WRITES", Right: true}, {Name: "UNITS", Right: true}, {Name: "USD", Right: true}}}
	for _, k := range b.Records[:min(len(b.Records), dearest)] {
		r.Row(k.Kind, fmt.Sprint(k.Writes), units(k.Units), micro(k.USD))
	}
	if err := a.printTable(&r); err != nil {
		return err
	}
	if err := a.printf("\nPrices: %s.\n", b.Prices); err != nil {
		return err
	}
	for _, s := range b.Assumptions {
		if err := a.printf("%s\n", s); err != nil {
			return err
		}
	}
	return nil
}

// dearest is how many kinds of records are shown.
const dearest = 8

// units is a count that may be a fraction.
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

// micro is an amount of money of which a thousandth of a cent still matters.
func micro(usd float64) string { return fmt.Sprintf("%.6f", usd) }
