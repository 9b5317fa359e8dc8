// Package refresh renews the catalogue's part for AWS: which machine types each zone sells, their properties, their
// on-demand and spot prices, and how many vCPUs the account may have (intercloud-broker paper, §4.2: "the catalog is
// updated by cloud-specific tools"). The result, merged over the catalogue in the binary, is a snapshot in the work
// bucket, which planners read. Checker reports what the account may do.
//
// It is separate from the driver, so that functions which only buy machines do not link the price list and the
// catalogue. If a service does not answer, or a region lacks it, the old data stays: an outage never removes anything
// from the catalogue.
package refresh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver/renew"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/internal/catalog/sellable"
	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Snapshots stores the refreshed catalogue: a key in the work bucket.
type Snapshots = driver.Snapshots

// Refresher renews the AWS part of a catalogue.
type Refresher struct {
	Cloud     *aws.Cloud
	Snapshots Snapshots
	Now       func() time.Time
	Log       *slog.Logger // nil discards
	// Base is the catalogue to merge over if there is no snapshot yet; catalog.Default when nil.
	Base *catalog.Catalog
}

// Result describes a refresh.
type Result struct {
	Regions   []string      // regions that were renewed
	Offers    int           // AWS offers in those regions
	OnDemand  int           // on-demand prices read
	Spot      int           // spot prices read
	New, Gone int           // offers
	Dropped   int           // offers, or their spot side, beyond the account's quotas
	Kept      []string      // the parts that were not renewed, and why
	Took      time.Duration // duration by Now
}

// Refresh reads all regions of the deployment, merges the results over the last snapshot, and writes the next
// snapshot. It fails only if no region could be read, or the snapshot cannot be written. A region that fails keeps
// its old offers.
func (r *Refresher) Refresh(ctx context.Context) (Result, error) {
	began := r.Now()
	log := r.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	base, shipped, err := renew.Last(ctx, r.Snapshots, r.Base)
	if err != nil {
		return Result{}, err
	}
	names, err := r.Cloud.Regions(ctx)
	if err != nil {
		return Result{}, err
	}
	var res Result
	var errs []error
	for _, name := range names { // one at a time: the machine that runs this is small, and no user waits for it
		next, err := r.region(ctx, shipped, base, name, &res, log)
		if err != nil {
			errs = append(errs, fmt.Errorf("region %s: %w", name, err))
			keep(&res, log, "offers of "+name, err)
			continue
		}
		if base, err = r.reserved(ctx, next, name); err != nil {
			keep(&res, log, "capacity that the account has in "+name, err)
			base = next
		}
		res.Regions = append(res.Regions, name)
	}
	if len(res.Regions) == 0 {
		return res, errors.Join(errs...)
	}
	if next, err := r.committed(ctx, base, names); err != nil {
		keep(&res, log, "the list of the account's Savings Plans", err)
	} else {
		base = next
	}
	res.Took = r.Now().Sub(began)
	return res, renew.Save(ctx, r.Snapshots, base)
}

// keep records a part that was not renewed.
func keep(res *Result, log *slog.Logger, what string, err error) {
	res.Kept = append(res.Kept, fmt.Sprintf("%s: %v", what, err))
	log.Warn("part of AWS's catalogue not renewed", "what", what, "err", err)
}

// Load reads the refreshed catalogue for a planner. It returns nil if the snapshot still has the tag. It fails with
// fs.ErrNotExist if no snapshot was ever written; the planner then uses the catalogue in the binary.
func Load(ctx context.Context, s Snapshots, tag string) (*catalog.Catalog, string, error) {
	data, now, err := s.Get(ctx, tag)
	if err != nil {
		return nil, "", err
	}
	if now == tag && tag != "" {
		return nil, tag, nil
	}
	c, err := catalog.ReadSnapshot(data)
	return c, now, err
}

// region merges one region's current data over a catalogue. The shipped catalogue fills in offers that base lacks
// because they could not be bought for a while.
func (r *Refresher) region(ctx context.Context, shipped, base *catalog.Catalog, name string, res *Result,
	log *slog.Logger) (*catalog.Catalog, error) {
	sold, err := r.sold(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(sold.zones) == 0 {
		return nil, errors.New("sells nothing")
	}
	onDemand, err := r.onDemand(ctx, name)
	if err != nil {
		keep(res, log, "on-demand prices of "+name, err)
	}
	spot, err := r.Cloud.SpotPricesIn(ctx, name, r.Now())
	if err != nil {
		keep(res, log, "spot prices of "+name, err)
	}
	emr, err := r.emr(ctx, name)
	if err != nil {
		keep(res, log, "EMR's prices of "+name, err)
	}
	quotas, err := Quotas(ctx, r.Cloud.SDK(name))
	if err != nil {
		keep(res, log, "quotas of "+name+" are unknown", err)
	}
	of := func(o *catalog.Offer) bool { return o.Cloud == aws.Name && o.Region == name }
	known, before := renew.Collect(shipped, of), renew.Collect(base, of)
	maps.Copy(known, before)
	offers, dropped := quotas.within(merge(name, sold, known, onDemand, spot))
	for i := range offers {
		offers[i].EMRUSD = emr[offers[i].InstanceType]
	}
	for _, o := range offers {
		if _, was := before[o.ID()]; was {
			delete(before, o.ID())
		} else {
			res.New++
		}
	}
	res.Gone += len(before)
	res.Offers, res.OnDemand, res.Spot, res.Dropped = res.Offers+len(offers), res.OnDemand+len(onDemand),
		res.Spot+len(spot), res.Dropped+dropped
	return base.Replace(of, offers)
}

// sold has the facts about the machine types that a region sells, and the IDs of the zones that sell each.
type sold struct {
	types map[string]types.InstanceTypeInfo
	zones map[string][]string
}

func (r *Refresher) sold(ctx context.Context, region string) (sold, error) {
	s := sold{types: map[string]types.InstanceTypeInfo{}, zones: map[string][]string{}}
	client := r.Cloud.EC2(region)
	all := ec2.NewDescribeInstanceTypesPaginator(client, &ec2.DescribeInstanceTypesInput{MaxResults: awssdk.Int32(100)})
	for all.HasMorePages() {
		page, err := all.NextPage(ctx)
		if err != nil {
			return s, aws.Typed(err)
		}
		for _, t := range page.InstanceTypes {
			s.types[string(t.InstanceType)] = t
		}
	}
	where := ec2.NewDescribeInstanceTypeOfferingsPaginator(client, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: types.LocationTypeAvailabilityZoneId, MaxResults: awssdk.Int32(1000),
	})
	for where.HasMorePages() {
		page, err := where.NextPage(ctx)
		if err != nil {
			return s, aws.Typed(err)
		}
		for _, o := range page.InstanceTypeOfferings {
			s.zones[string(o.InstanceType)] = append(s.zones[string(o.InstanceType)], awssdk.ToString(o.Location))
		}
	}
	return s, nil
}

