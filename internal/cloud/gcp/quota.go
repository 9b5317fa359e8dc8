package gcp

import (
	"context"
	"slices"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// limits are a project's quotas, by region and metric; quotas for all regions together have an empty region. A
// missing quota is unknown.
type limits map[string]map[string]float64

func (r *Refresher) limits(ctx context.Context, s *compute.Service) (limits, error) {
	l := limits{"": {}}
	p, err := s.Projects.Get(r.Cloud.Project()).Context(ctx).Do()
	if err != nil {
		return nil, err
	}
	for _, q := range p.Quotas {
		l[""][q.Metric] = q.Limit
	}
	err = s.Regions.List(r.Cloud.Project()).Pages(ctx, func(page *compute.RegionList) error {
		for _, region := range page.Items {
			l[region.Name] = map[string]float64{}
			for _, q := range region.Quotas {
				l[region.Name][q.Metric] = q.Limit
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// preemptible is the prefix of quotas of spot machines.
const preemptible = "PREEMPTIBLE_"

// gpuRoom returns the quota of an accelerator on a market; known is false if there is none. A quota of 0 for spot
// means that the project may have no such machines.
func (l limits) gpuRoom(o *catalog.Offer, m catalog.Market) (limit float64, known bool) {
	metric := quotas.GoogleGPUs(o.Accelerator)
	if v, ok := l[o.Region][preemptible+metric]; m == catalog.Spot && ok {
		return v, true
	}
	limit, known = l[o.Region][metric]
	return limit, known
}

// cpuRoom returns the quota of a family's processors on a market; known is false if there is none. Spot machines have
// a separate quota. If that is 0, none was granted, and spot machines count against the common quota.
func (l limits) cpuRoom(o *catalog.Offer, m catalog.Market) (limit float64, known bool) {
	// A family with a separate quota does not count against the common one.
	for _, metric := range quotas.GoogleCPUs(o.InstanceType) {
		if v, ok := l[o.Region][preemptible+metric]; m == catalog.Spot && ok && v > 0 {
			return v, true
		}
		if v, ok := l[o.Region][metric]; ok {
			return v, true
		}
	}
	return 0, false
}

// fits reports whether the project may have one machine of an offer on a market.
func (l limits) fits(o *catalog.Offer, m catalog.Market) bool {
	if o.SpotOnly && m == catalog.OnDemand {
		return false
	}
	if o.Accelerator != "" {
		if all, known := l[""]["GPUS_ALL_REGIONS"]; known && all < o.AcceleratorCount {
			return false
		}
		if n, known := l.gpuRoom(o, m); known && n < o.AcceleratorCount {
			return false
		}
	}
	n, known := l.cpuRoom(o, m)
	return !known || n >= o.VCPU
}

// within removes offers of which the project cannot buy a single machine: the spot side of an offer, or the whole
// offer. A quota that is only used up at present is reported by the launch.
func (l limits) within(offers []catalog.Offer) (kept []catalog.Offer, dropped int) {
	kept = slices.DeleteFunc(slices.Clone(offers), func(o catalog.Offer) bool {
		if l.fits(&o, catalog.OnDemand) || o.HasSpot && l.fits(&o, catalog.Spot) {
			return false
		}
		dropped++
		return true
	})
	for i := range kept {
		if o := &kept[i]; o.HasSpot && !l.fits(o, catalog.Spot) {
			o.HasSpot, o.SpotUSD = false, 0
			dropped++
		}
	}
	return kept, dropped
}
