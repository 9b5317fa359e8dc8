package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// maxUsage is the maximum period to look back: a month.
const maxUsage = 744 * time.Hour

func usageCommand(app *command.App, brokers WatchBrokers) *cobra.Command {
	last := 24 * time.Hour
	c := &cobra.Command{
		Use: "usage", Short: "Show what the queues held in the last hours",
		Long: "Shows for each queue how many tasks had machines and how many vCPUs they used, on average and at most,\n" +
			"with a small graph of the vCPUs. It counts the newest 500 jobs.",
		Example: "  tradewind usage\n  tradewind usage --last 168h\n  tradewind usage -o json",
		Args:    command.Args(0, 0),
	}
	c.Flags().DurationVar(&last, "last", last, "how far to look back, at most 744h")
	output := command.OutputFlag(c)
	brokers.command(app, c, func(ctx context.Context, b WatchBroker) error {
		if last < 6*time.Minute || last > maxUsage {
			return command.BadInput("use a time from 6m to 744h", "--last is %s", last)
		}
		u, err := b.Usage(ctx, last)
		switch {
		case err != nil:
			return err
		case output.JSON():
			return app.PrintJSON(u)
		case len(u.Queues) == 0:
			app.Tell("no queue held anything in the last %s", text.Span(last))
			return nil
		}
		if u.Partial {
			app.Tell("there were too many jobs or attempts to add up: these numbers are of the newest")
		}
		if u.Simulated {
			app.Tell("%s", app.Style(app.Err).Paint(text.Warn, text.Simulated(1)))
		}
		return app.PrintTable(usageTable(u))
	})
	return c
}

func usageTable(u *apitypes.UsageView) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "QUEUE", Flexible: true}, {Name: "TASKS", Right: true}, {Name: "MAX TASKS", Right: true},
		{Name: "VCPU", Right: true}, {Name: "MAX VCPU", Right: true},
		{Name: "VCPU OVER " + strings.ToUpper(text.Span(u.Now.Sub(u.From))), Optional: 1},
	}}
	for _, q := range u.Queues {
		t.Row(q.Name, text.Tenth(mean(q.Running)), text.Tenth(slices.Max(q.Running)), text.Tenth(mean(q.VCPUs)),
			text.Tenth(slices.Max(q.VCPUs)), spark(q))
	}
	return t
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// sparks is the number of marks in a usage graph.
const sparks = 30

// spark draws the vCPUs of a queue over time. Each mark is the maximum of some steps; the highest bar is the overall
// maximum.
func spark(q apitypes.QueueUsage) string {
	bars := []rune(" ▁▂▃▄▅▆▇█")
	most := slices.Max(q.VCPUs)
	if most == 0 {
		return ""
	}
	var b strings.Builder
	for some := range slices.Chunk(q.VCPUs, max(1, (len(q.VCPUs)+sparks-1)/sparks)) {
		high := slices.Max(some)
		n := int(high / most * float64(len(bars)-1))
		if high > 0 {
			n = max(n, 1)
		}
		b.WriteRune(bars[n])
	}
	return b.String()
}
