package clouds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
)

// CatalogRefresh is the output of `catalog refresh -o json`.
type CatalogRefresh struct {
	OK     bool           `json:"ok"` // every cloud answered
	Clouds []RenewedCloud `json:"clouds"`
}

// RenewedCloud is the refreshed offer list of a cloud.
type RenewedCloud struct {
	renew.Report
	Quotas []driver.Quota `json:"quotas,omitempty"` // of the account, if the cloud reports them
}

// Refresh is the catalog refresh command.
func Refresh(in *command.App, kits []cloudkit.Kit, find Find, logger Logger) *cobra.Command {
	a := app{App: in, kits: kits, find: find, logger: logger}
	var state string
	var named []string
	c := &cobra.Command{
		Use: "refresh", Short: "Fetch offers, prices and quotas from the clouds",
		Long: "Asks each added cloud, or each cloud in --cloud, for its machine types, prices and quotas. Shows which\n" +
			"offers are new, gone, more expensive or cheaper. Plans then use the new data, also those of a broker\n" +
			"that is running for the state folder. If a cloud does not answer or its list cannot be read, its old\n" +
			"data is kept and the command exits with 1. `tradewind up --clouds` refreshes daily.",
		Example: "  tradewind catalog refresh\n  tradewind catalog refresh --cloud aws,gcp\n" +
			"  tradewind catalog refresh -o json | jq '.clouds[] | {cloud, new, gone, dearer, cheaper}'",
		Args: command.Args(0, 0),
	}
	c.Flags().StringSliceVar(&named, "cloud", nil, "only these clouds: aws,gcp")
	_ = c.RegisterFlagCompletionFunc("cloud", func(*cobra.Command, []string, string) ([]string,
		cobra.ShellCompDirective) {
		return cloudkit.Names(a.kits), cobra.ShellCompDirectiveNoFileComp
	})
	a.StateFlag(c, &state)
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		return a.refresh(ctx, named, command.Absolute(state), output)
	}
	return c
}

func (a app) refresh(ctx context.Context, names []string, state string, output *command.Choice) error {
	settings, err := cloudkit.Load(state)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		for _, k := range a.kits {
			if _, added := settings[k.Name]; added {
				names = append(names, k.Name)
			}
		}
	}
	if len(names) == 0 {
		return command.BadInput("`tradewind cloud add CLOUD` adds one; --cloud CLOUD asks one without adding it",
			"no cloud has been added to %s", state)
	}
	var sources []renew.Source
	checkers := map[string]driver.Checker{}
	for _, name := range names {
		k, err := a.kit(name)
		if err != nil {
			return fmt.Errorf("--cloud: %w", err)
		}
		sources = append(sources, renew.Source{Cloud: name, Refresh: a.source(k, settings[name], state, checkers)})
	}
	reports, err := cloudkit.CatalogStoreOf(state).Renew(ctx, a.Now, sources)
	if err != nil && !errors.Is(err, renew.ErrNoAnswer) {
		return err
	}
	result := CatalogRefresh{OK: true, Clouds: []RenewedCloud{}}
	for _, r := range reports {
		one := RenewedCloud{Report: r}
		if checker := checkers[r.Cloud]; r.Renewed && checker != nil {
			one.Quotas = quotas(ctx, checker)
		}
		result.OK = result.OK && r.Renewed
		result.Clouds = append(result.Clouds, one)
	}
	if err := a.printRefresh(result, output); err != nil {
		return err
	}
	if !result.OK {
		return command.Silent(command.ExitFailed)
	}
	return nil
}

// source opens a cloud only when it is needed, so that one that cannot be opened does not affect the others.
func (a app) source(k cloudkit.Kit, s cloudkit.Settings, state string,
	checkers map[string]driver.Checker) driver.Refresh {
	return func(ctx context.Context, shelf driver.Snapshots) (driver.Refreshed, error) {
		if err := k.Ready(s, a.Lookup); err != nil {
			return driver.Refreshed{}, err
		}
		request, err := a.request(s, state)
		if err != nil {
			return driver.Refreshed{}, err
		}
		o, err := k.Open(ctx, request)
		if err != nil {
			return driver.Refreshed{}, err
		}
		if o.Refresh == nil {
			return driver.Refreshed{}, errors.New("it does not publish its offers")
		}
		checkers[k.Name] = o.Checker
		return o.Refresh(ctx, shelf)
	}
}

// quotasWithin is the maximum time to read a cloud's quotas.
const quotasWithin = time.Minute

func quotas(ctx context.Context, checker driver.Checker) []driver.Quota {
	ctx, cancel := context.WithTimeout(ctx, quotasWithin)
	defer cancel()
	report, err := checker.Check(ctx)
	if err != nil {
		return nil // `tradewind cloud check` shows the reason
	}
	return report.Quotas
}

func (a app) printRefresh(r CatalogRefresh, output *command.Choice) error {
	if output.JSON() {
		return a.PrintJSON(r)
	}
	t := &text.Table{Columns: []text.Column{{Name: "CLOUD"}, {Name: "OFFERS", Right: true}, {Name: "NEW", Right: true},
		{Name: "GONE", Right: true}, {Name: "PRICE UP", Right: true}, {Name: "PRICE DOWN", Right: true},
		{Name: "QUOTAS", Right: true}}}
	for _, c := range r.Clouds {
		if !c.Renewed {
			t.Row(c.Cloud, "unchanged", "-", "-", "-", "-", "-")
			continue
		}
		row := []string{c.Cloud}
		for _, n := range []int{c.Offers, c.New, c.Gone, c.Dearer, c.Cheaper, len(c.Quotas)} {
			row = append(row, text.Number(float64(n)))
		}
		t.Row(row...)
	}
	if err := a.PrintTable(t); err != nil {
		return err
	}
	changes := &text.Table{Columns: []text.Column{{Name: "OFFER", Flexible: true}, {Name: "WAS", Right: true},
		{Name: "USD/H", Right: true}, {Name: "CHANGE", Right: true}}}
	for _, c := range r.Clouds {
		for _, change := range c.Largest {
			changes.Row(change.Offer, text.USD(change.WasUSD), text.USD(change.USD),
				fmt.Sprintf("%+.1f %%", 100*change.Share()))
		}
	}
	if len(changes.Rows) > 0 {
		if err := a.Printf("\nlargest price changes:\n"); err != nil {
			return err
		}
		if err := a.PrintTable(changes); err != nil {
			return err
		}
	}
	for _, c := range r.Clouds {
		if c.Problem != "" {
			a.Warn([]string{c.Cloud + " keeps its old data: " + oneLine(c.Problem)})
		}
		for _, kept := range slices.Sorted(slices.Values(c.Kept)) {
			a.Warn([]string{c.Cloud + ": unchanged: " + oneLine(kept)})
		}
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
