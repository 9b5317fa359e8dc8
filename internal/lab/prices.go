package lab

import (
	"fmt"
	"sort"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/prices"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

func (a app) pricesCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "prices", Short: "Import recorded spot prices and chart them",
		Long: "Imports recorded spot prices into the state folder, and charts them. docs/bidding.md describes the\n" +
			"files. `tradewind prices show` lists the imported prices.",
		Example: "  tradewind-lab prices import data/gcp-2026\n" +
			"  tradewind-lab prices chart m4.10xlarge-us-east-1a --prices data/aws-2016",
	}
	command.Group(c)
	c.AddCommand(a.pricesChartCommand(), a.pricesImportCommand())
	return c
}

func usd4(x float64) string { return fmt.Sprintf("%.4f", x) }

func (a app) pricesChartCommand() *cobra.Command {
	var days float64
	output := command.NewChoice("text", "text", "svg")
	c := &cobra.Command{
		Use: "chart MARKET", Short: "Draw the price of a spot market over time", Args: command.Args(1, 1),
		Long: "Draws the price of one market over time, with the machine's on-demand price: in the terminal, or as\n" +
			"an SVG.",
		Example: "  tradewind-lab prices chart m4.10xlarge-us-east-1a --prices data/aws-2016\n" +
			"  tradewind-lab prices chart m4.10xlarge-us-east-1a --prices data/aws-2016 --days 7 -o svg >week.svg",
	}
	f := prices.NewFlags(a.App, c)
	c.Flags().Float64Var(&days, "days", 0, "draw only the last days (default: all)")
	c.Flags().VarP(&output, "output", "o", "output format")
	command.CompleteChoice(c, "output", &output)
	c.RunE = func(_ *cobra.Command, given []string) error {
		if !(days >= 0) {
			return command.BadInput("", "--days: %v is below 0", days)
		}
		markets, err := f.Read(given[0])
		if err != nil {
			return err
		}
		if len(markets) > 1 {
			return command.BadInput("name one", "%s match %q: %s and others", text.Count(len(markets), "market"),
				given[0], markets[0].Name)
		}
		from, to := markets[0].Spot.Span()
		if days > 0 && to.Sub(from).Hours() > 24*days {
			from = to.Add(-time.Duration(days * 24 * float64(time.Hour)))
		}
		if output.Value == "svg" {
			return a.priceSVG(markets[0], from, to)
		}
		return a.PrintLines(priceLines(markets[0], from, to, command.Width(a.Out)))
	}
	return c
}

func (a app) pricesImportCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "import DIR...", Short: "Add recorded prices to those in the state folder", Args: command.Args(1, 1000),
		Long: "Reads every price file below each DIR (CSV, optionally gzipped) and stores the new prices of each\n" +
			"market. If a series is invalid, it imports nothing, prints the row and column, and exits with 2.",
		Example: "  tradewind-lab prices import data/gcp-2026 data/azure-2026",
	}
	a.StateFlag(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(_ *cobra.Command, given []string) error {
		known, err := prices.ReadImported(state)
		if err != nil {
			return err
		}
		var report importReport
		for _, dir := range given {
			markets, err := prices.ReadFolder(dir)
			if err != nil {
				return err
			}
			if known, err = report.merge(known, markets); err != nil {
				return prices.BadData(dir, err)
			}
		}
		if err := prices.WriteImported(state, known); err != nil {
			return command.Because(err, command.ExitFailed, "", "%v", err)
		}
		if output.JSON() {
			return a.PrintJSON(report)
		}
		return a.Printf("%s new in %s, %s of them new; %s in %s\n", text.Count(report.Prices, "price"),
			text.Count(report.Markets, "market"),
			text.Thousands(report.NewMarkets), text.Count(len(known), "market"), prices.ImportedFile(state))
	}
	return c
}

// importReport is the output of `prices import -o json`.
type importReport struct {
	Markets    int `json:"markets"`
	NewMarkets int `json:"newMarkets"`
	Prices     int `json:"prices"`
}

// merge adds markets to the known ones. It omits prices that repeat the previous one.
func (r *importReport) merge(known, more []*market.Market) ([]*market.Market, error) {
	at := map[[2]string]*market.Market{}
	for _, m := range known {
		at[[2]string{m.Type, m.Zone}] = m
	}
	for _, m := range more {
		r.Markets++
		k := [2]string{m.Type, m.Zone}
		old := at[k]
		if old == nil {
			r.NewMarkets++
			old = &market.Market{Name: m.Type + "-" + m.Zone, Type: m.Type, Zone: m.Zone, Spot: &market.Series{}}
			at[k], known = old, append(known, old)
		}
		n, err := old.Merge(m)
		if err != nil {
			return known, err
		}
		r.Prices += n
		old.Spot.Compact(time.Time{})
	}
	sort.Slice(known, func(i, j int) bool { return known[i].Name < known[j].Name })
	return known, nil
}
