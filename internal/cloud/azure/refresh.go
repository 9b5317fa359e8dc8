package azure

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"

	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v8"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/internal/catalog/azureimage"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Snapshots stores the refreshed catalogue.
type Snapshots = driver.Snapshots

// Refresher renews the catalogue's part for Azure: which machine types each region sells to the subscription, their
// properties, their on-demand and spot prices, and how many vCPUs the subscription may have (intercloud-broker paper,
// §4.2: "the catalog is updated by cloud-specific tools"). The result, merged over the catalogue in the binary, is a
// snapshot, which planners read.
//
// If a source does not answer, or its answer cannot be read, the old data stays: an outage never removes anything from
// the catalogue.
type Refresher struct {
	Cloud     *Cloud
	Prices    string       // URL of the price list; PricesURL when empty
	Client    *http.Client // for the price list; http.DefaultClient when nil
	Snapshots Snapshots
	Now       func() time.Time
	Log       *slog.Logger // nil discards
	// Base is the catalogue to merge over if there is no snapshot yet; catalog.Default when nil.
	Base *catalog.Catalog
}

// Result describes a refresh.
type Result struct {
	Regions   []string      // regions that were renewed
	Offers    int           // Azure offers in those regions
	OnDemand  int           // on-demand prices read
	Spot      int           // spot prices read
	Changed   int           // offers whose prices changed
	New, Gone int           // offers
	Dropped   int           // offers, or their spot side, beyond the subscription's quotas
	Kept      []string      // the parts that were not renewed, and why
	Took      time.Duration // duration by Now
}

// Refresh reads all regions of the deployment, merges the results over the last snapshot, and writes the next
// snapshot. It fails only if no region could be read, or the snapshot cannot be written. A region that fails keeps
// its old offers.
func (r *Refresher) Refresh(ctx context.Context) (Result, error) {
	began := r.Now()
	base, shipped, err := renew.Last(ctx, r.Snapshots, r.Base)
	if err != nil {
		return Result{}, err
	}
	var res Result
	var errs []error
	for _, name := range r.Cloud.Regions() { // one region at a time, because no user waits for this
		next, err := r.region(ctx, shipped, base, name, &res)
		if err != nil {
			errs = append(errs, fmt.Errorf("region %s: %w", name, err))
			r.kept(&res, "offers of "+name, err)
			continue
		}
		base = next
		res.Regions = append(res.Regions, name)
	}
	if len(res.Regions) == 0 {
		return res, errors.Join(errs...)
	}
	base = r.owned(ctx, base, &res)
	res.Took = r.Now().Sub(began)
	return res, renew.Save(ctx, r.Snapshots, base)
}

// owned adds the capacity that is already paid for, used or not. The steps depend on each other: a machine for which
// one kind of capacity pays does not use the next kind. So owned stops at the first kind that cannot be read.
func (r *Refresher) owned(ctx context.Context, base *catalog.Catalog, res *Result) *catalog.Catalog {
	found, err := r.Cloud.Reservations(ctx)
	if err != nil {
		r.kept(res, "reserved capacity of the subscription", err)
		return base
	}
	users, err := r.payable(ctx, found)
	if err != nil {
		r.kept(res, "reserved instances and savings plans: the list of other machines of the subscription", err)
		return base
	}
	bought, unpaid, err := r.reservedInstances(ctx, users)
	if err != nil { // then assume that reservations pay for nothing, which leaves less of the plans
		r.kept(res, "reserved instances", err)
		unpaid = users
		before := func(k catalog.Reserved) bool { return k.Cloud != Name || k.By != byReservedInstances }
		bought = slices.DeleteFunc(base.Reserved(), before)
	}
	next, err := r.withReserved(append(bought, reserved(found)...), base)
	if err != nil {
		r.kept(res, "reserved capacity of the subscription", err)
		return base
	}
	committed, err := r.committed(ctx, unpaid, next)
	if err != nil {
		r.kept(res, "savings plans", err)
		return next
	}
	return committed
}

