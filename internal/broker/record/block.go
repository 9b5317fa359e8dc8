package record

import (
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	pricing "github.com/tradewind-broker/tradewind/pkg/market"
)

// Where returns a location as text for users.
func Where(o apitypes.Offer) string {
	if o.Zone != "" {
		return o.Cloud + "/" + o.Region + "/" + o.Zone
	}
	return o.Cloud + "/" + o.Region
}

// Market returns the market on which an offer is bought.
func Market(o apitypes.Offer) dag.Market {
	if o.Spot {
		return dag.MarketSpot
	}
	return dag.MarketOnDemand
}

func blocked(b apitypes.Block) events.LocationBlocked {
	return events.LocationBlocked{
		Cloud: b.Cloud, Region: b.Region, Zone: b.Zone, InstanceType: b.InstanceType,
		Market: b.Market, Kind: b.Kind, Until: b.Until,
	}
}

// BlockExpires returns the time at which the record of a block expires, long after the block could count as one of
// several failures in a row. The store removes the record. A function must not remove it: after a stall, it could
// remove a later block of the same location.
func BlockExpires(b apitypes.Block) time.Time { return b.Until.Add(forgetAfter * b.Until.Sub(b.At)) }

// forgetAfter is the time for which an ended block is kept, in multiples of its duration.
const forgetAfter = 4

// WhereBlocked returns a blocked location as text for users: aws/us-east-1/use1-az1 m5.xlarge on-demand, or for lack
// of quota, azure/eastus quota cores on-demand.
func WhereBlocked(b apitypes.Block) string {
	place := b.Cloud
	for _, part := range []string{b.Region, b.Zone} {
		if part != "" {
			place += "/" + part
		}
	}
	family := b.Family
	if b.Kind == string(cloud.Quota) && family != "" {
		family = "quota " + family
	}
	for _, part := range []string{b.InstanceType, family, b.Market} {
		if part != "" {
			place += " " + part
		}
	}
	return place
}

// MarketRecord has the observations of one spot offer: its last price, and how many times it was interrupted.
type MarketRecord struct {
	Offer string  `json:"offer"`
	USD   float64 `json:"usd,omitempty"`
	// At is the time since which the price is valid. Older versions stored the time of their last read, under "at".
	At          time.Time `json:"since,omitzero"`
	Hours       float64   `json:"hours"` // machine hours held
	Preemptions int       `json:"preemptions"`
	Launches    int       `json:"launches"`
	Refusals    int       `json:"refusals"`
	// By is the event that reported the price.
	By string `json:"by,omitempty"`
	// Prices are the observed changes of the price.
	Prices pricing.Online `json:"prices,omitzero"`
}

// MarketID returns the ID of an offer without its market.
func MarketID(offer string) string {
	offer = strings.TrimSuffix(offer, "/"+string(dag.MarketSpot))
	return strings.TrimSuffix(offer, "/"+string(dag.MarketOnDemand))
}
