// Package cloudkit is how a process that buys machines comes by its clouds: a Kit for each cloud opens its driver, with
// what checks the account, proves machines and tells prices, from settings that lie in the state folder. Each kit is a
// package of its own, so that a program links the clouds that it can buy on; package kits has all of them.
package cloudkit

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/pflag"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/cloud/push"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/identity"
	"github.com/tradewind-broker/tradewind/pkg/secret"
)

// Kit is what is known of a cloud before anybody calls it.
type Kit struct {
	Name  string // the catalogue's
	Title string // for people: "Lambda GPU cloud"
	// Ready says what a cloud's settings lack, with the command that mends it; nil is nothing. It calls nobody.
	Ready func(Settings, Lookup) error
	// Account says as whom the settings buy, in a few words: "profile work". It calls nobody.
	Account func(Settings, Lookup) string
	// Flags adds to a command what the settings are made of.
	Flags func(*pflag.FlagSet, *Settings)
	// Setup prepares what buying needs in the cloud: networks, roles, topics; nil where nothing has to be made. It
	// calls nobody.
	Setup func(context.Context, Request) (Setup, error)
	// Open makes the driver.
	Open func(context.Context, Request) (*Opened, error)
}

// Names are those of kits, in their order.
func Names(kits []Kit) []string {
	names := make([]string, len(kits))
	for i, k := range kits {
		names[i] = k.Name
	}
	return names
}

// Setup makes and removes what buying needs in a cloud. Each step is looked at first, so that a second time changes
// nothing.
type Setup interface {
	// Print writes the commands that would make it, of the cloud's own tool.
	Print(w io.Writer) error
	// Make makes what is missing, telling each step, and returns the settings with what it has made.
	Make(ctx context.Context, tell func(step string)) (Settings, error)
	// Remove takes away what Make made.
	Remove(ctx context.Context, tell func(step string)) error
}

// Lookup returns the value of an environment variable, empty where it is not set.
type Lookup func(name string) string

// Request is what a cloud is opened with.
type Request struct {
	Settings Settings
	// Deployment is what all that is bought is named or tagged after.
	Deployment string
	// PublicURL is where machines reach the broker; proofs that are made for somebody are made for it.
	PublicURL string
	Agents    driver.Agents
	Graves    driver.Graves
	Lookup    Lookup
	Log       *slog.Logger
}

// Opened is a cloud to buy on.
type Opened struct {
	Cloud cloud.Cloud
	// Checker says what may be done there.
	Checker driver.Checker
	// Verifier checks the proofs of its machines; nil where they have none.
	Verifier identity.Verifier
	// Refresh renews what the catalogue knows of the cloud and writes the next snapshot; nil where nobody tells. When
	// it fails nothing is written, and what was known still holds.
	Refresh driver.Refresh
	// Data signs for the buckets of the settings' stores; nil where there are none.
	Data grant.Store
	// Secrets fetch the cloud's secrets that the settings name, by their schemes; nil where they name none.
	Secrets map[string]secret.Source
	// Pushed reads what the cloud has pushed; nil where the cloud pushes nothing.
	Pushed push.Read
	// Pull tells the same, fetched from where the cloud keeps it, until ctx ends; nil where there is nothing to fetch.
	Pull func(ctx context.Context, tell push.Tell)
	// Files are those of the bucket whose files become jobs; nil where there is none.
	Files driver.Files
	// FreshFor is how long what Refresh has read is good for; a day when 0.
	FreshFor time.Duration
	// Watch tells of machines that are about to be taken until ctx ends; nil where the agents alone hear of it.
	Watch func(ctx context.Context, tell func(context.Context, cloud.Notice))
	// Regions are all that are bought in; empty is any.
	Regions []string
	// Prices makes the source of its spot prices, which are asked for of what runs and of the offers that waiting
	// names; nil where there are none.
	Prices func(waiting func(context.Context) ([]string, error)) Prices
}

// Prices tells what spot machines cost now.
type Prices interface {
	SpotPrices(ctx context.Context) ([]Price, error)
}

// Price is what an offer costs on the spot market. It has the fields of an event of the broker, which a function that
// has a driver alone does not link.
type Price struct {
	Offer string // its ID, without a market
	USD   float64
	Since time.Time // zero is not known
}
