package clouds

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/internal/cloudkit"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// Enabled is what a plan is made on: the clouds that may be bought on, in their regions, and what they sell.
type Enabled struct {
	// Regions are those of the clouds that may be bought on, by cloud; none is every region. Nil is every cloud.
	Regions map[string][]string
	// Why says how it came to these clouds, for people.
	Why string
	// Without are the machines that are not bought, though the clouds sell them, as planner.Options.Without has them.
	Without []string
	catalog *catalog.Catalog
	// broker is the one that runs on the state folder; nil is none.
	broker *client.Client
}

// Learned is what the broker that runs here has seen of earlier jobs of a name. Where none runs, or it does not know,
// that is nothing: a plan is made without.
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

// Names are those of the clouds, sorted; none is every cloud.
func (e Enabled) Names() []string { return slices.Sorted(maps.Keys(e.Regions)) }

// Catalog is what may be bought: of a folder of catalogues where one is named, else as the clouds said last.
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

// EnabledOn says what may be bought by a broker on a state folder: the clouds of the one that runs there, else those
// that were added, else all. Clouds that are named take their place.
type EnabledOn func(ctx context.Context, state string, named []string) (Enabled, error)

// Enabling makes an EnabledOn of the clouds that there are.
func Enabling(in *command.App, kits []cloudkit.Kit, find Find) EnabledOn {
	return app{App: in, kits: kits, find: find}.enabled
}

func (a app) enabled(ctx context.Context, state string, named []string) (Enabled, error) {
	settings, err := cloudkit.Load(state)
	if err != nil {
		return Enabled{}, err
	}
	e := Enabled{Why: "no cloud was added, so these are all; `tradewind cloud add` narrows it"}
	names := slices.Sorted(maps.Keys(settings))
	if len(names) > 0 {
		e.Why = "they were added by `tradewind cloud add`"
	}
	r, running, err := a.find(state)
	if err != nil {
		return Enabled{}, err
	}
	if running {
		e.broker = client.New(r.URL, r.Token)
	}
	if running && len(r.Clouds) > 0 {
		names, e.Why = r.Clouds, fmt.Sprintf("the broker that runs (pid %d) buys on them", r.PID)
	}
	if len(named) > 0 {
		if e.Why = "they are named"; len(names) > 0 {
			for _, name := range named {
				if !slices.Contains(names, name) {
					e.Why += "; no broker here could buy on " + name + " (`tradewind cloud add`)"
				}
			}
		}
		names = named
	}
	if len(settings) > 0 || running && len(r.Clouds) > 0 {
		e.catalog, _ = cloudkit.ShelfOf(state).Catalog(ctx)
	}
	if len(names) == 0 {
		return e, nil
	}
	e.Without, e.Regions = cloudkit.Without(settings), map[string][]string{}
	for _, name := range names {
		e.Regions[name] = a.regions(ctx, name, settings)
	}
	return e, nil
}

// regions are those that a cloud is bought on in; none is all.
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
		return nil // what it lacks is said by `tradewind cloud list`
	}
	return o.Regions
}

// Says is a line for people: which clouds are planned on, and why.
func (e Enabled) Says(all []string) string {
	names := e.Names()
	if len(names) == 0 {
		names = all
	}
	return "planned on " + cmp.Or(text.List(names, "and"), "nothing") + ": " + e.Why
}
