package planning

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// CheckOffers finds the first task that asks for something no cloud sells, and returns an error with its line in the
// file, which the planner does not know. It returns nil if every task has an offer.
func CheckOffers(c *catalog.Catalog, spec *dag.Job, clouds []string) error {
	if err := checkServices(c, spec); err != nil {
		return err
	}
	asked := map[string]bool{} // look up equal requests once
	for i := range spec.Tasks {
		key, err := json.Marshal(spec.Tasks[i].Resources)
		if err != nil {
			return err
		}
		if asked[string(key)] {
			continue
		}
		asked[string(key)] = true
		if err := taskOffer(c, spec, i, clouds); err != nil {
			return err
		}
	}
	return nil
}

// taskOffer returns an error about the first alternative of a task if no alternative has an offer.
func taskOffer(c *catalog.Catalog, spec *dag.Job, task int, clouds []string) error {
	var first error
	for alt, r := range spec.Tasks[task].Resources {
		err := c.Explain(queryOf(r, spec.Regions, clouds))
		if err == nil {
			return nil
		}
		if first != nil {
			continue
		}
		var none *catalog.NoOfferError
		if !errors.As(err, &none) {
			what, hint, _ := strings.Cut(err.Error(), "; ")
			first = command.BadInput(hint, "%v", spec.ErrorAt(task, alt, "", what, ""))
			continue
		}
		reason, hint, _ := strings.Cut(none.Error(), "; ")
		field := ""
		for _, relax := range none.Relaxations {
			if field = fieldOf(relax.Filter, r); field != "" {
				break
			}
		}
		if len(none.Relaxations) == 1 && none.Relaxations[0].Filter == "keep" {
			hint = "no matching offer is in the regions that the job allows"
			if slip := unknownRegion(c, spec.Regions); slip != "" {
				hint = slip
			}
		}
		first = command.Because(none, command.ExitInfeasible, hint, "%v", spec.ErrorAt(task, alt, field, reason, ""))
	}
	return first
}

// unknownRegion describes an allowed region that no cloud has, with a similar name if there is one.
func unknownRegion(c *catalog.Catalog, allowed []string) string {
	known := c.Clouds()
	is := map[string]bool{}
	for _, cloud := range c.Clouds() {
		for _, region := range c.Regions(cloud) {
			known = append(known, region, cloud+":"+region)
			for _, name := range allowed {
				is[name] = is[name] || dag.InPlaces([]string{name}, cloud, region)
			}
		}
	}
	for _, name := range allowed {
		if is[name] {
			continue
		}
		hint := "regions: no cloud has " + strconv.Quote(name)
		if near := fault.DidYouMean(name, known); near != "" {
			hint += "; " + near
		}
		return hint
	}
	return ""
}

// queryOf returns the catalogue query for an alternative of a task's resources.
func queryOf(r dag.Resources, regions, clouds []string) catalog.Query {
	q := catalog.Query{
		VCPU: catalog.Range(r.CPUs), MemoryGiB: catalog.Range(r.Memory), Accelerator: r.Accelerator,
		AcceleratorCount: r.AcceleratorCount,
		InstanceType:     r.InstanceType, Arch: catalog.Arch(r.FixedArch()), Service: catalog.Service(r.Service),
		Family: r.Family, CPU: r.CPU,
		Clouds: clouds,
	}
	if r.Cloud != "" {
		q.Clouds = []string{r.Cloud}
	}
	if r.Region != "" {
		q.Regions = []string{r.Region}
	}
	if r.Zone != "" {
		q.Zones = []string{r.Zone}
	}
	switch r.Market {
	case dag.MarketSpot:
		q.Market = catalog.Spot
	case dag.MarketOnDemand:
		q.Market = catalog.OnDemand
	case dag.MarketAuto:
	}
	if len(regions) > 0 {
		q.Keep = func(m *catalog.Match) bool { return dag.InPlaces(regions, m.Cloud, m.Region) }
	}
	return q
}

// fieldOf returns the field of a job file that a catalogue filter comes from, or "" if the alternative does not set it.
func fieldOf(filter string, r dag.Resources) string {
	set := func(is bool, field string) string {
		if is {
			return field
		}
		return ""
	}
	switch filter {
	case "accelerator", "acceleratorCount":
		return set(r.Accelerator != "", "accelerators")
	case "vcpu":
		return set(!r.CPUs.IsZero(), "cpus")
	case "memoryGiB":
		return set(!r.Memory.IsZero(), "memory")
	case "instanceType":
		return set(r.InstanceType != "", "instanceType")
	case "family":
		return set(r.Family != "", "family")
	case "cpu":
		return set(r.CPU != "", "cpu")
	case "arch":
		return set(r.FixedArch() != "", "arch")
	case "market":
		return set(r.Market != "" && r.Market != dag.MarketAuto, "market")
	case "clouds":
		return set(r.Cloud != "", "cloud")
	case "regions":
		return set(r.Region != "", "region")
	case "zones":
		return set(r.Zone != "", "zone")
	case "service":
		return set(r.Service != "", "service")
	default:
		return ""
	}
}

// KnownClouds refuses a --cloud that the catalogue does not have.
func KnownClouds(c *catalog.Catalog, clouds []string) error {
	for _, name := range clouds {
		if !slices.Contains(c.Clouds(), name) {
			hint := "the catalogue has " + strings.Join(c.Clouds(), ", ")
			if meant := fault.DidYouMean(name, c.Clouds()); meant != "" {
				hint = meant + " " + hint
			}
			return command.BadInput(hint, "--cloud: unknown cloud %q", name)
		}
	}
	return nil
}
