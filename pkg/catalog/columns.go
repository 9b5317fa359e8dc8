package catalog

import (
	"cmp"
	"math"
	"slices"
)

// nanoUSD is a price in 10⁻⁹ USD per hour. Published prices have at most nine
// decimals, so sums of them (host + GPU) stay exact, and dividing by 10⁹ gives
// the very float64 that parsing the published decimal gives.
type nanoUSD int64

func (n nanoUSD) usd() float64 { return float64(n) / 1e9 }

// Limits on what a catalogue may hold. They bound memory on hostile input, and
// are eight times today's clouds or more.
const (
	maxOffers   = 1 << 20
	maxRows     = 1 << 19 // in one file
	maxMachines = math.MaxUint16
	maxPlaces   = math.MaxUint16
	maxPrices   = 2 * maxOffers
	maxNameLen  = 128
	// maxUSDPerHour is above the dearest thing sold, a whole TPU pod at 25,805.
	maxUSDPerHour = 1e6
	// maxSize bounds vCPUs, GiB and accelerators; a TPU pod has 320,000 vCPUs.
	maxSize = 1e8
)

// place is where an offer is sold.
type place struct {
	cloud, region, zone string
	// regionID and cloudID number distinct regions and clouds for grouping.
	regionID, cloudID uint16
	carbonGPerKWh     float64
}

// prefix begins the ID of every offer in the place, and orders places.
func (p *place) prefix() string {
	if p.zone == "" {
		return p.cloud + "/" + p.region + "/"
	}
	return p.cloud + "/" + p.region + "/" + p.zone + "/"
}

// machine is a machine type as one cloud sells it. A type that differs between
// regions, as c4.large in its EMR surcharge, is several machines, so that
// everything but price, place and interruption is a fact of the machine.
type machine struct {
	cloud        string
	instanceType string
	vcpu         float64
	memoryGiB    float64
	accelerator  string
	count        float64
	attached     bool
	arch         Arch
	// emr is the surcharge of EMR; 0 if EMR does not run on it or the surcharge is
	// not known.
	emr nanoUSD
}

// typeString is the TYPE part of the machine's offers' IDs.
func (m *machine) typeString() string {
	id := OfferID{InstanceType: m.instanceType}
	if m.attached {
		id.Accelerator, id.AcceleratorCount = m.accelerator, m.count
	}
	return id.typeString()
}

// compare orders machines as the IDs of their offers, and those of one type by
// all else, which keeps the order total.
func (m *machine) compare(o *machine) int {
	return cmp.Or(
		m.compareType(o),
		cmp.Compare(m.emr, o.emr),
		cmp.Compare(m.vcpu, o.vcpu),
		cmp.Compare(m.memoryGiB, o.memoryGiB),
		cmp.Compare(m.accelerator, o.accelerator),
		cmp.Compare(m.count, o.count),
		cmp.Compare(m.arch, o.arch))
}

func (m *machine) compareType(o *machine) int {
	return cmp.Or(cmp.Compare(m.cloud, o.cloud), cmp.Compare(m.typeString(), o.typeString()))
}

// rawOffer is an offer as read, before columns are laid out.
type rawOffer struct {
	machine, place uint16
	onDemand       nanoUSD
	// spot is 0 where there is none.
	spot nanoUSD
	band InterruptionBand
}

// columns is a catalogue's data: what a snapshot holds and indexes are built
// from. Offers are in the order of their IDs: by place, then by machine, both of
// which are sorted. A price is a position in prices, so prices compare as their
// positions do.
type columns struct {
	places   []place
	machines []machine
	// prices are distinct and ascending.
	prices []nanoUSD
	// One entry an offer:
	machine  []uint16
	place    []uint16
	onDemand []uint32
	// spot is a position in prices plus one, 0 where there is none.
	spot []uint32
	band []InterruptionBand
}

func (c *columns) len() int { return len(c.machine) }

// newColumns sorts places and machines, and lays out offers in the order of
// their IDs.
func newColumns(places []place, machines []machine, offers []rawOffer) *columns {
	c := &columns{places: slices.Clone(places), machines: slices.Clone(machines)}
	placeAt := sortedPositions(c.places, func(a, b place) int { return cmp.Compare(a.prefix(), b.prefix()) })
	machineAt := sortedPositions(c.machines, func(a, b machine) int { return a.compare(&b) })
	numberRegions(c.places)

	sorted := slices.Clone(offers)
	for i := range sorted {
		sorted[i].machine = machineAt[sorted[i].machine]
		sorted[i].place = placeAt[sorted[i].place]
	}
	slices.SortFunc(sorted, func(a, b rawOffer) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.machine, b.machine))
	})

	for _, o := range sorted {
		c.prices = append(c.prices, o.onDemand)
		if o.spot > 0 {
			c.prices = append(c.prices, o.spot)
		}
	}
	slices.Sort(c.prices)
	c.prices = slices.Clip(slices.Compact(c.prices))

	c.grow(len(sorted))
	for i, o := range sorted {
		c.machine[i], c.place[i], c.band[i] = o.machine, o.place, o.band
		c.onDemand[i] = c.priceAt(o.onDemand)
		if o.spot > 0 {
			c.spot[i] = c.priceAt(o.spot) + 1
		}
	}
	return c
}

func (c *columns) grow(n int) {
	c.machine = make([]uint16, n)
	c.place = make([]uint16, n)
	c.onDemand = make([]uint32, n)
	c.spot = make([]uint32, n)
	c.band = make([]InterruptionBand, n)
}

func (c *columns) priceAt(p nanoUSD) uint32 {
	i, _ := slices.BinarySearch(c.prices, p)
	return uint32(i) //nolint:gosec // bounded by maxPrices
}

// sortedPositions sorts s and tells where each element went.
func sortedPositions[T any](s []T, compare func(a, b T) int) []uint16 {
	order := make([]int, len(s))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return compare(s[a], s[b]) })
	sorted := make([]T, len(s))
	at := make([]uint16, len(s))
	for to, from := range order {
		sorted[to] = s[from]
		at[from] = uint16(to) // bounded by maxPlaces and maxMachines
	}
	copy(s, sorted)
	return at
}

// numberRegions gives each region and cloud of sorted places a number.
func numberRegions(places []place) {
	var region, cloud uint16
	for i := range places {
		if i > 0 {
			prev, p := &places[i-1], &places[i]
			if p.cloud != prev.cloud {
				cloud++
			}
			if p.cloud != prev.cloud || p.region != prev.region {
				region++
			}
		}
		places[i].regionID, places[i].cloudID = region, cloud
	}
}
