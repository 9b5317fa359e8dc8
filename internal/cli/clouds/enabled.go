package clouds

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Enabled is the input of a plan: the clouds to buy on, their regions, and their offers.
type Enabled struct {
	// Regions are the regions to buy in, by cloud; an empty list means every region. Nil means every cloud.
	Regions map[string][]string
	// Why explains the choice of clouds to people.
	Why string
	// Without lists machines that are not bought although the clouds sell them, see planner.Options.Without.
	Excluded []string
	// Archs are the architectures for which the running broker has an agent, by cloud, see planner.Options.Archs.
	Archs map[string][]string
	// Services are the managed services that the settings of these clouds allow; nil if no cloud was added.
	Services map[string]bool
	// Mail says that machines get their orders as messages in a bucket: the broker has no public URL.
	Mail bool
	// Limit is what the running broker may have of bought machines at the same time.
	Limit   config.Limit
	catalog *catalog.Catalog
	// broker is the running broker of the state folder; nil means none.
	broker *client.Client
}

// Learned returns what the running broker has measured in earlier jobs with this name. If no broker is running, or it
// has no measurements, the history is empty, and planning does without.
func (e Enabled) Learned(ctx context.Context, job string) apitypes.History {
	if e.broker == nil {
		return apitypes.History{}
	}
	h, err := e.broker.Learned(ctx, job)
	if err != nil {
		return apitypes.History{}
	}
	return *h
}

// Names returns the names of the clouds, sorted; empty means every cloud.
func (e Enabled) Names() []string { return slices.Sorted(maps.Keys(e.Regions)) }

// Catalog returns the available offers: from the catalogues in dir if given, otherwise from the latest known offers.
func (e Enabled) Catalog(dir string) (*catalog.Catalog, error) {
	c := e.catalog
	if dir != "" || c == nil {
		var err error
		if c, err = catalog.Open(dir); err != nil {
			return nil, err
		}
	}
	if len(e.Regions) == 0 {
		return c, nil
	}
	return cloudkit.Narrow(c, e.Regions, false)
}

// EnabledFunc returns the clouds that a broker on a state folder buys on: the named ones; without names, the clouds of
// the running broker, or those that were added, or all.
type EnabledFunc func(ctx context.Context, state string, named []string) (Enabled, error)

// Enabling returns an EnabledOn for the available clouds.
func Enabling(in *command.App, kits []cloudkit.Kit, find Find) EnabledFunc {
	return app{App: in, kits: kits, find: find}.enabled
}

func (a app) enabled(ctx context.Context, state string, named []string) (Enabled, error) {
	settings, err := cloudkit.Load(state)
	if err != nil {
		return Enabled{}, err
	}
	e := Enabled{Why: "no cloud was added, so all are used; `tradewind cloud add` restricts them"}
	names := slices.Sorted(maps.Keys(settings))
	if len(names) > 0 {
		e.Why = "added by `tradewind cloud add`"
	}
	r, running, err := a.find(state)
	if err != nil {
		return Enabled{}, err
	}
	if running {
		e.broker, e.Limit = client.New(r.URL, r.Token), config.Limit(r.Limit)
	}
	if running && len(r.Clouds) > 0 {
		names, e.Why = r.Clouds, fmt.Sprintf("the running broker (pid %d) buys on them", r.PID)
	}
	if len(named) > 0 {
		if e.Why = "named on the command line"; len(names) > 0 {
			for _, name := range named {
				if !slices.Contains(names, name) {
					e.Why += "; no broker here can buy on " + name + " (`tradewind cloud add`)"
				}
			}
		}
		names = named
	}
	if len(settings) > 0 || running && len(r.Clouds) > 0 {
		e.Mail = a.mails(names, r, running)
		e.catalog, _ = cloudkit.CatalogStoreOf(state).Catalog(ctx)
	}
	if len(names) == 0 {
		return e, nil
	}
	e.Excluded, e.Regions = cloudkit.NotBought(settings), map[string][]string{}
	e.Services = servicesOf(settings, names)
	for _, name := range names {
		e.Regions[name] = a.regions(ctx, name, settings)
		if running && len(r.Archs) > 0 && slices.Contains(r.Clouds, name) {
			if e.Archs == nil {
				e.Archs = map[string][]string{}
			}
			e.Archs[name] = r.Archs
		}
	}
	return e, nil
}

// mails reports whether the machines of these clouds get their orders through a bucket: not from a broker with a public
// URL, and not if one of the clouds needs it.
func (a app) mails(names []string, r host.Running, running bool) bool {
	if running {
		return len(r.Clouds) > 0 && r.PublicURL == ""
	}
	return !slices.ContainsFunc(names, func(name string) bool {
		k, err := a.kit(name)
		return err == nil && k.NeedsAddress
	})
}

// servicesOf returns the services that the settings of clouds allow; nil without any settings.
func servicesOf(settings map[string]cloudkit.Settings, clouds []string) map[string]bool {
	if len(settings) == 0 {
		return nil
	}
	all := map[string]bool{}
	for _, name := range clouds {
		for _, service := range settings[name].Services {
			all[service] = true
		}
	}
	return all
}

// regions returns the regions to buy in on a cloud; empty means all.
func (a app) regions(ctx context.Context, name string, settings map[string]cloudkit.Settings) []string {
	s, added := settings[name]
	if !added || len(s.Regions) > 0 {
		return s.Regions
	}
	k, err := a.kit(name)
	if err != nil {
		return nil
	}
	o, err := k.Open(ctx, cloudkit.Request{Settings: s, Lookup: a.Lookup, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil // `tradewind cloud list` shows what is missing
	}
	return o.Regions
}

// Describe returns a line for people: the clouds that were planned on, and why.
func (e Enabled) Describe(all []string) string {
	names := e.Names()
	if len(names) == 0 {
		names = all
	}
	return "planned on " + cmp.Or(text.List(names, "and"), "nothing") + ": " + e.Why
}
