package table

import (
	"cmp"
	"math"
	"slices"
)

// NanoUSD is a price in 10⁻⁹ USD per hour. Published prices have at most nine decimals, so their sums (host + GPU)
// are exact, and dividing by 10⁹ gives the same float64 as parsing the published decimal.
type NanoUSD int64

// USD returns the price in USD per hour.
func (n NanoUSD) USD() float64 { return float64(n) / 1e9 }

// Limits of a catalogue. They bound memory on hostile input, and are at least eight times the size of today's clouds.
const (
	maxOffers   = 1 << 20
	maxMachines = math.MaxUint16
	maxPlaces   = math.MaxUint16
	maxPrices   = 2 * maxOffers
	MaxNameLen  = 128
	// MaxUSDPerHour is above the most expensive offer, a whole TPU pod at 25,805.
	MaxUSDPerHour = 1e6
	// MaxSize bounds vCPUs, GiB and accelerators; a TPU pod has 320,000 vCPUs.
	MaxSize = 1e8
)

// Place is a place where offers are sold.
type Place struct {
	Cloud, Region, Zone string
	// RegionID and CloudID number distinct regions and clouds for grouping.
	RegionID, CloudID uint16
}

// Prefix returns the beginning of the ID of every offer in the place. Places are ordered by it.
func (p *Place) Prefix() string {
	if p.Zone == "" {
		return p.Cloud + "/" + p.Region + "/"
	}
	return p.Cloud + "/" + p.Region + "/" + p.Zone + "/"
}

// Machine is a machine type as one cloud sells it. Only price, place and interruption are outside
// of it. So a type that differs between regions, like c4.large in its EMR surcharge, is several
// machines.
type Machine struct {
	Cloud        string
	InstanceType string
	Vcpu         float64
	MemoryGiB    float64
	Accelerator  string
	Count        float64
	Attached     bool
	Arm          bool
	// Emr is the surcharge of EMR; 0 if EMR does not run on the machine or the surcharge is unknown.
	Emr NanoUSD
}

// TypeString returns the TYPE part of the IDs of the machine's offers.
func (m *Machine) TypeString() string {
	if m.Attached {
		return TypeString(m.InstanceType, m.Accelerator, m.Count)
	}
	return m.InstanceType
}

// compare orders machines like the IDs of their offers, and machines of one type by all other fields, so that the
// order is total.
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

// Offer is an offer before it is stored in columns.
type Offer struct {
	machine, place uint16
	OnDemand       NanoUSD
	// Spot is 0 if the offer is not sold as spot.
	Spot NanoUSD
	Band uint8 // an index into Bands
}

// Bands are Spot Advisor's labels for the frequency of interruption. The first is for an unknown frequency.
var Bands = [...]string{"", "<5%", "5-10%", "10-15%", "15-20%", ">20%"}

// Columns is a catalogue's data, from which snapshots and indexes are made. Offers are in the order of their IDs: by
// place, then by machine; places and machines are sorted. Offers have positions in Prices instead of prices, and
// positions compare like their prices.
type Columns struct {
	Places   []Place
	Machines []Machine
	// Prices are distinct and ascending.
	Prices []NanoUSD
	// One entry per offer:
	Machine  []uint16
	Place    []uint16
	OnDemand []uint32
	// Spot is a position in Prices plus one, or 0 if the offer is not sold as spot.
	Spot []uint32
	Band []uint8
}

// Len returns the number of offers.
func (c *Columns) Len() int { return len(c.Machine) }

// newColumns sorts places and machines, and puts offers into the order of their IDs.
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

// sortedPositions sorts s and returns the new position of each element.
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

// CloudsOf returns the clouds of sorted places.
func CloudsOf(places []Place) []string {
	var clouds []string
	for i := range places {
		if i == 0 || places[i-1].Cloud != places[i].Cloud {
			clouds = append(clouds, places[i].Cloud)
		}
	}
	return clouds
}

// StartsOf returns, for sorted ids below n, where the run of each ID starts; one more entry ends the last run.
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
