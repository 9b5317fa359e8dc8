package planning

import (
	"fmt"
	"math"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/text"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// PlanFleet is the machines of one offer that tasks share.
type PlanFleet struct {
	Offer        string  `json:"offer"`
	Market       string  `json:"market"` // spot or on-demand
	Cloud        string  `json:"cloud"`
	Region       string  `json:"region"`
	InstanceType string  `json:"instanceType"`
	Machines     int     `json:"machines"`
	Tasks        int     `json:"tasks"`
	USD          float64 `json:"usd"`   // expected, with boots and billing minimums
	Hours        float64 `json:"hours"` // sum of the billed time of the machines
	// Utilisation is the part of the billed time, from 0 to 1, in which tasks hold the vCPUs or the memory, whichever
	// they hold more of.
	Utilisation float64 `json:"utilisation"`
}

// fleetsOf returns the fleets of a plan.
func fleetsOf(p *record.Plan) (fleets []PlanFleet) {
	for _, f := range p.Fleets {
		o := &p.Offers[f.Offer]
		market := catalog.OnDemand
		if o.Offer.Spot {
			market = catalog.Spot
		}
		fleets = append(fleets, PlanFleet{
			Offer: o.ID, Market: market.String(), Cloud: o.Offer.Cloud, Region: o.Offer.Region,
			InstanceType: o.Offer.InstanceType, Machines: f.Machines, Tasks: f.Tasks, USD: f.USD, Hours: f.Hours,
			Utilisation: f.Utilisation,
		})
	}
	return fleets
}

// fleetLines prints one line for each fleet.
func (a app) fleetLines(fleets []PlanFleet) error {
	before := "\n"
	for i := range fleets {
		f := &fleets[i]
		err := a.Printf("%s%d × %s %s in %s: %s, utilisation %.0f %%, %s USD\n", before, f.Machines,
			text.Clean(f.InstanceType), f.Market, text.Clean(fmt.Sprintf("%s/%s", f.Cloud, f.Region)),
			text.Count(f.Tasks, "task"), math.Round(100*f.Utilisation), text.USD(f.USD))
		if before = ""; err != nil {
			return err
		}
	}
	return nil
}
