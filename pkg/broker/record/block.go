package record

import (
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	pricing "github.com/tradewind-broker/tradewind/pkg/market"
)

// Where names a location as people write it.
func Where(o apitypes.Offer) string {
	if o.Zone != "" {
		return o.Cloud + "/" + o.Region + "/" + o.Zone
	}
	return o.Cloud + "/" + o.Region
}

// Market names how an offer is bought.
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

// Forgotten is when the record of a block may go: long after it would count as one in a row. The store removes it, no function
// does: one that had stalled would remove a later block of the same location.
func Forgotten(b apitypes.Block) time.Time { return b.Until.Add(forgetAfter * b.Until.Sub(b.At)) }

// forgetAfter is how long a block that is over is kept, in its own lengths.
const forgetAfter = 4

// WhereBlocked names what is blocked as people write it: aws/us-east-1/use1-az1 m5.xlarge on-demand.
func WhereBlocked(b apitypes.Block) string {
	place := b.Cloud
	for _, part := range []string{b.Region, b.Zone} {
		if part != "" {
			place += "/" + part
		}
	}
	for _, part := range []string{b.InstanceType, b.Family, b.Market} {
		if part != "" {
			place += " " + part
		}
	}
	return place
}

// MarketRecord is what was learned of one spot offer: its last price and how often it was taken.
type MarketRecord struct {
	Offer string  `json:"offer"`
	USD   float64 `json:"usd,omitempty"`
	// since when it is the price; what older versions kept under "at" is when they looked
	At          time.Time `json:"since,omitzero"`
	Hours       float64   `json:"hours"` // machine hours held
	Preemptions int       `json:"preemptions"`
	Launches    int       `json:"launches"`
	Refusals    int       `json:"refusals"`
	// By is the event that brought the price.
	By string `json:"by,omitempty"`
	// Prices is what was learned of how the price changes.
	Prices pricing.Online `json:"prices,omitzero"`
}

// MarketID is an offer's ID without the market it was bought on.
func MarketID(offer string) string {
	offer = strings.TrimSuffix(offer, "/"+string(dag.MarketSpot))
	return strings.TrimSuffix(offer, "/"+string(dag.MarketOnDemand))
}
