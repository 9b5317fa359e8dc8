package catalog

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
)

// Catalog is a set of offers with the indexes to query it. It is immutable and
// safe for concurrent use.
type Catalog struct {
	*columns
	// placeStart[p] is the first offer of place p; one more entry ends the last.
	placeStart []uint32
	// clouds are distinct and sorted; places number them in this order.
	clouds []string
	// cloudStart[i] is the first machine of cloud i; one more entry ends the last.
	cloudStart []int
	// traits are the machines' facts that queries filter by, packed.
	traits         []trait
	byAccelerator  map[string][]uint16
	byInstanceType map[string][]uint16

	plain view
	// Views of managed services are built on the first query that asks for them.
	emr, dataproc func() *view
	scratch       sync.Pool
}

// newCatalog indexes columns.
func newCatalog(cols *columns) *Catalog {
	c := &Catalog{columns: cols, clouds: cloudsOf(cols.places)}
	c.placeStart = startsOf(cols.place, len(cols.places))
	c.indexMachines()
	c.plain = newPlainView(cols)
	c.emr = sync.OnceValue(func() *view { return newServiceView(cols, emrSurcharge) })
	c.dataproc = sync.OnceValue(func() *view { return newServiceView(cols, dataprocSurcharge) })
	c.scratch.New = func() any { return newScratch(c) }
	return c
}

// cloudsOf lists the clouds of sorted places.
func cloudsOf(places []place) []string {
	var clouds []string
	for i := range places {
		if i == 0 || places[i-1].cloud != places[i].cloud {
			clouds = append(clouds, places[i].cloud)
		}
	}
	return clouds
}

// startsOf counts how many of the sorted ids are each of n, as starts of runs.
func startsOf(ids []uint16, n int) []uint32 {
	starts := make([]uint32, n+1)
	for _, id := range ids {
		starts[id+1]++
	}
	for i := range n {
		starts[i+1] += starts[i]
	}
	return starts
}

// trait is what queries compare of a machine.
type trait struct {
	vcpu, memoryGiB float64
	cloudID         uint16
	kind            kind
}

// kind is a machine's yes-or-no facts.
type kind uint8

const (
	kindAccelerated kind = 1 << iota
	kindARM
)

func (c *Catalog) indexMachines() {
	c.traits = make([]trait, len(c.machines))
	c.cloudStart = make([]int, len(c.clouds)+1)
	c.byAccelerator = make(map[string][]uint16)
	c.byInstanceType = make(map[string][]uint16, len(c.machines))
	for i := range c.machines {
		m := &c.machines[i]
		id := uint16(i) // bounded by maxMachines
		cloud, _ := slices.BinarySearch(c.clouds, m.cloud)
		c.traits[i] = trait{
			vcpu: m.vcpu, memoryGiB: m.memoryGiB,
			cloudID: uint16(cloud), //nolint:gosec // at most maxPlaces clouds
		}
		c.cloudStart[cloud+1] = i + 1
		if m.arch == ARM64 {
			c.traits[i].kind |= kindARM
		}
		if m.accelerator != "" {
			c.traits[i].kind |= kindAccelerated
			c.byAccelerator[m.accelerator] = append(c.byAccelerator[m.accelerator], id)
		}
		name := strings.ToLower(m.instanceType)
		c.byInstanceType[name] = append(c.byInstanceType[name], id)
	}
	for i := range c.clouds {
		c.cloudStart[i+1] = max(c.cloudStart[i], c.cloudStart[i+1])
	}
}

// viewOf is the price order of a service, nil if the service is not known.
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

// Len is the number of offers; one sold on two markets counts once.
func (c *Catalog) Len() int { return c.len() }

// Clouds lists the clouds, sorted.
func (c *Catalog) Clouds() []string { return slices.Clone(c.clouds) }

// Regions lists a cloud's regions, sorted; all clouds' as CLOUD:REGION if cloud
// is empty.
func (c *Catalog) Regions(cloud string) []string {
	var names []string
	for i := range c.places {
		p := &c.places[i]
		if i > 0 && c.places[i-1].regionID == p.regionID {
			continue
		}
		switch cloud {
		case p.cloud:
			names = append(names, p.region)
		case "":
			names = append(names, p.cloud+":"+p.region)
		}
	}
	slices.Sort(names)
	return names
}