// merge makes the offers of a region: the types that it sells now, at the prices just read or, if there are none, at
// the last known prices. It drops offers without any on-demand price, and those that cannot be bought with the
// default images and settings.
func merge(region string, s sold, before map[string]catalog.Offer, onDemand, spot map[string]float64) []catalog.Offer {
	anywhere := map[string]catalog.Offer{} // offers of the type in any zone: on-demand prices are regional
	for _, o := range before {
		anywhere[o.InstanceType] = o
	}
	var offers []catalog.Offer
	for name, zones := range s.zones {
		for _, zone := range zones {
			o, known := before[aws.Name+"/"+region+"/"+zone+"/"+name]
			if !known {
				o = fresh(region, name, s.types[name], anywhere[name])
				o.Zone = zone
			}
			if usd, ok := onDemand[name]; ok {
				o.OnDemandUSD = usd
			}
			if usd, ok := spot[o.ID()]; ok {
				o.SpotUSD, o.HasSpot = usd, usd <= o.OnDemandUSD
			}
			if o.OnDemandUSD > 0 && o.VCPU > 0 && sellable.Refused(o) == "" && boots(s.types[name]) {
				offers = append(offers, o)
			}
		}
	}
	slices.SortFunc(offers, func(a, b catalog.Offer) int { return cmp.Compare(a.ID(), b.ID()) })
	return slices.CompactFunc(offers, func(a, b catalog.Offer) bool { return a.ID() == b.ID() })
}

// boots reports whether EC2 sells a type on demand as a virtual machine on which the default images boot. It returns
// true for a type about which EC2 reports nothing. Types that are sold only in Capacity Blocks have no on-demand
// price (EC2 API reference, InstanceTypeInfo: SupportedUsageClasses, BareMetal and SupportedVirtualizationTypes).
func boots(t types.InstanceTypeInfo) bool {
	sells, hvm := t.SupportedUsageClasses, t.SupportedVirtualizationTypes
	return (len(sells) == 0 || slices.Contains(sells, types.UsageClassTypeOnDemand)) &&
		!awssdk.ToBool(t.BareMetal) && (len(hvm) == 0 || slices.Contains(hvm, types.VirtualizationTypeHvm))
}

// fresh returns an offer that was unknown in its zone. It copies the offer of another zone of the region. If there is
// none, it uses EC2's facts about the type.
func fresh(region, name string, t types.InstanceTypeInfo, like catalog.Offer) catalog.Offer {
	if like.InstanceType != "" {
		like.SpotUSD, like.HasSpot = 0, false
		return like
	}
	o := catalog.Offer{Cloud: aws.Name, Region: region, InstanceType: name, Arch: catalog.Arch(aws.Arch(t))}
	if t.VCpuInfo != nil {
		o.VCPU = float64(awssdk.ToInt32(t.VCpuInfo.DefaultVCpus))
	}
	if t.MemoryInfo != nil {
		o.MemoryGiB = float64(awssdk.ToInt64(t.MemoryInfo.SizeInMiB)) / 1024
	}
	o.Accelerator, o.AcceleratorCount = accelerator(t)
	return o
}

// accelerator returns a type's accelerator by its name in the catalogue, and the count.
func accelerator(t types.InstanceTypeInfo) (name string, count float64) {
	take := func(model *string, n *int32) {
		if name == "" && awssdk.ToInt32(n) > 0 {
			name, count = awssdk.ToString(model), float64(awssdk.ToInt32(n))
		}
	}
	if t.GpuInfo != nil {
		for _, g := range t.GpuInfo.Gpus {
			take(g.Name, g.Count)
		}
	}
	if t.NeuronInfo != nil {
		for _, n := range t.NeuronInfo.NeuronDevices {
			take(n.Name, n.Count)
		}
	}
	if t.InferenceAcceleratorInfo != nil {
		for _, a := range t.InferenceAcceleratorInfo.Accelerators {
			take(a.Name, a.Count)
		}
	}
	if t.FpgaInfo != nil {
		for _, f := range t.FpgaInfo.Fpgas {
			take(f.Name, f.Count)
		}
	}
	if canonical, err := accel.Normalize(name); err == nil {
		return canonical, count
	}
	return strings.ReplaceAll(name, " ", "-"), count
}
