package sellable

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// doubtful is the share of the median price of a machine type over its regions below which a listed price is taken for
// an error: list prices of one type differ by less than a factor of three over the regions of a cloud.
const doubtful = 0.3

// regionsForMedian is the minimum number of regions for a meaningful median.
const regionsForMedian = 3

// listed is a machine type on a market.
type listed struct {
	cloud, instanceType, accelerator string
	count                            float64
	market                           catalog.Market
}

func listedAs(o *catalog.Offer, m catalog.Market) listed {
	return listed{o.Cloud, o.InstanceType, o.Accelerator, o.AcceleratorCount, m}
}

// Plausible returns the catalogue without the prices that are below 0.3 of the median of their type over its regions,
// each market by itself, and the number of dropped offers by market. Live prices, which a cloud's API reports, are
// not checked. Wrong prices move medians, so the check is repeated until it drops no more.
func Plausible(c *catalog.Catalog) (*catalog.Catalog, map[string]int, error) {
	dropped := map[string]int{}
	for {
		before := dropped["on demand"] + dropped["spot"]
		next, err := dropImplausible(c, dropped)
		if err != nil || dropped["on demand"]+dropped["spot"] == before {
			return next, dropped, err
		}
		c = next
	}
}

// dropImplausible is one step of Plausible. It adds to the numbers of dropped offers.
func dropImplausible(c *catalog.Catalog, dropped map[string]int) (*catalog.Catalog, error) {
	least := leastPrices(c)
	var spotless []catalog.Offer // those whose spot price alone is doubtful
	kept, err := c.Replace(func(o *catalog.Offer) bool {
		if usd, sold := o.USDPerHour(catalog.OnDemand); sold && usd < least[listedAs(o, catalog.OnDemand)] {
			dropped["on demand"]++
			return true
		}
		if usd, sold := o.USDPerHour(catalog.Spot); sold && usd < least[listedAs(o, catalog.Spot)] {
			dropped["spot"]++
			if !o.SpotOnly {
				without := *o
				without.SpotUSD, without.HasSpot = 0, false
				spotless = append(spotless, without)
			}
			return true
		}
		return false
	}, nil)
	if err != nil || len(spotless) == 0 {
		return kept, err
	}
	return kept.Replace(func(*catalog.Offer) bool { return false }, spotless)
}

// leastPrices returns the least plausible price of each type on each market, USD per hour.
func leastPrices(c *catalog.Catalog) map[listed]float64 {
	regions := map[listed]map[string]float64{}
	for o := range c.All() {
		for _, m := range []catalog.Market{catalog.OnDemand, catalog.Spot} {
			usd, sold := o.USDPerHour(m)
			if !sold {
				continue
			}
			key := listedAs(&o, m)
			if regions[key] == nil {
				regions[key] = map[string]float64{}
			}
			if known, ok := regions[key][o.Region]; !ok || usd < known { // the cheapest zone stands for its region
				regions[key][o.Region] = usd
			}
		}
	}
	least := map[listed]float64{}
	for key, prices := range regions {
		if len(prices) < regionsForMedian {
			continue
		}
		sorted := make([]float64, 0, len(prices))
		for _, usd := range prices {
			sorted = append(sorted, usd)
		}
		slices.Sort(sorted)
		least[key] = doubtful * sorted[len(sorted)/2]
	}
	return least
}
