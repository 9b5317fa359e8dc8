package refresh

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
)

// minStandard is the quota of standard machines below which most jobs do not fit, in vCPUs. New accounts have 5.
const minStandard = 8

// standard is the class of most machine types.
const standard = "standard"

// limit is a quota of a class of machine types in a region, in vCPUs.
type limit struct {
	region, class string
	spot          bool
	vcpus         float64
}

// name returns the name of the quota in reports.
func (l limit) name() string {
	if l.spot {
		return l.class + " vCPUs spot"
	}
	return l.class + " vCPUs on-demand"
}

// low reports whether the quota rules out most jobs that need such machines.
func (l limit) low() bool { return l.vcpus == 0 || l.class == standard && l.vcpus < minStandard }

// limitsOf returns a region's quotas, sorted by name.
func (c *Checker) limitsOf(ctx context.Context, region string) (all []limit, err error) {
	limits, err := Quotas(ctx, c.Cloud.SDK(region))
	for _, class := range slices.Sorted(maps.Keys(limits)) {
		of := limits[class]
		for _, l := range []limit{{region, class, false, of.OnDemand}, {region, class, true, of.Spot}} {
			if l.vcpus >= 0 {
				all = append(all, l)
			}
		}
	}
	return all, err
}

// lowQuotas reports the quotas that are too low. It returns one line for each class and market, with the command that
// requests more in all affected regions.
func lowQuotas(all []limit) (missing []driver.Lack) {
	low := map[string][]limit{}
	for _, l := range all {
		if l.low() {
			low[l.name()] = append(low[l.name()], l)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(low)) {
		missing = append(missing, lowQuota(low[name]))
	}
	return missing
}

// lowQuota reports one quota, with the regions in which it is too low.
func lowQuota(in []limit) driver.Lack {
	first, most := in[0], 0.0
	regions := make([]string, len(in))
	for i, l := range in {
		regions[i], most = l.region, max(most, l.vcpus)
	}
	market, may := "on demand", "no vCPUs"
	if first.spot {
		market = "as spot"
	}
	if most > 0 {
		may = fmt.Sprintf("at most %.0f vCPUs", most)
	}
	command := "aws service-quotas request-service-quota-increase --service-code ec2 --quota-code " +
		QuotaCode(first.class, first.spot) + " --desired-value 64 --region "
	l := driver.Lack{Mend: command + regions[0],
		What: fmt.Sprintf("the account may run %s of %s machines %s in %s", may, first.class, market,
			strings.Join(regions, ", "))}
	if len(regions) > 1 {
		l.Mend = "for r in " + strings.Join(regions, " ") + "; do " + command + "$r; done"
	}
	return l
}
