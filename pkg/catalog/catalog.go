package catalog

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// Catalog is a set of offers with the indexes to query it. It is immutable and
// safe for concurrent use.
type Catalog struct {
	cols *table.Columns
	// carbon is the carbon intensity of the grid at each place, in gCO2eq/kWh; 0 if unknown.
	carbon []float64
	// placeStart[p] is the first offer of place p; one more entry ends the last.
	placeStart []uint32
	// clouds are distinct and sorted; places number them in this order.
	clouds []string
	// cloudStart[i] is the first machine of cloud i; one more entry ends the last.
	cloudStart []int
	// traits are the facts about machines that queries filter by, packed.
	traits         []trait
	byAccelerator  map[string][]uint16
	byInstanceType map[string][]uint16
	hardware       lazyHardware
	speeds         func() []speeds // of all machines, looked up on the first query that compares them

	plain view
	// Views of managed services are built on the first query that asks for them.
	emr, dataproc func() *view
	scratch       sync.Pool
	reserved      []Reserved // the account's reserved capacity, by cloud and ID
	unknown       []unknown  // reserved capacity of kinds that this program does not know
}

// newCatalog makes a catalogue of the columns and builds its indexes.
func newCatalog(cols *table.Columns) *Catalog {
	c := &Catalog{cols: cols, clouds: table.CloudsOf(cols.Places), carbon: make([]float64, len(cols.Places))}
	for i := range cols.Places {
		c.carbon[i] = carbonGPerKWh(cols.Places[i].Cloud, cols.Places[i].Region)
	}
	c.placeStart = table.StartsOf(cols.Place, len(cols.Places))
	c.indexMachines()
	c.plain = newPlainView(cols, c.spotOnly)
	c.emr = sync.OnceValue(func() *view { return newServiceView(cols, c.spotOnly, emrSurcharge) })
	c.dataproc = sync.OnceValue(func() *view { return newServiceView(cols, c.spotOnly, dataprocSurcharge) })
	c.speeds = sync.OnceValue(c.speedsOf)
	c.scratch.New = func() any { return newScratch(c) }
	return c
}

// trait has the facts about a machine that queries compare.
type trait struct {
	vcpu, memoryGiB float64
	cloudID         uint16
	kind            kind
}

// kind is a set of a machine's boolean facts.
type kind uint8

const (
	kindAccelerated kind = 1 << iota
	kindARM
	kindSpotOnly
)

// spotOnly reports whether offer i is not sold on demand.
func (c *Catalog) spotOnly(i int) bool { return c.traits[c.cols.Machine[i]].kind&kindSpotOnly != 0 }

func (c *Catalog) indexMachines() {
	c.traits = make([]trait, len(c.cols.Machines))
	c.hardware = make(lazyHardware, len(c.cols.Machines))
	c.cloudStart = make([]int, len(c.clouds)+1)
	c.byAccelerator = make(map[string][]uint16)
	c.byInstanceType = make(map[string][]uint16, len(c.cols.Machines))
	for i := range c.cols.Machines {
		m := &c.cols.Machines[i]
		id := uint16(i) // bounded by maxMachines
		cloud, _ := slices.BinarySearch(c.clouds, m.Cloud)
		c.traits[i] = trait{
			vcpu: m.Vcpu, memoryGiB: m.MemoryGiB,
			cloudID: uint16(cloud), //nolint:gosec // at most maxPlaces clouds
		}
		c.cloudStart[cloud+1] = i + 1
		if m.Arm {
			c.traits[i].kind |= kindARM
		}
		if spotOnly(m.Cloud, m.InstanceType) {
			c.traits[i].kind |= kindSpotOnly
		}
		if m.Accelerator != "" {
			c.traits[i].kind |= kindAccelerated
			c.byAccelerator[m.Accelerator] = append(c.byAccelerator[m.Accelerator], id)
		}
		name := strings.ToLower(m.InstanceType)
		c.byInstanceType[name] = append(c.byInstanceType[name], id)
	}
	for i := range c.clouds {
		c.cloudStart[i+1] = max(c.cloudStart[i], c.cloudStart[i+1])
	}
}

// viewOf returns the price order for a service, or nil if the service is unknown.
func (c *Catalog) viewOf(s Service) *view {
	switch s {
	case NoService:
		return &c.plain
	case EMR:
		return c.emr()
	case Dataproc:
		return c.dataproc()
	default:
		return nil
	}
}

// Len returns the number of offers. An offer sold on two markets counts once.
func (c *Catalog) Len() int { return c.cols.Len() }

// Clouds returns the names of the clouds, sorted.
func (c *Catalog) Clouds() []string { return slices.Clone(c.clouds) }

// Regions returns the names of a cloud's regions, sorted. If cloud is empty it returns those of all clouds, as
// CLOUD:REGION.
func (c *Catalog) Regions(cloud string) []string {
	var names []string
	for i := range c.cols.Places {
		p := &c.cols.Places[i]
		if i > 0 && c.cols.Places[i-1].RegionID == p.RegionID {
			continue
		}
		switch cloud {
		case p.Cloud:
			names = append(names, p.Region)
		case "":
			names = append(names, p.Cloud+":"+p.Region)
		}
	}
	slices.Sort(names)
	return names
}

