package clouds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// CloudCheck is the output of `cloud check -o json`.
type CloudCheck struct {
	OK     bool           `json:"ok"`
	Clouds []CheckedCloud `json:"clouds"`
	// Public is whether bought machines reach the broker; absent if no address is known.
	Public *PublicCheck `json:"public,omitempty"`
}

// CheckedCloud is the result of checking one cloud.
type CheckedCloud struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	driver.Report
	Machines int  `json:"machines"`         // running machines of this deployment
	Played   bool `json:"played,omitempty"` // simulated by the broker's computer: nothing is bought
}

// PublicCheck is whether a broker answers at the address that bought machines dial.
type PublicCheck struct {
	URL     string `json:"url"`
	Answers bool   `json:"answers"`
	Problem string `json:"problem,omitempty"`
}

// Verdicts, as in `tradewind doctor`.
const (
	checkOK   = "ok"
	checkNote = "note"
	checkFail = "fail"
)

// RemoteBrokers finds the remote broker that --endpoint names. The root command implements it.
type RemoteBrokers struct {
	// Flags adds --state and --endpoint to a command.
	Flags func(c *cobra.Command, state *string)
	// Find returns the remote broker and its address, or nil if the command line names none.
	Find func(context.Context) (b Broker, address string, err error)
	// Running returns the broker that uses a state folder, and a function that closes the connection.
	Running func(ctx context.Context, state string) (b Broker, closing func() error, err error)
}

// Broker is a broker that checks its own clouds.
type Broker interface {
	CheckClouds(context.Context) (*apitypes.CloudReports, error)
}

func (a app) cloudCheckCommand() *cobra.Command {
	var state, public string
	c := &cobra.Command{
		Use: "check [CLOUD...]", Short: "Check whether machines can be bought on the clouds",
		Long: "Asks each added cloud, or each CLOUD, for the identity of your credentials, its regions and quotas.\n" +
			"Prints what is missing, each with the command that fixes it. Then tests whether the broker answers at\n" +
			"the address to which bought machines connect. It buys nothing. Exits with 1 if nothing can be bought\n" +
			"on one of the clouds, or if the broker does not answer.\n" +
			"\n" +
			"With --endpoint, the remote broker answers instead: a deployment on AWS with the checks of its\n" +
			"functions, a broker of `tradewind up` with the clouds on which it buys and those that it simulates.",
		Example: "  tradewind cloud check\n  tradewind cloud check aws -o json\n" +
			"  tradewind cloud check --public-url https://broker.example.org\n" +
			"  tradewind cloud check --endpoint https://abc123.execute-api.us-east-1.amazonaws.com",
		Args: command.Args(0, 100),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return cloudkit.Names(a.kits), cobra.ShellCompDirectiveNoFileComp
		},
	}
	a.elsewhere.Flags(c, &state)
	c.Flags().StringVar(&public, "public-url", "",
		"URL at which bought machines reach the broker (default: that of the running broker)")
	output := command.OutputFlag(c)
	c.RunE = func(c *cobra.Command, given []string) error {
		ctx, cancel := a.Stop.Context(c.Context())
		defer cancel()
		broker, address, err := a.elsewhere.Find(ctx)
		if err != nil {
			return err
		}
		if broker != nil {
			return a.checkRemote(ctx, broker, given, cmp.Or(public, address), output)
		}
		return a.checkClouds(ctx, given, command.Absolute(state), public, output)
	}
	return c
}

func (a app) checkClouds(ctx context.Context, names []string, state, public string, output *command.Choice) error {
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
	if len(names) == 0 && public == "" {
		return command.BadInput("`tradewind cloud add CLOUD` adds one; `tradewind cloud check CLOUD` checks one",
			"no cloud has been added to %s", state)
	}
	result := CloudCheck{OK: true, Clouds: []CheckedCloud{}}
	for _, name := range names {
		checked, err := a.check(ctx, settings, state, name)
		if err != nil {
			return err
		}
		result.Clouds = append(result.Clouds, checked)
		result.OK = result.OK && !checked.fatal()
	}
	if r, running, err := a.find(state); err == nil && running {
		public = cmp.Or(public, r.PublicURL)
		if err := a.checkRunning(ctx, state); err != nil {
			a.logger(slog.LevelWarn).Warn("the running broker did not check its clouds", "err", err)
		}
	}
	if public != "" {
		result.Public = checkPublic(ctx, public)
		result.OK = result.OK && result.Public.Answers
	}
	return a.verdict(ctx, result, output)
}

