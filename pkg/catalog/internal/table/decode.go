package table

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Decode reads columns that Encode wrote, and validates them. Its errors wrap ErrBadSnapshot.
func Decode(raw []byte) (*Columns, error) {
	d := decoder{rest: raw}
	cols := d.columns()
	if d.err != nil {
		return nil, d.err
	}
	return cols, nil
}

// decoder reads a snapshot's bytes. After the first error it returns zeros.
type decoder struct {
	rest  []byte
	names string
	err   error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: "+format, append([]any{ErrBadSnapshot}, args...)...)
	}
	d.rest = nil
}

func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail("cut short")
		return 0
	}
	d.rest = d.rest[n:]
	return x
}

// count reads a count of things. There are at most limit of them, and each takes at least size more bytes.
func (d *decoder) count(what string, limit, size int) int {
	n := d.uvarint()
	if n > uint64(limit) || n*uint64(size) > uint64(len(d.rest)) { //nolint:gosec // both are small and positive
		d.fail("%d %s", n, what)
		return 0
	}
	return int(n) //nolint:gosec // at most limit
}

func (d *decoder) take(n int) []byte {
	if n > len(d.rest) {
		d.fail("cut short")
		return nil
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}

// name reads the next name.
func (d *decoder) name() string {
	n := d.uvarint()
	if n > MaxNameLen || int(n) > len(d.names) {
		d.fail("a name of %d bytes", n)
		return ""
	}
	s := d.names[:n]
	d.names = d.names[n:]
	return s
}

// size reads a float64 that is a size.
func (d *decoder) size() float64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	x := math.Float64frombits(binary.LittleEndian.Uint64(b))
	if !(x >= 0 && x <= MaxSize) {
		d.fail("a size of %g", x)
		return 0
	}
	return x
}

func (d *decoder) columns() *Columns {
	d.names = string(d.take(d.count("bytes of names", MaxBytes, 1)))
	c := &Columns{}
	d.places(c)
	d.machines(c)
	d.prices(c)
	d.offers(c)
	if d.err == nil && (len(d.rest) > 0 || len(d.names) > 0) {
		d.fail("bytes left over")
	}
	return c
}

func (d *decoder) places(c *Columns) {
	c.Places = make([]Place, d.count("places", maxPlaces, 3))
	last := ""
	for i := range c.Places {
		p := &c.Places[i]
		p.Cloud, p.Region, p.Zone = d.name(), d.name(), d.name()
		prefix := p.Prefix()
		switch {
		case d.err != nil:
			return
		case !ValidName(p.Cloud) || !ValidName(p.Region) || p.Zone != "" && !ValidName(p.Zone):
			d.fail("place %q", prefix)
		case prefix <= last:
			d.fail("place %q is out of order", prefix)
		}
		last = prefix
	}
	numberRegions(c.Places)
}

func (d *decoder) machines(c *Columns) {
	c.Machines = make([]Machine, d.count("machine types", maxMachines, 29))
	clouds := CloudsOf(c.Places)
	for i := range c.Machines {
		m := &c.Machines[i]
		m.Cloud, m.InstanceType, m.Accelerator = d.name(), d.name(), d.name()
		flags := d.take(1)
		m.Vcpu, m.MemoryGiB, m.Count = d.size(), d.size(), d.size()
		m.Emr = d.price()
		if d.err != nil {
			return
		}
		m.Attached = flags[0]&flagAttached != 0
		m.Arm = flags[0]&flagARM != 0
		switch {
		case flags[0]&^knownFlags != 0,
			!ValidName(m.Cloud), !ValidName(m.InstanceType), !ValidAccelerator(m.Accelerator),
			(m.Accelerator == "") != (m.Count == 0), m.Attached && m.Accelerator == "":
			d.fail("machine type %q", m.InstanceType)
		case !slices.Contains(clouds, m.Cloud):
			d.fail("machine type %q is of a cloud without places", m.InstanceType)
		case i > 0 && m.compare(&c.Machines[i-1]) <= 0:
			d.fail("machine type %q is out of order", m.InstanceType)
		}
	}
}

