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
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver/renew"
)

// CatalogRefresh is what `catalog refresh -o json` prints.
type CatalogRefresh struct {
	OK     bool           `json:"ok"` // every cloud answered
	Clouds []RenewedCloud `json:"clouds"`
}

// RenewedCloud is what a cloud said that it sells.
type RenewedCloud struct {
	renew.Report
	Quotas []driver.Quota `json:"quotas,omitempty"` // of the account, where the cloud tells
}

// Refresh is the command catalog refresh.
func Refresh(in *command.App, kits []cloudkit.Kit, find Find, logger Logger) *cobra.Command {
	a := app{App: in, kits: kits, find: find, logger: logger}
	var state string
	var named []string
	c := &cobra.Command{
		Use: "refresh", Short: "Ask the clouds what they sell, for how much, and what one may hold there",
		Long: "Asks each cloud that was added, or each that --cloud names, which machines it sells and for how much, and\n" +
			"says what is new, gone, dearer and cheaper. Plans are made on that from then on, also by a broker that runs on\n" +
			"the state folder. A cloud that does not answer, or whose list cannot be read, keeps what was known of it.\n" +
			"Exits with 1 when a cloud did not answer. `tradewind up --clouds` does it daily.",
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
		return command.BadInput("`tradewind cloud add CLOUD` adds one; --cloud CLOUD asks one all the same",
			"no cloud was added to %s", state)
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
	reports, err := cloudkit.ShelfOf(state).Renew(ctx, a.Now, sources)
	if err != nil && !errors.Is(err, renew.ErrNobody) {
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

// source opens a cloud when it is its turn: one that cannot be opened is no reason not to ask the others.
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
			return driver.Refreshed{}, errors.New("it does not tell what it sells")
		}
		checkers[k.Name] = o.Checker
		return o.Refresh(ctx, shelf)
	}
}

// quotasWithin bounds how long a cloud may take to tell its quotas.
const quotasWithin = time.Minute

func quotas(ctx context.Context, checker driver.Checker) []driver.Quota {
	ctx, cancel := context.WithTimeout(ctx, quotasWithin)
	defer cancel()
	report, err := checker.Check(ctx)
	if err != nil {
		return nil // `tradewind cloud check` says why
	}
	return report.Quotas
}

func (a app) printRefresh(r CatalogRefresh, output *command.Choice) error {
	if output.JSON() {
		return a.PrintJSON(r)
	}
	t := &text.Table{Columns: []text.Column{{Name: "CLOUD"}, {Name: "OFFERS", Right: true}, {Name: "NEW", Right: true},
		{Name: "GONE", Right: true}, {Name: "DEARER", Right: true}, {Name: "CHEAPER", Right: true},
		{Name: "QUOTAS", Right: true}}}
	for _, c := range r.Clouds {
		if !c.Renewed {
			t.Row(c.Cloud, "as before", "-", "-", "-", "-", "-")
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
		if err := a.Printf("\nthe largest changes of price:\n"); err != nil {
			return err
		}
		if err := a.PrintTable(changes); err != nil {
			return err
		}
	}
	for _, c := range r.Clouds {
		if c.Problem != "" {
			a.Warn([]string{c.Cloud + " keeps what was known of it: " + oneLine(c.Problem)})
		}
		for _, kept := range slices.Sorted(slices.Values(c.Kept)) {
			a.Warn([]string{c.Cloud + ": as it was: " + oneLine(kept)})
		}
	}
	return nil
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