// kept records a part that was not renewed.
func (r *Refresher) kept(res *Result, what string, err error) {
	res.Kept = append(res.Kept, what+": "+err.Error())
	if r.Log != nil {
		r.Log.Warn("part of Azure's catalogue not renewed", "what", what, "err", err)
	}
}

// region merges one region's current data over a catalogue. The shipped catalogue fills in types that base lacks
// because they could not be bought for a while.
func (r *Refresher) region(ctx context.Context, shipped, base *catalog.Catalog, name string,
	res *Result) (*catalog.Catalog, error) {
	sold, err := r.sold(ctx, name)
	if err != nil {
		return nil, err
	}
	prices, err := r.priceList(ctx, name, "")
	if err != nil {
		r.kept(res, "prices of "+name, err)
		prices = priceList{}
	}
	quotas, err := r.Cloud.Quotas(ctx, name)
	if err != nil {
		r.kept(res, "quotas of "+name+" are unknown", err)
	}
	of := func(o *catalog.Offer) bool { return o.Cloud == Name && o.Region == name }
	like := map[string]catalog.Offer{} // an offer of the type in any region
	before := map[string]catalog.Offer{}
	for _, c := range []*catalog.Catalog{shipped, base} {
		for o := range c.All() {
			if o.Cloud == Name {
				if known, ok := like[o.InstanceType]; !ok || known.Region != name {
					like[o.InstanceType] = o
				}
			}
			if of(&o) {
				like[o.InstanceType] = o
				if c == base {
					before[o.ID()] = o
				}
			}
		}
	}
	offers, dropped := within(merge(name, sold, like, prices), sold, quotas)
	gone := len(before)
	for _, o := range offers {
		was, is := before[o.ID()]
		switch {
		case !is:
			res.New++
			continue
		case was.OnDemandUSD != o.OnDemandUSD || was.HasSpot != o.HasSpot || was.SpotUSD != o.SpotUSD:
			res.Changed++
		}
		gone--
	}
	res.Gone += gone
	res.Offers, res.Dropped = res.Offers+len(offers), res.Dropped+dropped
	res.OnDemand, res.Spot = res.OnDemand+len(prices.onDemand), res.Spot+len(prices.spot)
	return base.Replace(of, offers)
}

// kind is a region's description of a machine type that it sells.
type kind struct {
	vcpu, memory, gpus float64
	arch               catalog.Arch
	family             string
	spot, confidential bool
}

// sold returns the machine types that a region sells to the subscription.
func (r *Refresher) sold(ctx context.Context, region string) (map[string]kind, error) {
	filter := "location eq '" + region + "'"
	sold := map[string]kind{}
	pages := r.Cloud.SKUs().NewListPager(&armcompute.ResourceSKUsClientListOptions{Filter: &filter})
	for pages.More() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, Typed(err)
		}
		for _, s := range page.Value {
			if s == nil || s.Name == nil || s.ResourceType == nil || *s.ResourceType != "virtualMachines" ||
				restricted(s) {
				continue
			}
			k := facts(s)
			if _, why := azureimage.Of(*s.Name); why != "" || k.confidential {
				continue // no default image boots it
			}
			sold[*s.Name] = k
		}
	}
	if len(sold) == 0 {
		return nil, errors.New("sells nothing")
	}
	return sold, nil
}

// restricted reports whether the subscription cannot buy a type anywhere in the region.
func restricted(s *armcompute.ResourceSKU) bool {
	return slices.ContainsFunc(s.Restrictions, func(x *armcompute.ResourceSKURestrictions) bool {
		return x != nil && x.Type != nil && *x.Type == armcompute.ResourceSKURestrictionsTypeLocation
	})
}

func facts(s *armcompute.ResourceSKU) kind {
	k := kind{spot: true}
	if s.Family != nil {
		k.family = *s.Family
	}
	for _, c := range s.Capabilities {
		if c == nil || c.Name == nil || c.Value == nil {
			continue
		}
		number, _ := strconv.ParseFloat(*c.Value, 64)
		switch *c.Name {
		case "vCPUs":
			k.vcpu = cmp.Or(k.vcpu, number)
		case "vCPUsAvailable": // number of vCPUs of a constrained type, which is billed as its unconstrained one
			k.vcpu = cmp.Or(number, k.vcpu)
		case "ConfidentialComputingType":
			k.confidential = *c.Value != ""
		case "MemoryGB":
			k.memory = number
		case "GPUs":
			k.gpus = number
		case "CpuArchitectureType":
			k.arch = catalog.AMD64
			if strings.EqualFold(*c.Value, "Arm64") {
				k.arch = catalog.ARM64
			}
		case "LowPriorityCapable":
			k.spot = !strings.EqualFold(*c.Value, "False")
		}
	}
	return k
}