// price reads a price or a difference of prices.
func (d *decoder) price() NanoUSD {
	x := d.uvarint()
	if x > MaxUSDPerHour*1e9 {
		d.fail("a price of %d nano-USD", x)
		return 0
	}
	return NanoUSD(x) // bounded just above
}

func (d *decoder) prices(c *Columns) {
	c.Prices = make([]NanoUSD, d.count("prices", maxPrices, 1))
	var last NanoUSD
	for i := range c.Prices {
		step := d.price()
		last += step
		if d.err == nil && (step == 0 || last > MaxUSDPerHour*1e9) {
			d.fail("price %d is out of order", i)
		}
		c.Prices[i] = last
	}
}

func (d *decoder) offers(c *Columns) {
	n := d.count("offers", maxOffers, 8)
	c.grow(n)
	d.placesOfOffers(c, n)
	d.machinesOfOffers(c)
	d.positions(c.OnDemand)
	d.positions(c.Spot)
	bands := d.take(n)
	if d.err != nil {
		return
	}
	for i := range n {
		c.Band[i] = bands[i]
		switch {
		case int(c.OnDemand[i]) >= len(c.Prices), int(c.Spot[i]) > len(c.Prices):
			d.fail("offer %d has a price that is not listed", i)
			return
		case c.Spot[i] > c.OnDemand[i]+1:
			d.fail("offer %d is more expensive as spot", i)
			return
		case int(bands[i]) >= len(Bands):
			d.fail("offer %d has interruption band %d", i, bands[i])
			return
		}
	}
}

func (d *decoder) placesOfOffers(c *Columns, n int) {
	at := 0
	for p := range c.Places {
		count := d.uvarint()
		if count > uint64(n-at) { //nolint:gosec // at never passes n
			d.fail("too many offers in %s", c.Places[p].Prefix())
			return
		}
		for range count {
			c.Place[at] = uint16(p) // bounded by maxPlaces
			at++
		}
	}
	if at != n {
		d.fail("%d offers of %d have no place", n-at, n)
	}
}

func (d *decoder) machinesOfOffers(c *Columns) {
	if d.err != nil {
		return
	}
	// Several machines can have the same type. They follow each other, and a place has at most one of them.
	typeOf := make([]uint16, len(c.Machines))
	for m := 1; m < len(c.Machines); m++ {
		typeOf[m] = typeOf[m-1]
		if c.Machines[m].compareType(&c.Machines[m-1]) != 0 {
			typeOf[m]++
		}
	}
	last := uint64(0)
	for i := range c.Machine {
		first := i == 0 || c.Place[i] != c.Place[i-1]
		step := d.uvarint()
		if first {
			last = 0
		}
		last += step
		switch {
		case d.err != nil:
			return
		case step > maxMachines || last >= uint64(len(c.Machines)), step == 0 && !first:
			d.fail("offer %d has machine type %d", i, last)
			return
		case c.Machines[last].Cloud != c.Places[c.Place[i]].Cloud:
			d.fail("offer %d is of another cloud than its place", i)
			return
		case !first && typeOf[last] == typeOf[last-step]:
			d.fail("offer %d is listed twice", i)
			return
		}
		c.Machine[i] = uint16(last) //nolint:gosec // bounded by maxMachines
	}
}

// positions reads a column of positions in prices.
func (d *decoder) positions(column []uint32) {
	b := d.take(3 * len(column))
	if d.err != nil {
		return
	}
	for i := range column {
		column[i] = uint32(b[3*i]) | uint32(b[3*i+1])<<8 | uint32(b[3*i+2])<<16
	}
}

// ErrBadSnapshot is wrapped by the errors of [ReadSnapshot].
var ErrBadSnapshot = errors.New("bad catalogue snapshot")
