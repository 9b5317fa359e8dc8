package catalog

import (
	"cmp"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// An entry is an offer on one market: the offer's position, shifted left by one, plus one for spot.
const (
	onDemandBit = 0
	spotBit     = 1
)

// view has all entries on which one managed service (or none) runs, ordered by price, with indexes. A rank is a
// position in that order. Queries mark their matches by rank, so results are in order without sorting.
type view struct {
	// entries are ordered by price with surcharge, then offer ID, then on-demand
	// before spot.
	entries []uint32
	// surcharge is the service's surcharge for each machine; nil in the plain view.
	surcharge []table.NanoUSD
	// machineRanks has the ranks of each machine's entries, ascending; those of machine m begin at machineStart[m].
	machineStart, machineRanks []uint32
	// bucketRanks has the ranks of each place's entries on each market, ascending, and bucketMachines their machines;
	// bucket 2p+b is place p on the market of bit b.
	bucketStart, bucketRanks []uint32
	bucketMachines           []uint16
	// bucketSkips[bucket] and skips have the first position at which a machine can be large enough.
	bucketSkips []skip
	skips       skip
}

// sizeClasses is the number of sizes that a skip distinguishes: four for each power of two.
const sizeClasses = 48

// skip has, for a price-ordered list, the position of the first machine of each size class or above, by vCPUs and by
// half the GiB. Large machines are expensive, so a query for one can skip the beginning of the list.
type skip struct {
	vcpu, memory [sizeClasses]uint32
}

// classOf returns about 4·log₂ x, rounded down and limited to 0 … sizeClasses−1. It never decreases as x grows.
func classOf(x float64) int {
	if x < 1 {
		return 0
	}
	part, power := math.Frexp(x) // x = part · 2^power, ½ ≤ part < 1
	class := 4 * (power - 1)
	for _, quarter := range [...]float64{0.59460, 0.70711, 0.84090} {
		if part >= quarter {
			class++
		}
	}
	return min(class, sizeClasses-1)
}

// size has the size classes of a machine's vCPUs and memory.
type size struct{ vcpu, memory uint8 }

func sizeOf(vcpu, memoryGiB float64) size {
	return size{vcpu: uint8(classOf(vcpu)), memory: uint8(classOf(memoryGiB / 2))} //nolint:gosec // below sizeClasses
}

// from returns the first position that can have machines of at least that size.
func (s *skip) from(at size) uint32 { return max(s.vcpu[at.vcpu], s.memory[at.memory]) }

// skipBuilder fills a skip while a list is written in order.
type skipBuilder struct {
	skip
	length        uint32
	vcpuClasses   int
	memoryClasses int
}

func (b *skipBuilder) add(of size) {
	for b.vcpuClasses <= int(of.vcpu) {
		b.vcpu[b.vcpuClasses] = b.length
		b.vcpuClasses++
	}
	for b.memoryClasses <= int(of.memory) {
		b.memory[b.memoryClasses] = b.length
		b.memoryClasses++
	}
	b.length++
}

// done sets the position of the classes that no machine reaches to the end of the list, and returns the skip.
func (b *skipBuilder) done() skip {
	for ; b.vcpuClasses < sizeClasses; b.vcpuClasses++ {
		b.vcpu[b.vcpuClasses] = b.length
	}
	for ; b.memoryClasses < sizeClasses; b.memoryClasses++ {
		b.memory[b.memoryClasses] = b.length
	}
	return b.skip
}

// newPlainView orders all entries by price. Prices are already positions in a sorted table, so this is a counting
// sort.
func newPlainView(c *table.Columns, spotOnly func(offer int) bool) view {
	starts := make([]uint32, len(c.Prices)+1)
	n := c.Len()
	for i := range n {
		if !spotOnly(i) {
			starts[c.OnDemand[i]+1]++
		}
		if s := c.Spot[i]; s > 0 {
			starts[s]++ // s-1 is the price's position
		}
	}
	for i := range len(c.Prices) {
		starts[i+1] += starts[i]
	}
	entries := make([]uint32, starts[len(c.Prices)])
	for i := range n {
		e := uint32(i) << 1 // bounded by maxOffers
		if !spotOnly(i) {
			at := &starts[c.OnDemand[i]]
			entries[*at] = e | onDemandBit
			*at++
		}
		if s := c.Spot[i]; s > 0 {
			at := &starts[s-1]
			entries[*at] = e | spotBit
			*at++
		}
	}
	v := view{entries: entries}
	v.index(c)
	return v
}

// newServiceView orders the entries of the machines that a service runs on by price including its surcharge.
func newServiceView(c *table.Columns, spotOnly func(offer int) bool,
	surcharge func(*table.Machine) table.NanoUSD) *view {
	v := &view{surcharge: make([]table.NanoUSD, len(c.Machines))}
	for i := range c.Machines {
		v.surcharge[i] = surcharge(&c.Machines[i])
	}
	type priced struct {
		usd   table.NanoUSD
		entry uint32
	}
	var all []priced
	for i := range c.Len() {
		extra := v.surcharge[c.Machine[i]]
		if extra == 0 {
			continue
		}
		e := uint32(i) << 1 // bounded by maxOffers
		if !spotOnly(i) {
			all = append(all, priced{c.Prices[c.OnDemand[i]] + extra, e | onDemandBit})
		}
		if s := c.Spot[i]; s > 0 {
			all = append(all, priced{c.Prices[s-1] + extra, e | spotBit})
		}
	}
	slices.SortStableFunc(all, func(a, b priced) int { return cmp.Compare(a.usd, b.usd) })
	v.entries = make([]uint32, len(all))
	for i, p := range all {
		v.entries[i] = p.entry
	}
	v.index(c)
	return v
}

// index builds the indexes over entries.
func (v *view) index(c *table.Columns) {
	v.machineStart = make([]uint32, len(c.Machines)+1)
	v.bucketStart = make([]uint32, 2*len(c.Places)+1)
	for _, e := range v.entries {
		v.machineStart[int(c.Machine[e>>1])+1]++
		v.bucketStart[bucketOf(c, e)+1]++
	}
	for i := range c.Machines {
		v.machineStart[i+1] += v.machineStart[i]
	}
	for i := range 2 * len(c.Places) {
		v.bucketStart[i+1] += v.bucketStart[i]
	}

	sizes := make([]size, len(c.Machines))
	for i := range c.Machines {
		sizes[i] = sizeOf(c.Machines[i].Vcpu, c.Machines[i].MemoryGiB)
	}
	var whole skipBuilder
	inBucket := make([]skipBuilder, 2*len(c.Places))
	nextOfMachine := slices.Clone(v.machineStart)
	v.machineRanks = make([]uint32, len(v.entries))
	v.bucketRanks = make([]uint32, len(v.entries))
	v.bucketMachines = make([]uint16, len(v.entries))
	for i, e := range v.entries {
		rank := uint32(i) // at most 2 maxOffers
		m := c.Machine[e>>1]
		v.machineRanks[nextOfMachine[m]] = rank
		nextOfMachine[m]++
		bucket := bucketOf(c, e)
		at := v.bucketStart[bucket] + inBucket[bucket].length
		v.bucketRanks[at], v.bucketMachines[at] = rank, m
		inBucket[bucket].add(sizes[m])
		whole.add(sizes[m])
	}
	v.skips = whole.done()
	v.bucketSkips = make([]skip, len(inBucket))
	for i := range inBucket {
		v.bucketSkips[i] = inBucket[i].done()
	}
}

func bucketOf(c *table.Columns, entry uint32) int {
	return 2*int(c.Place[entry>>1]) + int(entry&spotBit)
}
