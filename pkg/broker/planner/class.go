package planner

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// class is what all tasks that ask for the same resources share.
type class struct {
	matches []*match
	reason  string // why there is none
	// Of the last task of the class. They are not changed: tasks share them.
	options    []option
	candidates []optimizer.Candidate
}

// match is an offer on a market that suits a class.
type match struct {
	catalog.Match
	id    string // with market
	place int
	rate  float64
	// usd is per hour with disk and address: as last seen, or by the catalogue. onDemand is that of the same machine on
	// demand.
	usd, onDemand float64
	kg            float64 // kg CO2eq an hour; 0 where the grid is not known
	// changes is what was learned of how a spot price changes, nil where it has not been seen to.
	changes *record.MarketRecord
	// reserved is the capacity that the account has, where the offer is on that; nil elsewhere. takes is how much of it
	// one machine takes.
	reserved *catalog.Reserved
	takes    apitypes.Amount
}

// offerOf is an offer as a cloud is asked for it.
func offerOf(m *catalog.Match) apitypes.Offer {
	return apitypes.Offer{
		Cloud: m.Cloud, Region: m.Region, Zone: m.Zone, InstanceType: m.InstanceType,
		Accelerator: m.Accelerator, AccelCount: m.AcceleratorCount, Spot: m.Market == catalog.Spot,
	}
}

// offer is the match as a cloud is asked for it.
func (m *match) offer() apitypes.Offer {
	o := offerOf(&m.Match)
	if m.reserved != nil {
		o.Reservation, o.Reserved = m.reserved.ID, m.reserved.Count
		if m.reserved.Commitment != nil {
			o.Has, o.Takes = m.reserved.Has(), m.takes
		}
	}
	return o
}

func (m *match) planned() record.Planned {
	p := record.Planned{ID: m.id, Offer: m.offer(), VCPU: m.VCPU, MemoryGiB: m.MemoryGiB,
		OnDemandUSD: m.onDemand}
	if p.Offer.USDPerHour = m.usd; p.Offer.Spot {
		p.LossesPerHour, p.SurchargeUSD = m.rate, m.SurchargeUSD
	}
	return p
}

// classOf finds, once for all tasks alike, the offers that suit a task.
func (b *builder) classOf(i int) (*class, error) {
	t := &b.in.Spec.Tasks[i]
	key, err := json.Marshal(struct {
		R []dag.Resources
		O bool
		K []string
		Z bool
	}{t.Resources, t.Ordered, slices.Sorted(maps.Keys(t.Time.On)), b.near[i] == dag.WithinZone})
	if err != nil {
		return nil, err
	}
	if c, ok := b.classes[string(key)]; ok {
		return c, nil
	}
	c, err := b.newClass(t, b.near[i] == dag.WithinZone)
	if err != nil {
		return nil, fmt.Errorf("task %s: %w", t.Name, err)
	}
	b.classes[string(key)] = c
	return c, nil
}

// newClass asks the catalogue for each alternative. Ordered alternatives are taken in turn: the first one that is
// offered anywhere is the only one.
// With byZone it has the offers of each zone, not of each region.
func (b *builder) newClass(t *dag.Task, byZone bool) (*class, error) {
	f := finder{b: b, found: map[string]bool{}, disk: cmp.Or(t.DiskGiB(), cloud.DefaultDiskGiB)}
	var reasons []string
	for _, r := range t.Resources {
		var none error
		for _, q := range b.queries(t, r) {
			if byZone {
				q.CheapestPer = catalog.PerZone
			}
			err := f.reserved(q)
			if err == nil {
				err = f.collect(q)
			}
			if unknown := (*accel.UnknownError)(nil); errors.Is(err, catalog.ErrNoOffer) || errors.As(err, &unknown) {
				none = err
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		if none != nil {
			reasons = append(reasons, none.Error())
		}
		if t.Ordered && len(f.matches) > 0 {
			break
		}
	}
	c := &class{matches: b.undominated(f.matches, len(t.Time.On) > 0, byZone)}
	if len(c.matches) == 0 {
		c.reason = strings.Join(slices.Compact(reasons), "; ")
		if c.reason == "" {
			c.reason = "every offer that suits it is blocked now"
		}
	}
	return c, nil
}

// queries turns an alternative into catalogue queries: one, and one more for each machine or number of accelerators
// that the author gave a time of its own, since the cheapest offer of a region is only the best among those that take
// the same time.
func (b *builder) queries(t *dag.Task, r dag.Resources) []catalog.Query {
	base := catalog.Query{
		Clouds: b.p.opt.Clouds, Regions: b.p.opt.Regions,
		VCPU: catalog.Range(r.CPUs), MemoryGiB: catalog.Range(r.Memory), Accelerator: r.Accelerator,
		AcceleratorCount: r.AcceleratorCount, InstanceType: r.InstanceType, Arch: catalog.Arch(r.Arch),
		Service: catalog.Service(r.Service), CheapestPer: catalog.PerRegion,
	}
	if r.Cloud != "" {
		base.Clouds = []string{r.Cloud}
	}
	if r.Region != "" {
		base.Regions = []string{r.Region}
	}
	if r.Zone != "" {
		base.Zones = []string{r.Zone}
	}
	switch r.Market {
	case dag.MarketSpot:
		base.Market = catalog.Spot
	case dag.MarketOnDemand:
		base.Market = catalog.OnDemand
	case dag.MarketAuto, "":
	}
	queries := []catalog.Query{base}
	for _, key := range slices.Sorted(maps.Keys(t.Time.On)) {
		q := base
		name, count, counted := strings.Cut(key, ":")
		switch {
		case r.Accelerator != "" && counted && name == r.Accelerator && r.AcceleratorCount == 0:
			n, err := strconv.ParseFloat(count, 64)
			if err != nil {
				continue
			}
			q.AcceleratorCount = n
		case !counted && r.InstanceType == "" && r.Accelerator == "" && strings.ContainsAny(key, ".-_"):
			q.InstanceType = key
		default:
			continue
		}
		queries = append(queries, q)
	}
	return queries
}

// keep refuses what is not bought, what is blocked now, and what lies outside the regions a job allows.
func (b *builder) keep(m *catalog.Match) bool { return b.keepAs(m, offerOf(m)) }

// keepAs does it for a match that a cloud is asked for as an offer.
func (b *builder) keepAs(m *catalog.Match, o apitypes.Offer) bool {
	kind := m.Cloud + "/" + m.InstanceType
	if slices.ContainsFunc(b.p.opt.Without, func(not string) bool { return strings.HasPrefix(kind, not) }) {
		return false
	}
	if slices.ContainsFunc(b.in.Blocks, func(k apitypes.Block) bool { return record.Covers(k, o, b.in.Now) }) {
		return false
	}
	return dag.InPlaces(b.in.Spec.Regions, m.Cloud, m.Region)
}
