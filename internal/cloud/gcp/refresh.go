package gcp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Refresher renews the catalogue's part for Google Cloud: the machine types of each zone, their on-demand and spot
// prices, and the project's quotas (intercloud-broker paper, §4.2: "the catalog is updated by cloud-specific tools").
//
// Google sells processors, memory and GPUs, each at a regional price; a machine costs the sum of its parts. If a sum
// is far from the known price, the price list was probably misunderstood, and the known price stays. TPUs are not
// renewed. If a service does not answer, or its answer cannot be read, the old data stays, and the result lists it.
type Refresher struct {
	Cloud *Cloud
	Log   *slog.Logger // nil discards
}

// Result describes a refresh.
type Result struct {
	Regions   []string // regions that were renewed
	Offers    int      // Google's offers in those regions
	OnDemand  int      // on-demand prices that were renewed
	Spot      int      // spot prices that were renewed
	New, Gone int      // offers
	Dropped   int      // offers, or their spot side, beyond the project's quotas
	Doubted   int      // number of prices that were not believed, because they are far from the known ones
	Kept      []string // the parts that were not renewed, and why
}

// readWithin limits the time of a refresh.
const refreshReadWithin = 5 * time.Minute

// Refresh reads Google's offers, and returns last with its Google part replaced. shipped is the catalogue in the
// binary, which has offers that could not be bought for a while. It fails only if Google does not list its machine
// types.
func (r *Refresher) Refresh(ctx context.Context, shipped, last *catalog.Catalog) (*catalog.Catalog, Result, error) {
	var res Result
	log := r.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithTimeout(ctx, refreshReadWithin)
	defer cancel()
	s, err := r.Cloud.Compute(ctx)
	if err != nil {
		return nil, res, err
	}
	sold, err := r.sold(ctx, s)
	if err != nil {
		return nil, res, Typed(err)
	}
	if len(sold) == 0 {
		return nil, res, errors.New("gcp sells nothing in the regions of this deployment")
	}
	keep := func(what string, err error) {
		res.Kept = append(res.Kept, fmt.Sprintf("%s: %v", what, Typed(err)))
		log.Warn("part of the catalogue not renewed", "cloud", Name, "what", what, "err", err)
	}
	list, err := r.prices(ctx)
	if err != nil {
		keep("prices", err)
	}
	attachable, err := r.attachable(ctx, s)
	if err != nil {
		keep("attachable accelerators", err)
	}
	limits, err := r.limits(ctx, s)
	if err != nil {
		keep("quotas", err)
	}
	m := merger{sold: sold, prices: list, attachable: attachable, res: &res}
	of := func(o *catalog.Offer) bool {
		return o.Cloud == Name && sold[o.Region] != nil && !strings.HasPrefix(o.InstanceType, "tpu-")
	}
	known, before := renew.Collect(shipped, of), renew.Collect(last, of)
	all := maps.Clone(known)
	maps.Copy(all, before)
	offers, dropped := limits.within(m.merge(all))
	res.Dropped, res.Offers, res.Regions = dropped, len(offers), slices.Sorted(maps.Keys(sold))
	for i := range offers {
		if _, was := before[offers[i].ID()]; was {
			delete(before, offers[i].ID())
		} else {
			res.New++
		}
	}
	res.Gone = len(before)
	next, err := last.Replace(of, offers)
	if err != nil {
		return nil, res, err
	}
	now := time.Now()
	if having, err := r.withReserved(ctx, s, next, now); err != nil {
		keep("reserved capacity of the project", err)
	} else {
		next = having
	}
	if having, err := r.withCommitted(ctx, s, next, now); err != nil {
		keep("the committed use of the project", err)
	} else {
		next = having
	}
	return next, res, nil
}

// types are the machine types that are sold, by region, zone and name.
type types map[string]map[string]map[string]*compute.MachineType

func (r *Refresher) sold(ctx context.Context, s *compute.Service) (types, error) {
	all := types{}
	err := s.MachineTypes.AggregatedList(r.Cloud.Project()).MaxResults(500).Fields("nextPageToken",
		"items/*/machineTypes(name,zone,guestCpus,memoryMb,architecture,accelerators,deprecated)").Pages(ctx,
		func(page *compute.MachineTypeAggregatedList) error {
			for scope, part := range page.Items {
				zone, ok := strings.CutPrefix(scope, "zones/")
				if !ok {
					continue
				}
				region := zone[:max(strings.LastIndexByte(zone, '-'), 0)]
				if region == "" || !r.Cloud.Serves(region) {
					continue
				}
				for _, t := range part.MachineTypes {
					if t.Deprecated != nil && t.Deprecated.State != "" && t.Deprecated.State != "ACTIVE" {
						continue
					}
					if all[region] == nil {
						all[region] = map[string]map[string]*compute.MachineType{}
					}
					if all[region][zone] == nil {
						all[region][zone] = map[string]*compute.MachineType{}
					}
					all[region][zone][t.Name] = t
				}
			}
			return nil
		})
	return all, err
}