// merge makes the offers of a region: the types that it sells now, at the prices just read or, if there are none, at
// the last known prices. It drops offers without any on-demand price, and machines with an unknown GPU.
func merge(region string, sold map[string]kind, like map[string]catalog.Offer, prices priceList) []catalog.Offer {
	var offers []catalog.Offer
	for name, k := range sold {
		o, ok := like[name]
		switch {
		case !ok:
			if o, ok = fresh(region, name, k); !ok {
				continue
			}
		case o.Region != region:
			o.Region, o.OnDemandUSD, o.SpotUSD, o.HasSpot, o.CarbonGPerKWh = region, 0, 0, false, 0
		}
		o.Arch, o.VCPU = cmp.Or(k.arch, o.Arch), cmp.Or(k.vcpu, o.VCPU)
		if usd, listed := prices.onDemand[name]; listed {
			o.OnDemandUSD = usd
			o.SpotUSD, o.HasSpot = 0, false // a listed type without a spot price is not sold as spot
		}
		if usd, listed := prices.spot[name]; listed && usd <= o.OnDemandUSD {
			o.SpotUSD, o.HasSpot = usd, true
		}
		if !k.spot {
			o.SpotUSD, o.HasSpot = 0, false
		}
		if o.OnDemandUSD > 0 && o.VCPU > 0 {
			offers = append(offers, o)
		}
	}
	slices.SortFunc(offers, func(a, b catalog.Offer) int { return cmp.Compare(a.ID(), b.ID()) })
	return offers
}

// accelerated matches a type's name in newer families, which contains its accelerator: Standard_NC24ads_A100_v4.
var accelerated = regexp.MustCompile(`^Standard_N[A-Z]*\d+[a-z]*_([A-Za-z0-9]+)_v\d+$`)

// fresh makes an offer of a type that is new in the catalogue.
func fresh(region, name string, k kind) (catalog.Offer, bool) {
	o := catalog.Offer{
		Cloud:        Name,
		Region:       region,
		InstanceType: name,
		Arch:         cmp.Or(k.arch, catalog.AMD64),
		VCPU:         k.vcpu,
		MemoryGiB:    k.memory,
	}
	if k.gpus == 0 {
		return o, true
	}
	m := accelerated.FindStringSubmatch(name)
	if m == nil {
		return o, false
	}
	o.Accelerator, o.AcceleratorCount = m[1], k.gpus
	if canonical, err := accel.Normalize(m[1]); err == nil {
		o.Accelerator = canonical
	}
	return o, true
}

// within removes offers of which the subscription cannot buy a single machine: the spot side of an offer, or the
// whole offer. Most families of GPU machines have a quota of 0 until the user requests more. Otherwise a planner
// would find that out by trying one region after another. A quota that is only used up at present is reported by the
// launch.
func within(offers []catalog.Offer, sold map[string]kind, quotas []driver.Quota) (kept []catalog.Offer, dropped int) {
	limits := map[string]float64{}
	for _, q := range quotas {
		limits[strings.ToLower(q.Name)] = q.Limit
	}
	short := func(name string, vcpu float64) bool {
		limit, known := limits[strings.ToLower(name)]
		return known && limit < vcpu
	}
	for _, o := range offers {
		if o.HasSpot && short("lowPriorityCores", o.VCPU) {
			o.HasSpot, o.SpotUSD = false, 0
			dropped++
		}
		if !o.HasSpot && (short("cores", o.VCPU) || short(sold[o.InstanceType].family, o.VCPU)) {
			dropped++
			continue
		}
		kept = append(kept, o)
	}
	return kept, dropped
}