// CheckFunc checks a cloud with the settings of a state folder. It fails if the cloud is unknown.
type CheckFunc func(ctx context.Context, state, name string) (CheckedCloud, error)

// Checking returns a CheckFunc for the available clouds.
func Checking(in *command.App, kits []cloudkit.Kit, find Find, logger Logger) CheckFunc {
	a := app{App: in, kits: kits, find: find, logger: logger}
	return func(ctx context.Context, state, name string) (CheckedCloud, error) {
		settings, err := cloudkit.Load(state)
		if err != nil {
			return CheckedCloud{}, err
		}
		return a.check(ctx, settings, state, name)
	}
}

// check checks one cloud.
func (a app) check(ctx context.Context, settings map[string]cloudkit.Settings, state,
	name string) (CheckedCloud, error) {
	k, err := a.kit(name)
	if err != nil {
		return CheckedCloud{}, err
	}
	request, err := a.request(settings[name], state)
	if err != nil {
		return CheckedCloud{}, err
	}
	return checkCloud(ctx, k, request), nil
}

// checkRunning makes the broker that uses the state folder check its clouds, too: it may buy again on a cloud that
// refused its calls before.
func (a app) checkRunning(ctx context.Context, state string) error {
	broker, closing, err := a.elsewhere.Running(ctx, state)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	_, err = broker.CheckClouds(ctx)
	return errors.Join(err, closing())
}

func (a app) verdict(ctx context.Context, result CloudCheck, output *command.Choice) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := a.printCheck(result, output); err != nil {
		return err
	}
	if !result.OK {
		return command.Silent(command.ExitFailed)
	}
	return nil
}

// checkWithin is the maximum time for all requests to one cloud.
const checkWithin = 2 * time.Minute

// checkCloud checks one cloud.
func checkCloud(ctx context.Context, k cloudkit.Kit, r cloudkit.Request) CheckedCloud {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	c := CheckedCloud{Name: k.Name, Title: k.Title}
	missing := func(err error) CheckedCloud {
		c.Missing = append(c.Missing, driver.Lack{What: err.Error(), Fatal: true})
		return c
	}
	if err := k.Ready(r.Settings, r.Lookup); err != nil {
		return missing(err)
	}
	o, err := k.Open(ctx, r)
	if err != nil {
		return missing(err)
	}
	if c.Report, err = o.Checker.Check(ctx); err != nil {
		return missing(err)
	}
	if c.fatal() {
		return c
	}
	running, err := machinesOf(ctx, o.Cloud)
	if err != nil {
		return missing(err)
	}
	c.Machines = len(running)
	services, err := k.OpenServices(ctx, r)
	if err != nil {
		return missing(err)
	}
	c.Missing = append(c.Missing, services.Lacks(ctx)...)
	roles, err := k.OpenRoles(ctx, r)
	if err != nil {
		return missing(err)
	}
	c.Missing = append(c.Missing, roles.Missing(ctx)...)
	named, err := r.Settings.ReservedOf(k.Name)
	if err != nil {
		return missing(err)
	}
	for _, m := range named {
		c.Reserved = append(c.Reserved, driver.Reserved{ID: m.ID, Where: m.Where(), InstanceType: m.InstanceType,
			Count: m.Count, USDPerHour: m.USDPerHour, By: m.By})
	}
	return c
}

// fatal reports whether nothing can be bought on the cloud.
func (c CheckedCloud) fatal() bool {
	for _, l := range c.Missing {
		if l.Fatal {
			return true
		}
	}
	return false
}

// answerWithin is the maximum time of a broker's health check, also over a tunnel.
const answerWithin = 15 * time.Second

