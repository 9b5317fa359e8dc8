package prices

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// priceSummary is the output of `prices show -o json` for a market.
type priceSummary struct {
	Market      string    `json:"market"`
	Type        string    `json:"type"`
	Zone        string    `json:"zone"`
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	Prices      int       `json:"prices"`
	LastUSD     float64   `json:"lastUSD"`
	MeanUSD     float64   `json:"meanUSD"`
	MinUSD      float64   `json:"minUSD"`
	MaxUSD      float64   `json:"maxUSD"`
	OnDemandUSD float64   `json:"onDemandUSD"`
	// Saved is the share of the on-demand price that the mean price saves. Above is the share of hours with a price
	// above the on-demand price.
	Saved float64 `json:"saved"`
	Above float64 `json:"above"`
}

func summarise(m *market.Market) priceSummary {
	s := priceSummary{Market: m.Name, Type: m.Type, Zone: m.Zone, Prices: m.Spot.Len(), OnDemandUSD: m.OnDemandUSD}
	s.From, s.To = m.Spot.Span()
	n := m.Spot.Len()
	s.LastUSD = m.Spot.USD(n - 1)
	s.MinUSD, s.MaxUSD, s.MeanUSD = s.LastUSD, s.LastUSD, s.LastUSD
	for i := range n {
		s.MinUSD, s.MaxUSD = min(s.MinUSD, m.Spot.USD(i)), max(s.MaxUSD, m.Spot.USD(i))
	}
	if mean, ok := m.Spot.Mean(s.From, s.To); ok {
		s.MeanUSD = mean
	}
	if m.OnDemandUSD > 0 {
		s.Saved = 1 - s.MeanUSD/m.OnDemandUSD
	}
	hourly := m.Spot.Hourly().USD
	for _, usd := range hourly {
		if usd > m.OnDemandUSD {
			s.Above += 1 / float64(len(hourly))
		}
	}
	return s
}

func showCommand(a *command.App) *cobra.Command {
	c := &cobra.Command{
		Use: "show [MARKET]", Short: "Show what spot markets have cost", Args: command.Args(0, 1),
		Long: "Shows the recorded period and the hourly prices of each spot market that matches MARKET. MARKET is a\n" +
			"name or a pattern with * and ?; the name of a market is TYPE-ZONE, with its machine type and its zone.",
		Example: "  tradewind prices show --prices data/aws-2016\n  tradewind prices show 'A100:8-*' -o json",
	}
	f, output := NewFlags(a, c), command.OutputFlag(c)
	c.RunE = func(_ *cobra.Command, given []string) error {
		markets, err := f.Read(strings.Join(given, ""))
		if err != nil {
			return err
		}
		summaries := make([]priceSummary, len(markets))
		for i, m := range markets {
			summaries[i] = summarise(m)
		}
		if output.JSON() {
			return a.PrintJSON(summaries)
		}
		t := &text.Table{Columns: []text.Column{
			{Name: "MARKET"}, {Name: "FROM"}, {Name: "TO"}, {Name: "PRICES", Right: true}, {Name: "LAST", Right: true},
			{Name: "MEAN", Right: true}, {Name: "MIN", Right: true}, {Name: "MAX", Right: true},
			{Name: "ON-DEMAND", Right: true}, {Name: "SAVED", Right: true},
		}}
		for _, s := range summaries {
			onDemand, saved := "", ""
			if s.OnDemandUSD > 0 {
				onDemand, saved = usd(s.OnDemandUSD), fmt.Sprintf("%.0f%%", 100*s.Saved)
			}
			t.Row(text.Clean(s.Market), s.From.Format(time.DateOnly), s.To.Format(time.DateOnly),
				text.Thousands(s.Prices),
				usd(s.LastUSD), usd(s.MeanUSD), usd(s.MinUSD), usd(s.MaxUSD), onDemand, saved)
		}
		return a.PrintTable(t)
	}
	return c
}

func usd(x float64) string { return fmt.Sprintf("%.4f", x) }
