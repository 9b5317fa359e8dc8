package clouds

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// checkRemote lets a remote broker check its clouds, and tries the broker's address from here as a machine would.
func (a app) checkRemote(ctx context.Context, broker Broker, names []string, public string,
	output *command.Choice) error {
	within, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	reports, err := broker.CheckClouds(within)
	if err != nil {
		return err
	}
	result := CloudCheck{OK: true, Clouds: []CheckedCloud{}}
	var sold []string
	buys := slices.ContainsFunc(reports.Clouds, func(r apitypes.CloudReport) bool { return !r.Played })
	for _, r := range reports.Clouds {
		if sold = append(sold, r.Name); len(names) > 0 && !slices.Contains(names, r.Name) {
			continue
		}
		c := CheckedCloud{Name: r.Name, Title: r.Name, Machines: r.Machines, Report: driver.Report{
			Identity: r.Identity, Account: r.Account, Regions: r.Regions,
		}}
		if k, err := a.kit(r.Name); err == nil {
			c.Title = k.Title
		}
		for _, q := range r.Quotas {
			c.Quotas = append(c.Quotas, driver.Quota(q))
		}
		for _, k := range r.Reserved {
			c.Reserved = append(c.Reserved, driver.Reserved(k))
		}
		for _, l := range r.Missing {
			c.Missing = append(c.Missing, driver.Lack(l))
		}
		if c.Played = r.Played; c.Played {
			c.Missing = append(c.Missing, driver.Lack{
				What:  "simulated by the broker's computer: nothing is bought there",
				Mend:  "`tradewind up --clouds " + r.Name + "` buys there, once `tradewind cloud add` has added it",
				Fatal: !buys || len(names) > 0,
			})
		}
		result.Clouds = append(result.Clouds, c)
		result.OK = result.OK && !c.fatal()
	}
	for _, name := range names {
		if !slices.Contains(sold, name) {
			return command.BadInput("`tradewind deploy aws --cloud "+name+"` adds it",
				"the broker at %s does not buy on %s, but on %s", public, name, strings.Join(sold, ", "))
		}
	}
	result.Public = &PublicCheck{URL: public}
	if err := probeAgentPath(ctx, public); err != nil {
		result.Public.Problem = err.Error()
	}
	result.Public.Answers = result.Public.Problem == ""
	result.OK = result.OK && result.Public.Answers
	return a.verdict(ctx, result, output)
}

// probeAgentPath sends a request like a machine without a token, which a broker refuses with its own error. It does not
// use the paths of users, such as the health check: a gateway often requires a signature for those.
func probeAgentPath(ctx context.Context, text string) error {
	address, err := host.PublicURL(text)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+wire.PathWork, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // the body is not read
	if response.StatusCode == http.StatusUnauthorized &&
		strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json") {
		return nil
	}
	if response.StatusCode == http.StatusForbidden {
		return errors.New("a proxy or firewall in front of the broker refuses machines (HTTP 403): allow requests " +
			"without a signature below /v1/agent/")
	}
	return fmt.Errorf("no broker answers machines there: HTTP %d", response.StatusCode)
}