// checkPublic checks a broker's health at its public address. It sends no token: the address may lead to a stranger.
func checkPublic(ctx context.Context, text string) *PublicCheck {
	c := &PublicCheck{URL: text}
	address, err := host.PublicURL(text)
	if err == nil {
		err = probeHealth(ctx, address)
	}
	if err != nil {
		c.Problem = err.Error()
	}
	c.Answers = err == nil
	return c
}

func probeHealth(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/healthz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // only read
	const most = 4 << 10
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return err
	}
	var health struct{ Status string }
	if response.StatusCode != http.StatusOK || json.Unmarshal(body, &health) != nil || health.Status != "ok" {
		return fmt.Errorf("no broker answers there: HTTP %d; start one with --public-url %s, which must forward to it",
			response.StatusCode, address)
	}
	return nil
}

// reservedLine describes a reservation of an account: how much others use, if known, and how much is free.
func reservedLine(k driver.Reserved) string {
	name := fmt.Sprintf("%s in %s (%s, %s)", cmp.Or(k.What, k.InstanceType), k.Where, k.By, k.ID)
	price := " at " + text.USD(k.USDPerHour) + " additional USD per hour, used first"
	switch {
	case k.UsedLastDay != nil:
		return fmt.Sprintf("reserved: %s for %s, of which %s %% were used in the last day; used first", k.Total, name,
			text.Number(math.Round(100**k.UsedLastDay)))
	case k.Total.IsZero():
		return fmt.Sprintf("reserved: %d of %s%s", k.Count, name, price)
	case k.Has.IsZero():
		return fmt.Sprintf("reserved: %s for %s, all used by others", k.Total, name)
	case k.Has == k.Total:
		return fmt.Sprintf("reserved: %s for %s%s", k.Total, name, price)
	}
	others := k.Total.Minus(k.Has).Floor()
	return fmt.Sprintf("reserved: %s for %s, of which others use %s%s", k.Total, name, others, price)
}

func (a app) printCheck(r CloudCheck, output *command.Choice) error {
	if output.JSON() {
		return a.PrintJSON(r)
	}
	style := a.Style(a.Out)
	line := func(tone text.Tone, verdict, name, detail, hint string) error {
		err := a.Printf("%s  %-11s %s\n", style.Paint(tone, text.Pad(verdict, 4, false)), name, text.Clean(detail))
		if err == nil && hint != "" {
			err = a.Printf("%18s%s\n", "", style.Paint(text.Faint, text.Clean(hint)))
		}
		return err
	}
	for _, c := range r.Clouds {
		if c.Identity != "" {
			detail := c.Identity
			if c.Account != "" {
				detail += ", account " + c.Account
			}
			detail += "; regions " + cmp.Or(strings.Join(c.Regions, ", "), "none") + "; " + text.Count(c.Machines,
				"machine")
			if err := line(text.Good, checkOK, c.Name, detail, ""); err != nil {
				return err
			}
		}
		for _, l := range c.Missing {
			tone, verdict := text.Faint, checkNote
			if l.Fatal {
				tone, verdict = text.Bad, checkFail
			}
			if err := line(tone, verdict, c.Name, l.What, l.Mend); err != nil {
				return err
			}
		}
		for _, k := range c.Reserved {
			if err := line(text.Faint, checkNote, c.Name, reservedLine(k), ""); err != nil {
				return err
			}
		}
		for _, q := range c.Quotas {
			detail := fmt.Sprintf("quota %s in %s: %s", q.Name, cmp.Or(q.Region, "all regions"), text.Number(q.Limit))
			if q.Used > 0 {
				detail += ", of which " + text.Number(q.Used) + " are used"
			}
			if err := line(text.Faint, checkNote, c.Name, detail, ""); err != nil {
				return err
			}
		}
	}
	if p := r.Public; p != nil && p.Answers {
		return line(text.Good, checkOK, "public URL", p.URL+" reaches a broker", "")
	} else if p != nil {
		return line(text.Bad, checkFail, "public URL", p.URL, p.Problem)
	}
	return nil
}
