package aws

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// SpotPrices reads the spot price history; it is broker.Prices for AWS. It stores earlier prices only to return
// fewer. A new process reads the prices in force, with which the history always begins.
type SpotPrices struct {
	cloud *Cloud
	watch Watch
	now   func() time.Time

	mu   sync.Mutex
	seen map[string]spotPrice // by offer ID
}

// Watch returns the machine types whose prices are needed, by region.
type Watch func(ctx context.Context) (map[string][]string, error)

type spotPrice struct {
	usd float64
	at  time.Time
}

// NewSpotPrices makes a reader. Without a watch it reads prices for the types of the deployment's spot machines.
func NewSpotPrices(c *Cloud, watch Watch, now func() time.Time) *SpotPrices {
	if watch == nil {
		watch = c.running
	}
	return &SpotPrices{cloud: c, watch: watch, now: now, seen: map[string]spotPrice{}}
}

// Watching returns a watch of the machine types that the deployment runs, plus the offers that more returns
// (aws/us-east-1/use1-az1/p3.2xlarge).
func (c *Cloud) Watching(more func(context.Context) ([]string, error)) Watch {
	return func(ctx context.Context) (map[string][]string, error) {
		types, err := c.running(ctx)
		if err != nil {
			return nil, err
		}
		offers, err := more(ctx)
		if err != nil {
			return nil, err
		}
		for region, names := range TypesOf(offers) {
			types[region] = append(types[region], names...)
		}
		return types, nil
	}
}

// running returns the types of the deployment's spot machines, by region.
func (c *Cloud) running(ctx context.Context) (map[string][]string, error) {
	machines, err := c.list(ctx, "")
	if err != nil {
		return nil, err
	}
	byRegion := map[string][]string{}
	for _, m := range machines {
		if m.Offer.Spot && m.State != cloud.Terminated {
			byRegion[m.Offer.Region] = append(byRegion[m.Offer.Region], m.Offer.InstanceType)
		}
	}
	return byRegion, nil
}

// SpotPrices returns the prices that changed since the last call, sorted by offer. It is safe for concurrent use.
func (p *SpotPrices) SpotPrices(ctx context.Context) ([]events.PriceTick, error) {
	wanted, err := p.watch(ctx)
	if err != nil {
		return nil, Typed(err)
	}
	names, err := p.cloud.usable(ctx)
	if err != nil {
		return nil, Typed(err)
	}
	names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return len(wanted[name]) == 0 })
	parts := make([]map[string]spotPrice, len(names))
	now := p.now()
	err = driver.Each(len(names), maxAtOnce, func(i int) (err error) {
		name := names[i]
		list := slices.Compact(slices.Sorted(slices.Values(wanted[name])))
		if parts[i], err = p.cloud.client(name).spotPrices(ctx, list, now); err != nil {
			return fmt.Errorf("region %s: %w", name, err)
		}
		return nil
	})
	ticks := p.news(parts)
	if len(ticks) > 0 || err == nil {
		if err != nil {
			p.cloud.log.Warn("spot prices of some regions are missing", "err", err)
		}
		return ticks, nil
	}
	return nil, Typed(err)
}

// news returns the prices that differ from those returned before.
func (p *SpotPrices) news(parts []map[string]spotPrice) []events.PriceTick {
	p.mu.Lock()
	defer p.mu.Unlock()
	var ticks []events.PriceTick
	for _, part := range parts {
		for offer, price := range part {
			before := p.seen[offer]
			if price.usd == before.usd || price.at.Before(before.at) {
				continue
			}
			p.seen[offer] = price
			ticks = append(ticks, events.PriceTick{Offer: offer, USD: price.usd, Since: price.at})
		}
	}
	slices.SortFunc(ticks, func(a, b events.PriceTick) int { return cmp.Compare(a.Offer, b.Offer) })
	return ticks
}

// products are the price lists of plain Linux machines. Accounts with EC2-Classic and emulators use the second name.
var products = [...]string{"Linux/UNIX", "Linux/UNIX (Amazon VPC)"}

// maxTypes is the maximum number of types in one call.
const maxTypes = 100

// spotPrices returns the newest prices of some types in all zones of a region, by offer ID. If names is empty, it
// returns those of all types.
func (r *region) spotPrices(ctx context.Context, names []string, now time.Time) (map[string]spotPrice, error) {
	zones, err := r.zones(ctx)
	if err != nil {
		return nil, err
	}
	newest := map[string]spotPrice{}
	chunks := slices.Collect(slices.Chunk(names, maxTypes))
	if len(names) == 0 {
		chunks = [][]string{nil}
	}
	for _, chunk := range chunks {
		in := &ec2.DescribeSpotPriceHistoryInput{
			ProductDescriptions: products[:], StartTime: &now, // the prices in force now, and later changes
			MaxResults: awssdk.Int32(maxPage),
		}
		for _, name := range chunk {
			in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(name))
		}
		if err := r.readPrices(ctx, in, zones, newest); err != nil {
			return nil, err
		}
	}
	return newest, nil
}

func (r *region) readPrices(ctx context.Context, in *ec2.DescribeSpotPriceHistoryInput, zones map[string]string,
	newest map[string]spotPrice) error {
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(r.ec2, in)
	for pages.HasMorePages() {
		call, cancel := context.WithTimeout(ctx, readWithin)
		page, err := pages.NextPage(call)
		cancel()
		if err != nil {
			return err
		}
		for _, h := range page.SpotPriceHistory {
			usd, err := strconv.ParseFloat(awssdk.ToString(h.SpotPrice), 64)
			zone := cmp.Or(awssdk.ToString(h.AvailabilityZoneId), zones[awssdk.ToString(h.AvailabilityZone)])
			if err != nil || !(usd > 0) || zone == "" {
				continue // a local zone, or an unusable price
			}
			offer := Name + "/" + r.name + "/" + zone + "/" + string(h.InstanceType)
			if at := awssdk.ToTime(h.Timestamp); !at.Before(newest[offer].at) {
				newest[offer] = spotPrice{usd, at}
			}
		}
	}
	return nil
}

// TypesOf groups the machine types of offer IDs (aws/us-east-1/use1-az1/p3.2xlarge, with or without a market) by
// region, as a Watch returns them. It skips IDs of other clouds.
func TypesOf(offers []string) map[string][]string {
	byRegion := map[string]map[string]bool{}
	for _, id := range offers {
		region, name, ok := offerParts(id)
		if !ok {
			continue
		}
		if byRegion[region] == nil {
			byRegion[region] = map[string]bool{}
		}
		byRegion[region][name] = true
	}
	out := make(map[string][]string, len(byRegion))
	for region, names := range byRegion {
		out[region] = slices.Sorted(maps.Keys(names))
	}
	return out
}

// offerParts reads the region and the machine type of an AWS offer's ID.
func offerParts(id string) (region, name string, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) < 4 || parts[0] != Name || slices.Contains(parts, "") {
		return "", "", false
	}
	return parts[1], parts[3], true
}

// SpotPricesIn returns the spot prices in force of all machine types in a region, USD per hour by offer ID.
func (c *Cloud) SpotPricesIn(ctx context.Context, region string, now time.Time) (map[string]float64, error) {
	newest, err := c.client(region).spotPrices(ctx, nil, now)
	if err != nil {
		return nil, Typed(err)
	}
	out := make(map[string]float64, len(newest))
	for id, p := range newest {
		out[id] = p.usd
	}
	return out, nil
}
