package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// forecastHours is how many hours ahead the table forecasts.
const forecastHours = 6

func marketsCommand(app *command.App, brokers WatchBrokers) *cobra.Command {
	var only string
	var bids bool
	c := &cobra.Command{
		Use: "markets", Short: "Show prices, forecasts and bids of spot machines",
		Long: "Lists the spot markets of which the broker has data. For each it shows the price; the forecast for six\n" +
			"hours ahead, with its mean and a range that the price leaves one time in ten on each side; how often\n" +
			"machines of tasks were interrupted; how often no machine was available; and the bids. -o json has more\n" +
			"hours.",
		Example: "  tradewind markets\n  tradewind markets --only us-east-1 --bids\n  tradewind markets -o json",
		Args:    command.Args(0, 0),
	}
	c.Flags().StringVar(&only, "only", "", "only markets whose name, CLOUD/REGION/ZONE/TYPE, contains this text")
	c.Flags().BoolVar(&bids, "bids", false, "only markets on which tasks have machines now")
	output := command.OutputFlag(c)
	brokers.command(app, c, func(ctx context.Context, b WatchBroker) error {
		list, err := b.Markets(ctx)
		if err != nil {
			return err
		}
		all := len(list.Markets)
		list.Markets = slices.DeleteFunc(list.Markets, func(m apitypes.MarketView) bool {
			return !strings.Contains(m.Offer, only) || bids && len(m.Bids) == 0
		})
		switch {
		case output.JSON():
			return app.PrintJSON(list)
		case all == 0:
			app.Tell("there is no data about spot markets yet: `tradewind catalog refresh` adds prices, " +
				"buying adds the rest")
			return nil
		case len(list.Markets) == 0:
			app.Tell("no market matches (of %d)", all)
			return nil
		}
		return app.PrintTable(marketTable(list.Markets))
	})
	return c
}

func marketTable(markets []apitypes.MarketView) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "MARKET", Flexible: true, MinWidth: 24, Fit: text.Place}, {Name: "USD/H", Right: true},
		{Name: fmt.Sprintf("IN %d H", forecastHours), Right: true}, {Name: "LOW TO HIGH", Optional: 1},
		{Name: "INTERRUPTED", Right: true}, {Name: "REFUSED", Right: true}, {Name: "BIDS", Optional: 2},
	}}
	for i := range markets {
		m := &markets[i]
		now, mean, between := "", "", ""
		if m.USD > 0 {
			now = text.USD(m.USD)
		}
		for _, f := range m.Forecast {
			if f.Hours == forecastHours {
				mean, between = text.USD(f.USD), text.USD(f.Low)+" to "+text.USD(f.High)
			}
		}
		t.Row(m.Offer, now, mean, between, outOf(m.Preemptions, m.Launches), outOf(m.Refusals, m.Refusals+m.Launches),
			bidsOf(m.Bids))
	}
	return t
}

// outOf renders "n of all"; empty if all is 0.
func outOf(n, all int) string {
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", n, all)
}

// bidsOf describes the bids: the only one, or their number and the maximum.
func bidsOf(bids []apitypes.Bid) string {
	if len(bids) == 0 {
		return ""
	}
	most := slices.MaxFunc(bids, func(a, b apitypes.Bid) int { return cmp.Compare(a.MaxUSD, b.MaxUSD) })
	if len(bids) == 1 {
		return fmt.Sprintf("%s up to %s", most.Job, text.USD(most.MaxUSD))
	}
	return fmt.Sprintf("%d up to %s", len(bids), text.USD(most.MaxUSD))
}
