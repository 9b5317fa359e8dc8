package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
)

// describe returns a query in words, with the terms of a job file.
func describe(q *Query) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch {
	case q.Accelerator == AnyAccelerator || q.Accelerator == "":
	case q.AcceleratorCount > 0:
		add("accelerators %s:%s", q.Accelerator, formatCount(q.AcceleratorCount))
	default:
		add("accelerators %s", q.Accelerator)
	}
	if (q.VCPU != Range{}) {
		add("%s vCPUs", q.VCPU)
	}
	if (q.MemoryGiB != Range{}) {
		add("%s GiB of memory", q.MemoryGiB.format(fault.Number))
	}
	if q.InstanceType != "" {
		add("machine type %s", q.InstanceType)
	}
	if q.Family != "" {
		add("family %s", q.Family)
	}
	if q.CPU != "" {
		add("processor %s", q.CPU)
	}
	if q.Arch != "" {
		add("architecture %s", q.Arch)
	}
	if q.Service != NoService {
		add("service %s", q.Service)
	}
	if q.Market != AnyMarket {
		add("market %s", q.Market)
	}
	for _, l := range []struct {
		what  string
		names []string
	}{{"cloud", q.Clouds}, {"region", q.Regions}, {"zone", q.Zones}} {
		if len(l.names) > 0 {
			add("%s %s", l.what, strings.Join(l.names, " or "))
		}
	}
	if q.MaxUSDPerHour > 0 {
		add("at most %g USD/h", q.MaxUSDPerHour)
	}
	if q.MaxInterruption != UnknownInterruption {
		add("interruptions of at most %s a month", q.MaxInterruption)
	}
	if q.MaxCarbonGPerKWh > 0 {
		add("a grid of at most %g gCO2eq/kWh", q.MaxCarbonGPerKWh)
	}
	if len(parts) == 0 {
		return "the requested machine"
	}
	return strings.Join(parts, ", ")
}

// String returns the range as job files have it: 8+ for at least, 8 for exactly.
func (r Range) String() string { return r.format(formatCount) }

// format returns the range, with its numbers formatted by number.
func (r Range) format(number func(float64) string) string {
	switch {
	case r.Min == r.Max:
		return number(r.Min)
	case r.Max == 0:
		return number(r.Min) + "+"
	case r.Min == 0:
		return "at most " + number(r.Max)
	default:
		return number(r.Min) + " to " + number(r.Max)
	}
}

// misspelling is a name in a query that the catalogue does not have, probably a misspelling.
type misspelling struct {
	// filter is the field of Query, as in Relaxation.
	filter string
	what   string // the kind of the name
	name   string
	hint   string
}

// countNames returns the number of names in a filter.
func (q *Query) countNames(filter string) int {
	switch filter {
	case "clouds":
		return len(q.Clouds)
	case "regions":
		return len(q.Regions)
	case "zones":
		return len(q.Zones)
	default:
		return 1
	}
}

// Missing returns the names in a query that the catalogue does not have: accelerator A, region b, zone c, machine type
// d. Clouds are not looked up.
func (c *Catalog) Missing(q Query) (names []string) {
	q.Clouds = nil
	for _, m := range c.misspellings(&q) {
		names = append(names, m.what+" "+m.name)
	}
	return names
}

// misspellings returns the misspelt names, with the nearest names that the catalogue has.
func (c *Catalog) misspellings(q *Query) []misspelling {
	var found []misspelling
	for _, name := range q.Clouds {
		found = appendMisspelling(found, "clouds", "cloud", name, c.clouds)
	}
	var regions, zones []string
	for i := range c.cols.Places {
		regions = append(regions, c.cols.Places[i].Region)
		zones = append(zones, c.cols.Places[i].Zone)
	}
	for _, name := range q.Regions {
		found = appendMisspelling(found, "regions", "region", afterCloud(name), regions)
	}
	for _, name := range q.Zones {
		name = afterCloud(name)
		if !slices.Contains(zones, name) && isAWSZoneName(name, regions) {
			found = append(found,
				misspelling{
					"zones", "zone", name,
					fmt.Sprintf(
						"AWS zones are named by their ID, such as use1-az1, because %s is a different zone in "+
							"each account",
						name,
					),
				})
			continue
		}
		found = appendMisspelling(found, "zones", "zone", name, zones)
	}
	if q.Family != "" {
		var names []string
		for i := range c.cols.Machines {
			names = append(names, c.hardwareOf(uint16(i)).Family) //nolint:gosec // bounded by maxMachines
		}
		if !slices.ContainsFunc(names, func(name string) bool { return hardware.IsFamily(name, q.Family) }) {
			found = appendMisspelling(found, "family", "family", q.Family, names)
		}
	}
	if q.InstanceType != "" && len(c.byInstanceType[strings.ToLower(q.InstanceType)]) == 0 {
		var types []string
		for i := range c.cols.Machines {
			types = append(types, c.cols.Machines[i].InstanceType)
		}
		found = appendMisspelling(found, "instanceType", "machine type", q.InstanceType, types)
	}
	if q.Accelerator != "" && q.Accelerator != AnyAccelerator {
		if name, err := c.acceleratorName(q.Accelerator); err == nil && len(c.byAccelerator[name]) == 0 {
			found = append(found, misspelling{"accelerator", "accelerator", name,
				"no cloud in the catalogue sells " + name})
		}
	}
	return found
}

func appendMisspelling(found []misspelling, filter, what, name string, known []string) []misspelling {
	if slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, name) }) {
		return found
	}
	hint := fmt.Sprintf("no %s is called %.32s", what, name)
	if what == "cloud" && strings.EqualFold(name, "kubernetes") { // its offers are those of added clusters
		return append(found, misspelling{filter, what, name,
			"no cluster was added yet: tradewind cloud add kubernetes"})
	}
	if near := fault.Nearest(name, known); near != "" {
		hint += ", did you mean " + near + "?"
	}
	return append(found, misspelling{filter, what, name, hint})
}

func afterCloud(name string) string {
	if _, region, ok := strings.Cut(name, ":"); ok {
		return region
	}
	return name
}

// isAWSZoneName reports whether name is like us-east-1a: a region of AWS and a letter.
func isAWSZoneName(name string, regions []string) bool {
	if name == "" {
		return false
	}
	last := name[len(name)-1]
	return last >= 'a' && last <= 'z' && slices.Contains(regions, name[:len(name)-1])
}
