package table

import (
	"cmp"
	"math"
	"slices"
)

// NanoUSD is a price in 10⁻⁹ USD per hour. Published prices have at most nine
// decimals, so sums of them (host + GPU) stay exact, and dividing by 10⁹ gives
// the very float64 that parsing the published decimal gives.
type NanoUSD int64

// USD is the price in USD per hour.
func (n NanoUSD) USD() float64 { return float64(n) / 1e9 }

// Limits on what a catalogue may hold. They bound memory on hostile input, and
// are eight times today's clouds or more.
const (
	maxOffers   = 1 << 20
	maxMachines = math.MaxUint16
	maxPlaces   = math.MaxUint16
	maxPrices   = 2 * maxOffers
	MaxNameLen  = 128
	// MaxUSDPerHour is above the dearest thing sold, a whole TPU pod at 25,805.
	MaxUSDPerHour = 1e6
	// MaxSize bounds vCPUs, GiB and accelerators; a TPU pod has 320,000 vCPUs.
	MaxSize = 1e8
)

// Place is where an offer is sold.
type Place struct {
	Cloud, Region, Zone string
	// regionID and cloudID number distinct regions and clouds for grouping.
	RegionID, CloudID uint16
}

// Prefix begins the ID of every offer in the place, and orders places.
func (p *Place) Prefix() string {
	if p.Zone == "" {
		return p.Cloud + "/" + p.Region + "/"
	}
	return p.Cloud + "/" + p.Region + "/" + p.Zone + "/"
}

// Machine is a machine type as one cloud sells it. A type that differs between
// regions, as c4.large in its EMR surcharge, is several machines, so that
// everything but price, place and interruption is a fact of the machine.
type Machine struct {
	Cloud        string
	InstanceType string
	Vcpu         float64
	MemoryGiB    float64
	Accelerator  string
	Count        float64
	Attached     bool
	Arm          bool
	// emr is the surcharge of EMR; 0 if EMR does not run on it or the surcharge is
	// not known.
	Emr NanoUSD
}

// TypeString is the TYPE part of the machine's offers' IDs.
func (m *Machine) TypeString() string {
	if m.Attached {
		return TypeString(m.InstanceType, m.Accelerator, m.Count)
	}
	return m.InstanceType
}

// compare orders machines as the IDs of their offers, and those of one type by
// all else, which keeps the order total.
func (m *Machine) compare(o *Machine) int {
	return cmp.Or(
		m.compareType(o),
		cmp.Compare(m.Emr, o.Emr),
		cmp.Compare(m.Vcpu, o.Vcpu),
		cmp.Compare(m.MemoryGiB, o.MemoryGiB),
		cmp.Compare(m.Accelerator, o.Accelerator),
		cmp.Compare(m.Count, o.Count),
		m.compareArch(o))
}

// compareArch puts x86-64 before Arm.
func (m *Machine) compareArch(o *Machine) int {
	switch {
	case m.Arm == o.Arm:
		return 0
	case o.Arm:
		return -1
	}
	return 1
}

func (m *Machine) compareType(o *Machine) int {
	return cmp.Or(cmp.Compare(m.Cloud, o.Cloud), cmp.Compare(m.TypeString(), o.TypeString()))
}

// Offer is an offer as read, before columns are laid out.
type Offer struct {
	machine, place uint16
	OnDemand       NanoUSD
	// spot is 0 where there is none.
	Spot NanoUSD
	Band uint8 // a position in bandNames
}

// Bands are Spot Advisor's labels of how often spot machines are taken back; the first is for an unknown rate.
var Bands = [...]string{"", "<5%", "5-10%", "10-15%", "15-20%", ">20%"}

// Columns is a catalogue's data: what a snapshot holds and indexes are built
// from. Offers are in the order of their IDs: by place, then by machine, both of
// which are sorted. A price is a position in prices, so prices compare as their
// positions do.
type Columns struct {
	Places   []Place
	Machines []Machine
	// prices are distinct and ascending.
	Prices []NanoUSD
	// One entry an offer:
	Machine  []uint16
	Place    []uint16
	OnDemand []uint32
	// spot is a position in prices plus one, 0 where there is none.
	Spot []uint32
	Band []uint8
}

// Len is how many offers there are.
func (c *Columns) Len() int { return len(c.Machine) }

// newColumns sorts places and machines, and lays out offers in the order of
// their IDs.
func newColumns(places []Place, machines []Machine, offers []Offer) *Columns {
	c := &Columns{Places: slices.Clone(places), Machines: slices.Clone(machines)}
	placeAt := sortedPositions(c.Places, func(a, b Place) int { return cmp.Compare(a.Prefix(), b.Prefix()) })
	machineAt := sortedPositions(c.Machines, func(a, b Machine) int { return a.compare(&b) })
	numberRegions(c.Places)

	sorted := slices.Clone(offers)
	for i := range sorted {
		sorted[i].machine = machineAt[sorted[i].machine]
		sorted[i].place = placeAt[sorted[i].place]
	}
	slices.SortFunc(sorted, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.machine, b.machine))
	})

	for _, o := range sorted {
		c.Prices = append(c.Prices, o.OnDemand)
		if o.Spot > 0 {
			c.Prices = append(c.Prices, o.Spot)
		}
	}
	slices.Sort(c.Prices)
	c.Prices = slices.Clip(slices.Compact(c.Prices))

	c.grow(len(sorted))
	for i, o := range sorted {
		c.Machine[i], c.Place[i], c.Band[i] = o.machine, o.place, o.Band
		c.OnDemand[i] = c.priceAt(o.OnDemand)
		if o.Spot > 0 {
			c.Spot[i] = c.priceAt(o.Spot) + 1
		}
	}
	return c
}

func (c *Columns) grow(n int) {
	c.Machine = make([]uint16, n)
	c.Place = make([]uint16, n)
	c.OnDemand = make([]uint32, n)
	c.Spot = make([]uint32, n)
	c.Band = make([]uint8, n)
}

func (c *Columns) priceAt(p NanoUSD) uint32 {
	i, _ := slices.BinarySearch(c.Prices, p)
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
func numberRegions(places []Place) {
	var region, cloud uint16
	for i := range places {
		if i > 0 {
			prev, p := &places[i-1], &places[i]
			if p.Cloud != prev.Cloud {
				cloud++
			}
			if p.Cloud != prev.Cloud || p.Region != prev.Region {
				region++
			}
		}
		places[i].RegionID, places[i].CloudID = region, cloud
	}
}

// CloudsOf lists the clouds of sorted places.
func CloudsOf(places []Place) []string {
	var clouds []string
	for i := range places {
		if i == 0 || places[i-1].Cloud != places[i].Cloud {
			clouds = append(clouds, places[i].Cloud)
		}
	}
	return clouds
}

// StartsOf counts how many of the sorted ids are each of n, as starts of runs.
func StartsOf(ids []uint16, n int) []uint32 {
	starts := make([]uint32, n+1)
	for _, id := range ids {
		starts[id+1]++
	}
	for i := range n {
		starts[i+1] += starts[i]
	}
	return starts
}
