package watching

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

// ahead is how far ahead the table tells what is expected, hours.
const ahead = 6

func marketsCommand(app *command.App, brokers Brokers) *cobra.Command {
	var only string
	var bids bool
	c := &cobra.Command{
		Use: "markets", Short: "Tell what spot machines cost, are expected to cost, and who bids",
		Long: "Lists the spot markets of which the broker knows something: the price, what is expected of it in six\n" +
			"hours (the mean, and what it is above or below one time in ten), how often machines that were held there\n" +
			"were taken, how often there were none, and the bids. -o json has more hours.",
		Example: "  tradewind markets\n  tradewind markets --only us-east-1 --bids\n  tradewind markets -o json",
		Args:    command.Args(0, 0),
	}
	c.Flags().StringVar(&only, "only", "", "markets whose name, CLOUD/REGION/ZONE/TYPE, has this in it")
	c.Flags().BoolVar(&bids, "bids", false, "markets on which attempts hold machines now")
	output := command.OutputFlag(c)
	brokers.command(app, c, func(ctx context.Context, b Asked) error {
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
			app.Tell("nothing is known of a spot market yet: prices come by refresh, the rest by buying there")
			return nil
		case len(list.Markets) == 0:
			app.Tell("none of %s is like that", text.Count(all, "market"))
			return nil
		}
		return app.PrintTable(marketTable(list.Markets))
	})
	return c
}

func marketTable(markets []apitypes.MarketView) *text.Table {
	t := &text.Table{Columns: []text.Column{
		{Name: "MARKET", Flexible: true, Least: 24, Fit: text.Place}, {Name: "USD/H", Right: true},
		{Name: fmt.Sprintf("IN %d H", ahead), Right: true}, {Name: "LOW TO HIGH", Optional: 1},
		{Name: "TAKEN", Right: true}, {Name: "REFUSED", Right: true}, {Name: "BIDS", Optional: 2},
	}}
	for i := range markets {
		m := &markets[i]
		now, mean, between := "", "", ""
		if m.USD > 0 {
			now = text.USD(m.USD)
		}
		for _, f := range m.Forecast {
			if f.Hours == ahead {
				mean, between = text.USD(f.USD), text.USD(f.Low)+" to "+text.USD(f.High)
			}
		}
		t.Row(m.Offer, now, mean, between, of(m.Preemptions, m.Launches), of(m.Refusals, m.Refusals+m.Launches),
			bidsOf(m.Bids))
	}
	return t
}

// of is how many of some did; empty where there were none.
func of(n, all int) string {
	if all == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", n, all)
}

// bidsOf tells who bids: the one attempt, or how many and up to what.
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
