package catalog

import (
	"fmt"
	"math"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/catalog/internal/table"
)

// filter is a query resolved against a catalogue: the matching machines, places and markets. Machines and places are
// each a list and a set.
type filter struct {
	service Service
	view    *view
	// machines and machineSet have the matching machines. machineEntries is the number of their entries in the view,
	// placeEntries that of the matching places.
	machines       []uint16
	machineSet     bitset
	machineEntries int
	places         []uint16
	placeSet       bitset
	placeEntries   int
	cloudSet       bitset
	marketBits     marketBits
	// minSize is the minimum size of matching machines. Walks use it to skip smaller ones.
	minSize size
}

// marketBits is a set of the market bits of entries.
type marketBits uint8

func (b marketBits) has(bit int) bool { return b&(1<<bit) != 0 }

// compile resolves q against c. Its error is a *QueryError.
func (f *filter) compile(c *Catalog, q *Query) error {
	if err := q.validate(); err != nil {
		return err
	}
	f.service = q.Service
	if f.view = c.viewOf(q.Service); f.view == nil {
		return &QueryError{Field: "service", Reason: fmt.Sprintf("unknown service %q: want emr or dataproc", q.Service)}
	}
	switch q.Market {
	case OnDemand:
		f.marketBits = 1 << onDemandBit
	case Spot:
		f.marketBits = 1 << spotBit
	default:
		f.marketBits = 1<<onDemandBit | 1<<spotBit
	}
	f.minSize = sizeOf(q.VCPU.Min, q.MemoryGiB.Min)
	f.selectPlaces(c, q)
	return f.selectMachines(c, q)
}

func (q *Query) validate() error {
	for _, r := range []struct {
		field string
		Range
	}{
		{"vcpu", q.VCPU},
		{"memoryGiB", q.MemoryGiB},
		{"acceleratorCount", Range{Min: q.AcceleratorCount}},
		{"maxCarbonGPerKWh", Range{Max: q.MaxCarbonGPerKWh}},
		{"maxUSDPerHour", Range{Max: q.MaxUSDPerHour}},
	} {
		switch {
		case math.IsNaN(r.Min) || math.IsNaN(r.Max) || r.Min < 0 || r.Max < 0:
			return &QueryError{Field: r.field, Reason: "want a number of 0 or more"}
		case r.Max != 0 && r.Min > r.Max:
			return &QueryError{Field: r.field, Reason: fmt.Sprintf("the minimum %g is above the maximum %g",
				r.Min, r.Max)}
		}
	}
	switch {
	case q.Limit < 0:
		return &QueryError{Field: "limit", Reason: "want a number of 0 or more"}
	case q.AcceleratorCount > 0 && (q.Accelerator == "" || q.Accelerator == AnyAccelerator) && q.InstanceType == "":
		return &QueryError{Field: "acceleratorCount",
			Reason: fmt.Sprintf("%g of which accelerator?", q.AcceleratorCount)}
	case q.Arch != "" && q.Arch != AMD64 && q.Arch != ARM64:
		return &QueryError{Field: "arch", Reason: fmt.Sprintf("unknown architecture %q: want amd64 or arm64", q.Arch)}
	case q.Market > Spot:
		return &QueryError{Field: "market", Reason: "unknown market"}
	case q.CheapestPer > PerCloud:
		return &QueryError{Field: "cheapestPer", Reason: "unknown scope"}
	case int(q.MaxInterruption) >= len(table.Bands):
		return &QueryError{Field: "maxInterruption", Reason: "unknown interruption band"}
	}
	return nil
}

func (f *filter) selectPlaces(c *Catalog, q *Query) {
	clear(f.placeSet)
	clear(f.cloudSet)
	f.places, f.placeEntries = f.places[:0], 0
	regionOK := false
	for i := range c.cols.Places {
		p := &c.cols.Places[i]
		if i == 0 || c.cols.Places[i-1].RegionID != p.RegionID {
			regionOK = admitsName(q.Clouds, "", p.Cloud) && admitsName(q.Regions, p.Cloud, p.Region) &&
				(q.MaxCarbonGPerKWh == 0 || c.carbon[i] > 0 && c.carbon[i] <= q.MaxCarbonGPerKWh)
		}
		if !regionOK || !admitsName(q.Zones, p.Cloud, p.Zone) {
			continue
		}
		f.places = append(f.places, uint16(i)) // bounded by maxPlaces
		f.placeSet.add(i)
		f.cloudSet.add(int(p.CloudID))
		for bit := range 2 {
			if f.marketBits.has(bit) {
				f.placeEntries += int(f.view.bucketStart[2*i+bit+1] - f.view.bucketStart[2*i+bit])
			}
		}
	}
}

// admitsName reports whether a list is empty or has name, alone or as cloud:name.
func admitsName(list []string, cloud, name string) bool {
	if len(list) == 0 {
		return true
	}
	for _, want := range list {
		if before, after, qualified := strings.Cut(want, ":"); qualified && cloud != "" {
			if !strings.EqualFold(before, cloud) {
				continue
			}
			want = after
		}
		if len(want) == len(name) && strings.EqualFold(want, name) {
			return true
		}
	}
	return false
}

