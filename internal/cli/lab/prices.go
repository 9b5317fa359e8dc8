package lab

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/atomicfile"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// Prices is the command prices.
func Prices(in *command.App) *cobra.Command {
	a := app{in}
	c := &cobra.Command{
		Use: "prices", Short: "Look at recorded spot prices, chart them, and import more",
		Long: "Looks at recorded spot prices: those of --prices, a folder of CSV files, or those that were imported\n" +
			"into the state folder. docs/bidding.md has the forms of the files.",
		Example: "  tradewind prices import data/gcp-2026\n  tradewind prices show 'n1-standard-4-*'\n" +
			"  tradewind prices chart m4.10xlarge-us-east-1a --prices data/aws-2016",
	}
	command.Group(c)
	c.AddCommand(a.pricesShowCommand(), a.pricesChartCommand(), a.pricesImportCommand())
	return c
}

// pricesFlags say which prices a command looks at.
type pricesFlags struct{ dir, state string }

func (a app) pricesFlags(c *cobra.Command) *pricesFlags {
	var f pricesFlags
	c.Flags().StringVar(&f.dir, "prices", "", "folder of recorded prices (default: what was imported)")
	_ = c.MarkFlagDirname("prices")
	a.StateFlag(c, &f.state)
	return &f
}

// importedPrices is where imported prices lie in a state folder.
func importedPrices(state string) string { return filepath.Join(state, "prices", "imported.csv.gz") }

// read reads the markets that match a pattern, all for an empty one.
func (f *pricesFlags) read(pattern string) ([]*market.Market, error) {
	var markets []*market.Market
	var err error
	if f.dir != "" {
		markets, err = readMarkets(f.dir)
	} else {
		markets, err = readImported(f.state)
		if err == nil && len(markets) == 0 {
			return nil, command.BadInput("name a folder with --prices, or import one with `tradewind prices import`",
				"no prices were imported into %s", f.state)
		}
	}
	if err != nil || pattern == "" {
		return markets, err
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, command.BadInput("* stands for anything, ? for one character", "%q is no pattern", pattern)
	}
	matched := slices.DeleteFunc(slices.Clone(markets), func(m *market.Market) bool {
		ok, _ := path.Match(pattern, m.Name)
		return !ok
	})
	if len(matched) == 0 {
		return nil, command.BadInput("`tradewind prices show` lists them", "no market matches %q; there are %s",
			pattern, text.Count(len(markets), "market"))
	}
	return matched, nil
}

func readImported(state string) ([]*market.Market, error) {
	dir := filepath.Dir(importedPrices(state))
	if _, err := os.Stat(importedPrices(state)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return readMarkets(dir)
}

// priceSummary is what `prices show -o json` says of a market.
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
	// Saved is the share of the on-demand price that the mean price saves; Above the share of hours that cost more than
	// it.
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

func (a app) pricesShowCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "show [MARKET]", Short: "Say what spot markets have cost", Args: command.Args(0, 1),
		Long: "Says of each market that matches MARKET (a name, or a pattern with * and ?) how long it was watched and\n" +
			"what an hour has cost. A market's name is its machine type and zone, as TYPE-ZONE.",
		Example: "  tradewind prices show --prices data/aws-2016\n  tradewind prices show 'A100:8-*' -o json",
	}
	f, output := a.pricesFlags(c), command.OutputFlag(c)
	c.RunE = func(_ *cobra.Command, given []string) error {
		markets, err := f.read(strings.Join(given, ""))
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
				onDemand, saved = usd4(s.OnDemandUSD), fmt.Sprintf("%.0f%%", 100*s.Saved)
			}
			t.Row(text.Clean(s.Market), s.From.Format(time.DateOnly), s.To.Format(time.DateOnly),
				text.Thousands(s.Prices),
				usd4(s.LastUSD), usd4(s.MeanUSD), usd4(s.MinUSD), usd4(s.MaxUSD), onDemand, saved)
		}
		return a.PrintTable(t)
	}
	return c
}

func usd4(x float64) string { return fmt.Sprintf("%.4f", x) }

func (a app) pricesChartCommand() *cobra.Command {
	var days float64
	output := command.NewChoice("text", "text", "svg")
	c := &cobra.Command{
		Use: "chart MARKET", Short: "Draw the price of a spot market over time", Args: command.Args(1, 1),
		Long: "Draws the price of one market over time beside what the machine costs on demand: in the terminal, or as\n" +
			"an SVG.",
		Example: "  tradewind prices chart m4.10xlarge-us-east-1a --prices data/aws-2016\n" +
			"  tradewind prices chart m4.10xlarge-us-east-1a --prices data/aws-2016 --days 7 -o svg >week.svg",
	}
	f := a.pricesFlags(c)
	c.Flags().Float64Var(&days, "days", 0, "only the last days (default: all)")
	c.Flags().VarP(&output, "output", "o", "form of the output")
	command.CompleteChoice(c, "output", &output)
	c.RunE = func(_ *cobra.Command, given []string) error {
		if !(days >= 0) {
			return command.BadInput("", "--days: %v is below 0", days)
		}
		markets, err := f.read(given[0])
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
		Use: "import DIR...", Short: "Add recorded prices to those of the state folder", Args: command.Args(1, 1000),
		Long: "Reads every price file below each DIR (CSV, gzipped or not) and keeps what is new of each market. Exits with\n" +
			"2 for a bad series, with its row and column; nothing is imported then.",
		Example: "  tradewind prices import data/gcp-2026 data/azure-2026",
	}
	a.StateFlag(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(_ *cobra.Command, given []string) error {
		known, err := readImported(state)
		if err != nil {
			return err
		}
		var report importReport
		for _, dir := range given {
			markets, err := readMarkets(dir)
			if err != nil {
				return err
			}
			if known, err = report.merge(known, markets); err != nil {
				return badData(dir, err)
			}
		}
		if err := writeImported(state, known); err != nil {
			return command.Because(err, command.ExitFailed, "", "%v", err)
		}
		if output.JSON() {
			return a.PrintJSON(report)
		}
		return a.Printf("%s new in %s, %s of them new; %s in %s\n", text.Count(report.Prices, "price"),
			text.Count(report.Markets, "market"),
			text.Thousands(report.NewMarkets), text.Count(len(known), "market"), importedPrices(state))
	}
	return c
}

// importReport is what `prices import -o json` says.
type importReport struct {
	Markets    int `json:"markets"`
	NewMarkets int `json:"newMarkets"`
	Prices     int `json:"prices"`
}

// merge adds markets to those known. Prices that repeat the one before say nothing and are left out.
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

// writeImported replaces the file of imported prices in one step.
func writeImported(state string, markets []*market.Market) error {
	file := importedPrices(state)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return atomicfile.Fill(file, 0o600, func(w io.Writer) error {
		z := gzip.NewWriter(w)
		return errors.Join(market.WriteQuotes(z, markets), z.Close())
	})
}