// Zones returns the names of a region's zones, sorted; none if the cloud sells by region.
func (c *Catalog) Zones(cloud, region string) []string {
	var names []string
	for i := range c.cols.Places {
		if p := &c.cols.Places[i]; p.Cloud == cloud && p.Region == region && p.Zone != "" {
			names = append(names, p.Zone)
		}
	}
	slices.Sort(names)
	return names
}

// AcceleratorInfo lists the clouds that sell an accelerator, and the counts per machine.
type AcceleratorInfo struct {
	Name   string    `json:"name"`
	Counts []float64 `json:"counts"`
	Clouds []string  `json:"clouds"`
}

// Accelerators returns all accelerators on sale, sorted by name.
func (c *Catalog) Accelerators() []AcceleratorInfo {
	infos := make([]AcceleratorInfo, 0, len(c.byAccelerator))
	for name, ids := range c.byAccelerator {
		info := AcceleratorInfo{Name: name}
		for _, id := range ids {
			info.Counts = append(info.Counts, c.cols.Machines[id].Count)
			info.Clouds = append(info.Clouds, c.cols.Machines[id].Cloud)
		}
		slices.Sort(info.Counts)
		slices.Sort(info.Clouds)
		info.Counts = slices.Compact(info.Counts)
		info.Clouds = slices.Compact(info.Clouds)
		infos = append(infos, info)
	}
	slices.SortFunc(infos, func(a, b AcceleratorInfo) int { return strings.Compare(a.Name, b.Name) })
	return infos
}

// All yields every offer in the order of offer IDs, without managed services.
func (c *Catalog) All() iter.Seq[Offer] {
	return func(yield func(Offer) bool) {
		var o Offer
		for i := range c.cols.Len() {
			c.fillOffer(&o, uint32(i)) // bounded by maxOffers
			if !yield(o) {
				return
			}
		}
	}
}

// fillOffer writes offer i into o. It sets each field separately, because the compiler would build a composite
// literal twice.
func (c *Catalog) fillOffer(o *Offer, i uint32) {
	m, p := &c.cols.Machines[c.cols.Machine[i]], &c.cols.Places[c.cols.Place[i]]
	o.Cloud, o.Region, o.Zone = p.Cloud, p.Region, p.Zone
	o.InstanceType = m.InstanceType
	o.VCPU, o.MemoryGiB = m.Vcpu, m.MemoryGiB
	o.Accelerator, o.AcceleratorCount, o.Attached = m.Accelerator, m.Count, m.Attached
	o.Arch = archName(m.Arm)
	o.SpotOnly = c.spotOnly(int(i))
	o.OnDemandUSD = c.cols.Prices[c.cols.OnDemand[i]].USD()
	o.SpotUSD, o.HasSpot = 0, false
	if s := c.cols.Spot[i]; s > 0 {
		o.SpotUSD, o.HasSpot = c.cols.Prices[s-1].USD(), true
	}
	o.Interruption = InterruptionBand(c.cols.Band[i])
	o.Service, o.SurchargeUSD = NoService, 0
	o.CarbonGPerKWh = c.carbon[c.cols.Place[i]]
	o.Hardware = *c.hardwareOf(c.cols.Machine[i])
}

// Lookup returns the offer with an ID, on the market in the ID. For an ID without a market it returns a Match of
// AnyMarket at the lower price. The error wraps [ErrBadOfferID] or [ErrUnknownOffer].
func (c *Catalog) Lookup(id string) (Match, error) {
	parsed, err := ParseOfferID(id)
	if err != nil {
		return Match{}, err
	}
	at, ok := c.find(parsed)
	if !ok {
		return Match{}, fmt.Errorf("%w: %s", ErrUnknownOffer, id)
	}
	m := Match{Market: parsed.Market}
	c.fillOffer(&m.Offer, at)
	if parsed.Service != NoService {
		surcharge := surchargeOf(parsed.Service)(&c.cols.Machines[c.cols.Machine[at]])
		if surcharge == 0 {
			return Match{}, fmt.Errorf("%w: %s: %s does not run on it, or its price is unknown", ErrUnknownOffer, id,
				parsed.Service)
		}
		m.Service, m.SurchargeUSD = parsed.Service, surcharge.USD()
	}
	if m.USDPerHour, ok = m.Offer.USDPerHour(parsed.Market); !ok {
		only := OnDemand
		if m.SpotOnly {
			only = Spot
		}
		return Match{}, fmt.Errorf("%w: %s: it is sold %s only", ErrUnknownOffer, id, only)
	}
	return m, nil
}

// find returns the position of an offer.
func (c *Catalog) find(id OfferID) (uint32, bool) {
	want := table.Place{Cloud: id.Cloud, Region: id.Region, Zone: id.Zone}
	p, ok := slices.BinarySearchFunc(c.cols.Places, want.Prefix(), func(p table.Place, prefix string) int {
		return strings.Compare(p.Prefix(), prefix)
	})
	if !ok {
		return 0, false
	}
	for _, m := range c.byInstanceType[strings.ToLower(id.InstanceType)] {
		if c.cols.Machines[m].Cloud != id.Cloud || c.cols.Machines[m].TypeString() != id.typeString() {
			continue
		}
		start, end := c.placeStart[p], c.placeStart[p+1]
		if at, ok := slices.BinarySearch(c.cols.Machine[start:end], m); ok {
			return start + uint32(at), true //nolint:gosec // bounded by maxOffers
		}
	}
	return 0, false
}
