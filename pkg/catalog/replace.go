package catalog

import (
	"fmt"
	"math"
)

// Replace returns a catalogue in which offers stand instead of those that out names; the rest is as it was. Of an offer
// that is new, the surcharge of EMR and the interruption band are those of the same machine type in
// the region before, unless it says its own band. The error wraps [ErrBadData].
func (c *Catalog) Replace(out func(*Offer) bool, offers []Offer) (*Catalog, error) {
	b := newBuilder()
	type regional struct{ cloud, region, machine string }
	type known struct {
		emr  nanoUSD
		band InterruptionBand
	}
	before := make(map[regional]known)
	var o Offer
	for i := range c.len() {
		c.fillOffer(&o, uint32(i)) // bounded by maxOffers
		m := &c.machines[c.machine[i]]
		before[regional{o.Cloud, o.Region, m.typeString()}] = known{m.emr, o.Interruption}
		if out(&o) {
			continue
		}
		raw := rawOffer{onDemand: c.prices[c.onDemand[i]], band: c.band[i]}
		if at := c.spot[i]; at > 0 {
			raw.spot = c.prices[at-1]
		}
		if err := b.add(*m, placeKey{o.Cloud, o.Region, o.Zone}, raw); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBadData, err)
		}
	}
	for i := range offers {
		o := &offers[i]
		m, raw, err := unpriced(o)
		if err != nil {
			return nil, fmt.Errorf("%w: offer %d (%s): %w", ErrBadData, i, clip(o.ID()), err)
		}
		was := before[regional{o.Cloud, o.Region, m.typeString()}]
		m.emr = was.emr
		if raw.band == UnknownInterruption {
			raw.band = was.band
		}
		if err := b.add(m, placeKey{o.Cloud, o.Region, o.Zone}, raw); err != nil {
			return nil, fmt.Errorf("%w: offer %d (%s): %w", ErrBadData, i, clip(o.ID()), err)
		}
	}
	cols, err := b.columns()
	if err != nil {
		return nil, err
	}
	return newCatalog(cols), nil
}

// unpriced takes an offer apart, and checks what a file's reader would have.
func unpriced(o *Offer) (m machine, raw rawOffer, err error) {
	if !validName(o.Cloud) || !validName(o.Region) || o.Zone != "" && !validName(o.Zone) || !validName(o.InstanceType) {
		return m, raw, fmt.Errorf("a name that an offer cannot have")
	}
	m = machine{
		cloud: o.Cloud, instanceType: o.InstanceType, vcpu: o.VCPU, memoryGiB: o.MemoryGiB,
		accelerator: canonicalAccelerator(o.Accelerator), count: o.AcceleratorCount, attached: o.Attached, arch: o.Arch,
	}
	if m.arch == "" {
		m.arch = archOf(o.Cloud, o.InstanceType)
	}
	if m.accelerator == "" {
		m.count = 0
	}
	if !validAccelerator(m.accelerator) {
		return m, raw, fmt.Errorf("accelerator %q", clip(m.accelerator))
	}
	for _, size := range []float64{m.vcpu, m.memoryGiB, m.count} {
		if !(size >= 0 && size <= maxSize) {
			return m, raw, fmt.Errorf("a size of %v", size)
		}
	}
	if !(o.OnDemandUSD > 0 && o.OnDemandUSD <= maxUSDPerHour) {
		return m, raw, fmt.Errorf("an on-demand price of %v", o.OnDemandUSD)
	}
	raw.onDemand, raw.band = nanoUSD(math.Round(o.OnDemandUSD*1e9)), o.Interruption
	if raw.onDemand == 0 {
		return m, raw, fmt.Errorf("an on-demand price of %v", o.OnDemandUSD)
	}
	if spot := o.SpotUSD; o.HasSpot && spot > 0 && spot <= o.OnDemandUSD {
		raw.spot = nanoUSD(math.Round(spot * 1e9))
	}
	return m, raw, nil
}
