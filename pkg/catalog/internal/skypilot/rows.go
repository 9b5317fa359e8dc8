package skypilot

import (
	"fmt"

	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// cloudReader interprets the rows of one cloud's file.
type cloudReader struct {
	file, cloud string
	out         *table.Builder
	google      *composer
	// zoned and zoneless are the lines of the first row with a zone and of the first one without.
	zoned, zoneless int
}

func newCloudReader(file, cloud string, out *table.Builder) *cloudReader {
	c := &cloudReader{file: file, cloud: cloud, out: out}
	if cloud == googleCloud {
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
	r.accelerator = table.CanonicalAccelerator(r.accelerator)
	correct(c.cloud, r)
	if r.accelerator == "" {
		r.count = 0
	}
	if !table.ValidAccelerator(r.accelerator) {
		return c.fail(r.line, colAccelerator,
			fmt.Sprintf("%.32q: want printable ASCII without / : and +, which offer IDs reserve", r.accelerator))
	}
	if c.google != nil {
		if handled := c.google.keep(r); handled {
			return nil
		}
	}
	return c.offer(r, false)
}

// checkZone rejects a file in which some rows have a zone and others have none: the form of an offer's ID would be
// ambiguous.
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

// finish adds the offers that need the whole file.
func (c *cloudReader) finish() error {
	if c.google == nil {
		return nil
	}
	return c.google.compose(c.offer)
}

// offer adds the offer of a row, if it has a price.
func (c *cloudReader) offer(r *row, attached bool) error {
	if !r.priced || r.onDemand <= 0 {
		return nil
	}
	spot := r.spot
	if spot > r.onDemand {
		spot = 0
	}
	arm := r.arm
	if !r.archGiven {
		arm = IsARM(c.cloud, r.instanceType)
	}
	m := table.Machine{
		Cloud: c.cloud, InstanceType: r.instanceType, Vcpu: r.vcpu, MemoryGiB: r.memoryGiB,
		Accelerator: r.accelerator, Count: r.count, Attached: attached, Arm: arm, Emr: r.emr,
	}
	err := c.out.Add(m, table.Place{Cloud: c.cloud, Region: r.region, Zone: r.zone},
		table.Offer{OnDemand: r.onDemand, Spot: spot, Band: r.band})
	if err != nil {
		return c.fail(r.line, "", err.Error())
	}
	return nil
}
