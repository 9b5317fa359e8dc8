// Package cloudkit opens the clouds for programs that buy machines. A Kit for each cloud opens its driver, with
// everything that checks the account, verifies machines and reads prices, from settings in the state folder. Each kit
// is a separate package, so that a program links only the clouds on which it can buy; package kits has all of them.
package cloudkit

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/push"
	"github.com/tradewind-broker/tradewind/internal/identity"
	"github.com/tradewind-broker/tradewind/internal/notify"
	"github.com/tradewind-broker/tradewind/internal/secret"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Kit describes a cloud and opens it. Only Setup's result and Open call the cloud.
type Kit struct {
	Name  string // the catalogue's
	Title string // for people: "Lambda GPU cloud"
	// Example has the flags that `cloud add` needs there, or usually gets.
	Example string
	// NeedsAddress means that machines must reach the broker at a public URL, not through a bucket.
	NeedsAddress bool
	// Ready returns what is missing in the settings, with the command that adds it, or nil if nothing is missing. It
	// calls no cloud.
	Ready func(Settings, Lookup) error
	// Account describes the account that the settings use, in a few words: "profile work". It calls no cloud.
	Account func(Settings, Lookup) string
	// Flags adds to a command the flags that set the settings.
	Flags func(*pflag.FlagSet, *Settings)
	// Setup prepares the creation of the networks, roles and topics that buying needs in the cloud; nil means that
	// nothing has to be created. It calls no cloud.
	Setup func(context.Context, Request) (Setup, error)
	// Open creates the driver.
	Open func(context.Context, Request) (*Opened, error)
	// Services opens the managed services that the settings name; nil means that the cloud has none, or that the
	// program does not buy them.
	Services func(context.Context, Request) (*Services, error)
	// Roles prepares the roles that the services need; nil means that they need none. It calls no cloud.
	Roles func(context.Context, Request) (Roles, error)
}

// Names returns the names of kits, in the same order.
func Names(kits []Kit) []string {
	names := make([]string, len(kits))
	for i, k := range kits {
		names[i] = k.Name
	}
	return names
}

// Setup creates and removes the resources that buying needs in a cloud. Each step checks first whether its work is
// already done, so that a second run changes nothing.
type Setup interface {
	// Print writes commands of the cloud's own tool that would create everything.
	Print(w io.Writer) error
	// Make creates the missing resources, reports each step, and returns the settings with the new values.
	Make(ctx context.Context, tell func(step string)) (Settings, error)
	// Remove deletes the resources that Make created.
	Remove(ctx context.Context, tell func(step string)) error
}

// Lookup returns the value of an environment variable, or an empty string if it is not set.
type Lookup func(name string) string

// Request has the arguments for opening a cloud.
type Request struct {
	Settings Settings
	// Deployment is in the names or tags of everything that is bought.
	Deployment string
	// PublicURL is the URL at which machines reach the broker. It is the audience of identity proofs that have one.
	PublicURL string
	Agents    driver.Agents
	Graves    driver.Graves
	Lookup    Lookup
	Log       *slog.Logger
}

// Opened is a cloud that is ready for buying.
type Opened struct {
	Cloud cloud.Cloud
	// Checker reports the account's rights and limits in the cloud.
	Checker driver.Checker
	// Verifier checks the identity proofs of the cloud's machines; nil if they have none.
	Verifier identity.Verifier
	// Refresh updates the cloud's part of the catalogue and writes the next snapshot; nil if the cloud has no source
	// for it. If it fails, it writes nothing and the last snapshot stays valid.
	Refresh driver.Refresh
	// Data signs requests for the buckets of the settings' stores; nil without stores.
	Data grant.Store
	// Secrets fetch the cloud's secrets that the settings name, by URL scheme; nil if they name none.
	Secrets map[string]secret.Source
	// Pushed reads messages that the cloud pushes; nil if the cloud pushes nothing.
	Pushed push.Read
	// Pull fetches the same messages from the cloud until ctx ends; nil if there is nothing to fetch.
	Pull func(ctx context.Context, tell push.Deliver)
	// Files reads and writes the bucket whose files become jobs. It is nil without such a bucket.
	Files driver.Files
	// Announcer publishes on topics of users; nil if the cloud has none.
	Announcer driver.Announcer
	// Mail sends e-mail; nil if the cloud cannot, or the settings name no sender.
	Mail notify.Mailer
	// FreshFor is the time for which the result of Refresh is considered current; 0 means a day.
	FreshFor time.Duration
	// Watch reports machines that are about to be interrupted, until ctx ends; nil if only the agents receive such
	// notices.
	Watch func(ctx context.Context, tell func(context.Context, cloud.Notice))
	// Regions are the only regions in which to buy; empty means any.
	Regions []string
	// Prices returns the source of spot prices, for the offers of running machines and for those that waiting names;
	// nil if there are none.
	Prices func(waiting func(context.Context) ([]string, error)) Prices
}

// Services are the managed services of a cloud that a broker buys.
type Services struct {
	Of map[string]service.Service // by catalogue name
	// Lacks reports the resources and rights that the services still need in the cloud.
	Lacks func(context.Context) []driver.Lack
}

// OpenServices opens the services that a request's settings name; there are none if they name none.
func (k Kit) OpenServices(ctx context.Context, r Request) (*Services, error) {
	switch {
	case len(r.Settings.Services) == 0:
		return &Services{Lacks: func(context.Context) []driver.Lack { return nil }}, nil
	case k.Services == nil:
		return nil, fmt.Errorf("%w: this program buys no services of %s", ErrSettings, k.Name)
	}
	return k.Services(ctx, r)
}

// Prices reads current spot prices.
type Prices interface {
	SpotPrices(ctx context.Context) ([]Price, error)
}

// Price is the spot price of an offer. It has the fields of a broker event, but a function that has only a driver
// does not link the package of events.
type Price struct {
	Offer string // its ID, without a market
	USD   float64
	Since time.Time // zero means unknown
}
