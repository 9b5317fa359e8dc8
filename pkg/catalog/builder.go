package catalog

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/catalog/accel"
)

// builder collects the offers of all files.
type builder struct {
	places    []place
	machines  []machine
	offers    []rawOffer
	placeOf   map[placeKey]uint16
	machineOf map[machine]uint16
	// offerOf finds an offer by what its ID says, to notice a file that lists one
	// twice.
	offerOf map[offerKey]int
}

type placeKey struct{ cloud, region, zone string }

type offerKey struct {
	place        uint16
	instanceType string
	attached     string
	count        float64
}

func newBuilder() *builder {
	return &builder{
		placeOf:   make(map[placeKey]uint16),
		machineOf: make(map[machine]uint16),
		offerOf:   make(map[offerKey]int),
	}
}

// add adds an offer. Where a source lists the same offer twice alike, it is one
// (Google's TPU v4); where it lists it differently, it contradicts itself.
func (b *builder) add(m machine, p placeKey, o rawOffer) error {
	var err error
	if o.place, err = b.place(p); err != nil {
		return err
	}
	if o.machine, err = b.machine(m); err != nil {
		return err
	}
	key := offerKey{place: o.place, instanceType: m.instanceType}
	if m.attached {
		key.attached, key.count = m.accelerator, m.count
	}
	if i, twice := b.offerOf[key]; twice {
		if b.offers[i] != o {
			return fmt.Errorf("%s is listed twice in %s, and not alike", m.typeString(), cmp.Or(p.zone, p.region))
		}
		return nil
	}
	if len(b.offers) >= maxOffers {
		return fmt.Errorf("more than %d offers", maxOffers)
	}
	b.offerOf[key] = len(b.offers)
	b.offers = append(b.offers, o)
	return nil
}

func (b *builder) place(key placeKey) (uint16, error) {
	if at, ok := b.placeOf[key]; ok {
		return at, nil
	}
	if len(b.places) >= maxPlaces {
		return 0, fmt.Errorf("more than %d zones", maxPlaces)
	}
	at := uint16(len(b.places)) //nolint:gosec // bounded just above
	b.places = append(b.places, place{
		cloud: key.cloud, region: key.region, zone: key.zone,
		carbonGPerKWh: carbonGPerKWh(key.cloud, key.region),
	})
	b.placeOf[key] = at
	return at, nil
}

func (b *builder) machine(m machine) (uint16, error) {
	if at, ok := b.machineOf[m]; ok {
		return at, nil
	}
	if len(b.machines) >= maxMachines {
		return 0, fmt.Errorf("more than %d machine types", maxMachines)
	}
	at := uint16(len(b.machines)) //nolint:gosec // bounded just above
	b.machines = append(b.machines, m)
	b.machineOf[m] = at
	return at, nil
}

// columns lays out what was collected.
func (b *builder) columns() (*columns, error) {
	if len(b.offers) == 0 {
		return nil, fmt.Errorf("%w: no offer with a price", ErrBadData)
	}
	return newColumns(b.places, b.machines, b.offers), nil
}

// cloudReader interprets the rows of one cloud's file.
type cloudReader struct {
	file, cloud string
	out         *builder
	google      *composer
	// zoned and zoneless are the lines of the first row with and without a zone.
	zoned, zoneless int
}

func newCloudReader(file, cloud string, out *builder) *cloudReader {
	c := &cloudReader{file: file, cloud: cloud, out: out}
	if cloud == google {
		c.google = newComposer()
	}
	return c
}

func (c *cloudReader) fail(line int, column, reason string) error {
	return &DataError{File: c.file, Line: line, Column: column, Reason: reason}
}

func (c *cloudReader) add(r *row) error {
	if err := c.checkZone(r); err != nil {
		return err
	}
	if r.instanceType == "" && c.google == nil {
		return c.fail(r.line, colInstanceType, "is empty")
	}
	if r.instanceType == "" && r.accelerator == "" {
		return c.fail(r.line, colInstanceType, "is empty, and so is AcceleratorName")
	}
	r.accelerator = canonicalAccelerator(r.accelerator)
	correct(c.cloud, r)
	if r.accelerator == "" {
		r.count = 0
	}
	if !validAccelerator(r.accelerator) {
		return c.fail(r.line, colAccelerator,
			fmt.Sprintf("%q: want printable ASCII without / : and +, which offer IDs reserve", clip(r.accelerator)))
	}
	if c.google != nil {
		if handled := c.google.take(r); handled {
			return nil
		}
	}
	return c.offer(r, false)
}

// checkZone refuses a file that sells by zone here and by region there: an
// offer's ID could not tell the two apart.
func (c *cloudReader) checkZone(r *row) error {
	if r.zone == "" && c.zoneless == 0 {
		c.zoneless = r.line
	}
	if r.zone != "" && c.zoned == 0 {
		c.zoned = r.line
	}
	if c.zoned > 0 && c.zoneless > 0 {
		return c.fail(r.line, colZone,
			fmt.Sprintf("line %d has a zone and line %d has none; a cloud has zones in every row or in none", c.zoned,
				c.zoneless))
	}
	return nil
}

// finish adds what can only be known once the whole file is read.
func (c *cloudReader) finish() error {
	if c.google == nil {
		return nil
	}
	return c.google.compose(c.offer)
}

// offer adds a row that is sold as it stands.
func (c *cloudReader) offer(r *row, attached bool) error {
	if !r.priced || r.onDemand <= 0 {
		return nil
	}
	spot := r.spot
	if spot > r.onDemand {
		spot = 0
	}
	arch := r.arch
	if arch == "" {
		arch = archOf(c.cloud, r.instanceType)
	}
	m := machine{
		cloud: c.cloud, instanceType: r.instanceType, vcpu: r.vcpu, memoryGiB: r.memoryGiB,
		accelerator: r.accelerator, count: r.count, attached: attached, arch: arch, emr: r.emr,
	}
	err := c.out.add(m, placeKey{c.cloud, r.region, r.zone}, rawOffer{onDemand: r.onDemand, spot: spot, band: r.band})
	if err != nil {
		return c.fail(r.line, "", err.Error())
	}
	return nil
}

// canonicalAccelerator names an accelerator as package accel does; one that it
// does not know keeps its name, so that a new model can be bought before it is
// known here.
func canonicalAccelerator(name string) string {
	if name == "" {
		return ""
	}
	if canonical, err := accel.Normalize(name); err == nil {
		return canonical
	}
	return strings.ReplaceAll(name, " ", "-")
}