// attachable returns the accelerators that can be attached, by zone and canonical name; nil means unknown.
func (r *Refresher) attachable(ctx context.Context, s *compute.Service) (map[string]map[string]bool, error) {
	all := map[string]map[string]bool{}
	err := s.AcceleratorTypes.AggregatedList(r.Cloud.Project()).MaxResults(500).Pages(ctx,
		func(page *compute.AcceleratorTypeAggregatedList) error {
			for scope, part := range page.Items {
				zone := strings.TrimPrefix(scope, "zones/")
				for _, t := range part.AcceleratorTypes {
					if all[zone] == nil {
						all[zone] = map[string]bool{}
					}
					if name, err := accel.Normalize(t.Name); err == nil {
						all[zone][name] = true
					}
				}
			}
			return nil
		})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// merger makes the offers of all regions.
type merger struct {
	sold       types
	prices     *Prices
	attachable map[string]map[string]bool
	res        *Result
}

// merge returns the offers that are sold now. Known offers get the prices just read. A type that is new in a zone is
// copied from the region's other zones. A type that is new everywhere is made from Google's facts, if it has a price.
func (m *merger) merge(known map[string]catalog.Offer) []catalog.Offer {
	type at struct{ region, zone, name string }
	here, elsewhere := map[at][]catalog.Offer{}, map[at]catalog.Offer{}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		o := known[id]
		k := at{o.Region, o.Zone, o.InstanceType}
		here[k] = append(here[k], o)
		if !o.Attached {
			elsewhere[at{o.Region, "", o.InstanceType}] = o
		}
	}
	var offers []catalog.Offer
	for region, zones := range m.sold {
		for zone, machines := range zones {
			for name, t := range machines {
				all := here[at{region, zone, name}]
				if !slices.ContainsFunc(all, func(o catalog.Offer) bool { return !o.Attached }) {
					if o, ok := m.fresh(region, zone, t, elsewhere[at{region, "", name}]); ok {
						all = append(all, o)
					}
				}
				for _, o := range all {
					if o.Attached && m.attachable != nil && !m.attachable[zone][o.Accelerator] {
						continue
					}
					m.price(&o)
					offers = append(offers, o)
				}
			}
		}
	}
	slices.SortFunc(offers, func(a, b catalog.Offer) int { return strings.Compare(a.ID(), b.ID()) })
	return offers
}

// fresh returns an offer that was unknown in its zone.
func (m *merger) fresh(region, zone string, t *compute.MachineType, like catalog.Offer) (catalog.Offer, bool) {
	if like.InstanceType != "" {
		like.Zone = zone
		return like, true
	}
	o := catalog.Offer{
		Cloud: Name, Region: region, Zone: zone, InstanceType: t.Name, VCPU: float64(t.GuestCpus),
		MemoryGiB: float64(t.MemoryMb) / 1024, Arch: catalog.AMD64,
	}
	if t.Architecture == "ARM64" {
		o.Arch = catalog.ARM64
	}
	for _, a := range t.Accelerators {
		name, err := accel.Normalize(a.GuestAcceleratorType)
		if err != nil {
			return o, false
		}
		o.Accelerator, o.AcceleratorCount = name, float64(a.GuestAcceleratorCount)
	}
	usd, ok := m.prices.Machine(&o, catalog.OnDemand)
	o.OnDemandUSD = usd
	return o, ok && o.VCPU > 0
}

// doubtful is the factor from which a price change is not believed.
const doubtful = 2

// price renews the prices of an offer.
func (m *merger) price(o *catalog.Offer) {
	if usd, ok := m.prices.Machine(o, catalog.OnDemand); ok {
		if usd > doubtful*o.OnDemandUSD || usd < o.OnDemandUSD/doubtful {
			m.res.Doubted++
			return // a wrongly read part of a machine would give a wrong spot price
		}
		o.OnDemandUSD = usd
		m.res.OnDemand++
	}
	if usd, ok := m.prices.Machine(o, catalog.Spot); ok {
		o.SpotUSD, o.HasSpot = usd, usd <= o.OnDemandUSD
		m.res.Spot++
	}
	o.HasSpot = o.HasSpot && o.SpotUSD <= o.OnDemandUSD
}