func (f *filter) selectMachines(c *Catalog, q *Query) error {
	clear(f.machineSet)
	f.machines, f.machineEntries = f.machines[:0], 0
	accelerator := ""
	switch q.Accelerator {
	case "", AnyAccelerator:
	default:
		name, err := c.acceleratorName(q.Accelerator)
		if err != nil {
			return &QueryError{Field: "accelerator", Reason: err.Error(), Err: err}
		}
		accelerator = name
	}
	switch {
	case q.InstanceType != "":
		for _, id := range c.byInstanceType[strings.ToLower(q.InstanceType)] {
			if accelerator == "" || c.cols.Machines[id].Accelerator == accelerator {
				f.addIfAdmitted(c, q, id)
			}
		}
	case accelerator != "":
		for _, id := range c.byAccelerator[accelerator] {
			f.addIfAdmitted(c, q, id)
		}
	default:
		f.addBySize(c, q)
	}
	return nil
}

// addIfAdmitted adds a machine if it passes the filters on size, cloud, architecture and accelerator count.
func (f *filter) addIfAdmitted(c *Catalog, q *Query, id uint16) {
	t := &c.traits[id]
	if q.VCPU.contains(t.vcpu) && q.MemoryGiB.contains(t.memoryGiB) && f.cloudSet.has(int(t.cloudID)) &&
		(q.Arch == "" || q.Arch == archName(c.cols.Machines[id].Arm)) &&
		(q.AcceleratorCount == 0 || q.AcceleratorCount == c.cols.Machines[id].Count) &&
		(q.namesSize() || !tooSmallForGPUs(&c.cols.Machines[id])) && c.hasHardware(q, id) {
		f.add(id)
	}
}

// hasHardware reports whether a machine is of the family and has the processor that a query names.
func (c *Catalog) hasHardware(q *Query, id uint16) bool {
	if q.Family == "" && q.CPU == "" {
		return true
	}
	h := c.hardwareOf(id)
	return (q.Family == "" || hardware.IsFamily(h.Family, q.Family)) && (q.CPU == "" || hardware.IsCPU(h.CPU, q.CPU))
}

// namesSize reports whether the query states the size of the machine. Such a query may get a small machine.
func (q *Query) namesSize() bool {
	return q.VCPU != Range{} || q.MemoryGiB != Range{} || q.InstanceType != ""
}

// tooSmallForGPUs reports whether a machine is too small for the GPUs attached to it: smaller than an n1-standard-4 for
// each, which is the size of the smallest machines with a built-in T4 on other clouds.
func tooSmallForGPUs(m *table.Machine) bool {
	return m.Attached && (m.Vcpu < 4*m.Count || m.MemoryGiB < 15*m.Count)
}

func (f *filter) add(id uint16) {
	f.machines = append(f.machines, id)
	f.machineSet.add(int(id))
	f.machineEntries += int(f.view.machineStart[id+1] - f.view.machineStart[id])
}

// addBySize does take's work for all machines of the allowed clouds, in a loop that is fast enough for a query that
// names neither type nor accelerator.
func (f *filter) addBySize(c *Catalog, q *Query) {
	var mask, want kind
	if q.Accelerator != AnyAccelerator {
		mask |= kindAccelerated
	}
	switch q.Arch {
	case AMD64:
		mask |= kindARM
	case ARM64:
		mask |= kindARM
		want |= kindARM
	}
	vcpu, memory := q.VCPU.closed(), q.MemoryGiB.closed()
	for cloud := range c.clouds {
		if !f.cloudSet.has(cloud) {
			continue
		}
		start := c.cloudStart[cloud]
		for i := range c.traits[start:c.cloudStart[cloud+1]] {
			t := &c.traits[start:][i]
			if t.vcpu >= vcpu.Min && t.vcpu <= vcpu.Max && t.memoryGiB >= memory.Min && t.memoryGiB <= memory.Max &&
				t.kind&mask == want && c.hasHardware(q, uint16(start+i)) { //nolint:gosec // bounded by maxMachines
				f.add(uint16(start + i)) //nolint:gosec // bounded by maxMachines
			}
		}
	}
}

// entriesForLimit estimates how many entries have to be looked at to find the first limit matches of each matching
// machine. It is more if only some places match.
func (f *filter) entriesForLimit(limit int) int {
	if limit == 0 || limit > selectiveEntries || f.placeEntries == 0 {
		return f.machineEntries
	}
	rarity := (len(f.view.entries) + f.placeEntries - 1) / f.placeEntries
	return min(f.machineEntries, len(f.machines)*limit*rarity)
}

// acceleratorName returns the canonical name for a spelling, from all known accelerators or from those that the
// catalogue sells.
func (c *Catalog) acceleratorName(spelling string) (string, error) {
	if _, ok := c.byAccelerator[spelling]; ok {
		return spelling, nil
	}
	name, err := accel.Normalize(spelling)
	if err == nil {
		return name, nil
	}
	for own := range c.byAccelerator {
		if strings.EqualFold(own, spelling) {
			return own, nil
		}
	}
	return "", err
}