// Zones lists a region's zones, sorted; none where the cloud sells by region.
func (c *Catalog) Zones(cloud, region string) []string {
	var names []string
	for i := range c.places {
		if p := &c.places[i]; p.cloud == cloud && p.region == region && p.zone != "" {
			names = append(names, p.zone)
		}
	}
	slices.Sort(names)
	return names
}

// AcceleratorInfo says where an accelerator is sold and how many at a time.
type AcceleratorInfo struct {
	Name   string    `json:"name"`
	Counts []float64 `json:"counts"`
	Clouds []string  `json:"clouds"`
}

// Accelerators lists what accelerators there are, by name.
func (c *Catalog) Accelerators() []AcceleratorInfo {
	infos := make([]AcceleratorInfo, 0, len(c.byAccelerator))
	for name, ids := range c.byAccelerator {
		info := AcceleratorInfo{Name: name}
		for _, id := range ids {
			info.Counts = append(info.Counts, c.machines[id].count)
			info.Clouds = append(info.Clouds, c.machines[id].cloud)
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

// All yields every offer in the order of IDs, without managed services.
func (c *Catalog) All() iter.Seq[Offer] {
	return func(yield func(Offer) bool) {
		var o Offer
		for i := range c.len() {
			c.fillOffer(&o, uint32(i)) // bounded by maxOffers
			if !yield(o) {
				return
			}
		}
	}
}

// fillOffer writes offer i into o. It sets every field, one by one: through a
// composite literal the compiler builds the struct twice.
func (c *Catalog) fillOffer(o *Offer, i uint32) {
	m, p := &c.machines[c.machine[i]], &c.places[c.place[i]]
	o.Cloud, o.Region, o.Zone = p.cloud, p.region, p.zone
	o.InstanceType = m.instanceType
	o.VCPU, o.MemoryGiB = m.vcpu, m.memoryGiB
	o.Accelerator, o.AcceleratorCount, o.Attached = m.accelerator, m.count, m.attached
	o.Arch = m.arch
	o.OnDemandUSD = c.prices[c.onDemand[i]].usd()
	o.SpotUSD, o.HasSpot = 0, false
	if s := c.spot[i]; s > 0 {
		o.SpotUSD, o.HasSpot = c.prices[s-1].usd(), true
	}
	o.Interruption = c.band[i]
	o.Service, o.SurchargeUSD = NoService, 0
	o.CarbonGPerKWh = p.carbonGPerKWh
}

// Lookup returns the offer that an ID names, on the market it names. An ID
// without a market gives a Match of AnyMarket at the cheaper price. The error
// wraps [ErrBadOfferID] or [ErrUnknownOffer].
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
		surcharge := surchargeOf(parsed.Service)(&c.machines[c.machine[at]])
		if surcharge == 0 {
			return Match{}, fmt.Errorf("%w: %s: %s does not run on it, or at a price not known", ErrUnknownOffer, id,
				parsed.Service)
		}
		m.Service, m.SurchargeUSD = parsed.Service, surcharge.usd()
	}
	if m.USDPerHour, ok = m.Offer.USDPerHour(parsed.Market); !ok {
		return Match{}, fmt.Errorf("%w: %s: it is sold on-demand only", ErrUnknownOffer, id)
	}
	return m, nil
}

// find returns the position of an offer.
func (c *Catalog) find(id OfferID) (uint32, bool) {
	want := place{cloud: id.Cloud, region: id.Region, zone: id.Zone}
	p, ok := slices.BinarySearchFunc(c.places, want.prefix(), func(p place, prefix string) int {
		return strings.Compare(p.prefix(), prefix)
	})
	if !ok {
		return 0, false
	}
	for _, m := range c.byInstanceType[strings.ToLower(id.InstanceType)] {
		if c.machines[m].cloud != id.Cloud || c.machines[m].typeString() != id.typeString() {
			continue
		}
		start, end := c.placeStart[p], c.placeStart[p+1]
		if at, ok := slices.BinarySearch(c.machine[start:end], m); ok {
			return start + uint32(at), true //nolint:gosec // bounded by maxOffers
		}
	}
	return 0, false
}
