package catalog

import (
	"fmt"
	"math"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/skypilot"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// Replace returns a catalogue without the offers that out selects and with the new offers. A new offer gets the EMR
// surcharge and the interruption band of the same machine type in the same region, unless it has its own. The error
// wraps [ErrBadData].
func (c *Catalog) Replace(out func(*Offer) bool, offers []Offer) (*Catalog, error) {
	b := table.NewBuilder()
	type regional struct{ cloud, region, machine string }
	type known struct {
		emr  table.NanoUSD
		band uint8
	}
	before := make(map[regional]known)
	var o Offer
	for i := range c.cols.Len() {
		c.fillOffer(&o, uint32(i)) // bounded by maxOffers
		m := &c.cols.Machines[c.cols.Machine[i]]
		before[regional{o.Cloud, o.Region, m.TypeString()}] = known{m.Emr, c.cols.Band[i]}
		if out(&o) {
			continue
		}
		raw := table.Offer{OnDemand: c.cols.Prices[c.cols.OnDemand[i]], Band: c.cols.Band[i]}
		if at := c.cols.Spot[i]; at > 0 {
			raw.Spot = c.cols.Prices[at-1]
		}
		if err := b.Add(*m, table.Place{Cloud: o.Cloud, Region: o.Region, Zone: o.Zone}, raw); err != nil {
			return nil, fmt.Errorf("%w: %w", skypilot.ErrBadData, err)
		}
	}
	for i := range offers {
		o := &offers[i]
		m, raw, err := splitOffer(o)
		if err != nil {
			return nil, fmt.Errorf("%w: offer %d (%.32s): %w", skypilot.ErrBadData, i, o.ID(), err)
		}
		was := before[regional{o.Cloud, o.Region, m.TypeString()}]
		if m.Emr = was.emr; o.EMRUSD > 0 && o.EMRUSD <= table.MaxUSDPerHour {
			m.Emr = table.NanoUSD(math.Round(o.EMRUSD * 1e9))
		}
		if raw.Band == uint8(UnknownInterruption) {
			raw.Band = was.band
		}
		if err := b.Add(m, table.Place{Cloud: o.Cloud, Region: o.Region, Zone: o.Zone}, raw); err != nil {
			return nil, fmt.Errorf("%w: offer %d (%.32s): %w", skypilot.ErrBadData, i, o.ID(), err)
		}
	}
	cols, err := b.Columns()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", skypilot.ErrBadData, err)
	}
	next := newCatalog(cols)
	next.reserved, next.unknown = c.reserved, c.unknown
	return next, nil
}

// splitOffer splits an offer into its machine and its prices, and makes the checks that the reader of a file makes.
func splitOffer(o *Offer) (m table.Machine, raw table.Offer, err error) {
	if !table.ValidName(o.Cloud) || !table.ValidName(o.Region) || o.Zone != "" && !table.ValidName(o.Zone) ||
		!table.ValidName(o.InstanceType) {
		return m, raw, fmt.Errorf("an invalid name")
	}
	m = table.Machine{
		Cloud: o.Cloud, InstanceType: o.InstanceType, Vcpu: o.VCPU, MemoryGiB: o.MemoryGiB,
		Accelerator: table.CanonicalAccelerator(o.Accelerator), Count: o.AcceleratorCount,
		Attached: o.Attached, Arm: o.Arch == ARM64,
	}
	if o.Arch == "" {
		m.Arm = skypilot.IsARM(o.Cloud, o.InstanceType)
	}
	if m.Accelerator == "" {
		m.Count = 0
	}
	if !table.ValidAccelerator(m.Accelerator) {
		return m, raw, fmt.Errorf("accelerator %.32q", m.Accelerator)
	}
	for _, size := range []float64{m.Vcpu, m.MemoryGiB, m.Count} {
		if !(size >= 0 && size <= table.MaxSize) {
			return m, raw, fmt.Errorf("a size of %v", size)
		}
	}
	if !(o.OnDemandUSD > 0 && o.OnDemandUSD <= table.MaxUSDPerHour) {
		return m, raw, fmt.Errorf("an on-demand price of %v", o.OnDemandUSD)
	}
	raw.OnDemand, raw.Band = table.NanoUSD(math.Round(o.OnDemandUSD*1e9)), uint8(o.Interruption)
	if raw.OnDemand == 0 {
		return m, raw, fmt.Errorf("an on-demand price of %v", o.OnDemandUSD)
	}
	if spot := o.SpotUSD; o.HasSpot && spot > 0 && spot <= o.OnDemandUSD {
		raw.Spot = table.NanoUSD(math.Round(spot * 1e9))
	}
	return m, raw, nil
}
