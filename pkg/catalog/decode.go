package catalog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// decode reads a snapshot.
func decode(data []byte) (*columns, error) {
	frame, ok := bytes.CutPrefix(data, []byte(snapshotMagic))
	if !ok {
		return nil, fmt.Errorf("%w: does not begin like one", ErrBadSnapshot)
	}
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxSnapshotBytes))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadSnapshot, err)
	}
	defer z.Close()
	raw, err := z.DecodeAll(frame, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadSnapshot, err)
	}
	return decodeColumns(raw)
}

// decodeColumns reads what encode wrote.
func decodeColumns(raw []byte) (*columns, error) {
	d := decoder{rest: raw}
	cols := d.columns()
	if d.err != nil {
		return nil, d.err
	}
	return cols, nil
}

// decoder takes a snapshot's bytes apart. After the first error it yields zeros.
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

// count reads a number of things, of which there are at most limit and each of
// which takes at least size more bytes.
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
	if n > maxNameLen || int(n) > len(d.names) {
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
	if !(x >= 0 && x <= maxSize) {
		d.fail("a size of %g", x)
		return 0
	}
	return x
}

func (d *decoder) columns() *columns {
	d.names = string(d.take(d.count("bytes of names", maxSnapshotBytes, 1)))
	c := &columns{}
	d.places(c)
	d.machines(c)
	d.prices(c)
	d.offers(c)
	if d.err == nil && (len(d.rest) > 0 || len(d.names) > 0) {
		d.fail("bytes left over")
	}
	return c
}

func (d *decoder) places(c *columns) {
	c.places = make([]place, d.count("places", maxPlaces, 3))
	last := ""
	for i := range c.places {
		p := &c.places[i]
		p.cloud, p.region, p.zone = d.name(), d.name(), d.name()
		prefix := p.prefix()
		switch {
		case d.err != nil:
			return
		case !validName(p.cloud) || !validName(p.region) || p.zone != "" && !validName(p.zone):
			d.fail("place %q", prefix)
		case prefix <= last:
			d.fail("place %q is out of order", prefix)
		}
		p.carbonGPerKWh = carbonGPerKWh(p.cloud, p.region)
		last = prefix
	}
	numberRegions(c.places)
}

func (d *decoder) machines(c *columns) {
	c.machines = make([]machine, d.count("machine types", maxMachines, 29))
	clouds := cloudsOf(c.places)
	for i := range c.machines {
		m := &c.machines[i]
		m.cloud, m.instanceType, m.accelerator = d.name(), d.name(), d.name()
		flags := d.take(1)
		m.vcpu, m.memoryGiB, m.count = d.size(), d.size(), d.size()
		m.emr = d.price()
		if d.err != nil {
			return
		}
		m.attached = flags[0]&flagAttached != 0
		m.arch = AMD64
		if flags[0]&flagARM != 0 {
			m.arch = ARM64
		}
		switch {
		case flags[0]&^knownFlags != 0,
			!validName(m.cloud), !validName(m.instanceType), !validAccelerator(m.accelerator),
			(m.accelerator == "") != (m.count == 0), m.attached && m.accelerator == "":
			d.fail("machine type %q", m.instanceType)
		case !slices.Contains(clouds, m.cloud):
			d.fail("machine type %q is of a cloud without places", m.instanceType)
		case i > 0 && m.compare(&c.machines[i-1]) <= 0:
			d.fail("machine type %q is out of order", m.instanceType)
		}
	}
}

// price reads a price or a difference of prices.
func (d *decoder) price() nanoUSD {
	x := d.uvarint()
	if x > maxUSDPerHour*1e9 {
		d.fail("a price of %d nano-USD", x)
		return 0
	}
	return nanoUSD(x) // bounded just above
}

func (d *decoder) prices(c *columns) {
	c.prices = make([]nanoUSD, d.count("prices", maxPrices, 1))
	var last nanoUSD
	for i := range c.prices {
		step := d.price()
		last += step
		if d.err == nil && (step == 0 || last > maxUSDPerHour*1e9) {
			d.fail("price %d is out of order", i)
		}
		c.prices[i] = last
	}
}

func (d *decoder) offers(c *columns) {
	n := d.count("offers", maxOffers, 8)
	c.grow(n)
	d.placesOfOffers(c, n)
	d.machinesOfOffers(c)
	d.positions(c.onDemand)
	d.positions(c.spot)
	bands := d.take(n)
	if d.err != nil {
		return
	}
	for i := range n {
		c.band[i] = InterruptionBand(bands[i])
		switch {
		case int(c.onDemand[i]) >= len(c.prices), int(c.spot[i]) > len(c.prices):
			d.fail("offer %d has a price that is not listed", i)
			return
		case c.spot[i] > c.onDemand[i]+1:
			d.fail("offer %d is dearer as spot", i)
			return
		case int(bands[i]) >= len(bandNames):
			d.fail("offer %d has interruption band %d", i, bands[i])
			return
		}
	}
}

func (d *decoder) placesOfOffers(c *columns, n int) {
	at := 0
	for p := range c.places {
		count := d.uvarint()
		if count > uint64(n-at) { //nolint:gosec // at never passes n
			d.fail("too many offers in %s", c.places[p].prefix())
			return
		}
		for range count {
			c.place[at] = uint16(p) // bounded by maxPlaces
			at++
		}
	}
	if at != n {
		d.fail("%d offers of %d are nowhere", n-at, n)
	}
}

func (d *decoder) machinesOfOffers(c *columns) {
	if d.err != nil {
		return
	}
	// A type may be several machines, which follow each other; a place has one.
	typeOf := make([]uint16, len(c.machines))
	for m := 1; m < len(c.machines); m++ {
		typeOf[m] = typeOf[m-1]
		if c.machines[m].compareType(&c.machines[m-1]) != 0 {
			typeOf[m]++
		}
	}
	last := uint64(0)
	for i := range c.machine {
		first := i == 0 || c.place[i] != c.place[i-1]
		step := d.uvarint()
		if first {
			last = 0
		}
		last += step
		switch {
		case d.err != nil:
			return
		case step > maxMachines || last >= uint64(len(c.machines)), step == 0 && !first:
			d.fail("offer %d has machine type %d", i, last)
			return
		case c.machines[last].cloud != c.places[c.place[i]].cloud:
			d.fail("offer %d is of another cloud than its place", i)
			return
		case !first && typeOf[last] == typeOf[last-step]:
			d.fail("offer %d is listed twice", i)
			return
		}
		c.machine[i] = uint16(last) //nolint:gosec // bounded by maxMachines
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
