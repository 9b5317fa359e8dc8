package planner

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/catalog/ec2types"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// finder collects the offers that suit a class. For each region and market, it collects those that may be the best
// there by price, by rate of interruptions or, if emissions count, by power.
type finder struct {
	b       *builder
	disk    float64           // GiB of each machine
	bursts  bool              // burstable types are allowed: the task asks for them, or the query names a machine type
	maxUSD  float64           // the alternative's maximum price per machine and hour; 0 means no limit
	time    *dag.TimeEstimate // of the task; nil: the time is known on all offers
	found   map[string]bool
	matches []*match
	// expensive states that an offer was excluded because its current price, with disk and address, is above maxUSD.
	expensive bool
	// unrated is the accelerator or machine type of an offer that was excluded because the task's time on it is
	// unknown, or "".
	unrated string
}

// collect adds the offers that suit a query. It fails with catalog.ErrNoOffer when there are none.
//
// For on-demand machines, the cheapest offer of a region is enough. A spot offer that is interrupted less often may
// cost less in the end, so the cheapest offer of each interruption band is added. Offers with learned prices or rates
// are compared by these instead of the list price, so they are added separately.
func (f *finder) collect(q catalog.Query) error {
	b := f.b
	if b.countsCarbon() || q.CheapestPer == catalog.PerOffer {
		q.CheapestPer, q.Keep = catalog.PerOffer, f.keep // an expensive offer may be the cleanest
		return f.find(q)
	}
	unknown := func(m *catalog.Match) bool { return !b.known.has(m) && f.keep(m) }
	err := f.cheapest(q, unknown)
	if err != nil && !errors.Is(err, catalog.ErrNoOffer) {
		return err
	}
	if q.Market != catalog.OnDemand {
		if err := f.rarer(q, unknown); err != nil {
			return err
		}
	}
	before := len(f.matches)
	if lerr := f.learned(q); lerr != nil {
		return lerr
	}
	if len(f.matches) > before {
		return nil
	}
	return err
}

// keep is the builder's filter, and also excludes burstable types that the task does not ask for. With busy vCPUs,
// these cost a multiple of their price or run at a fraction of their speed.
func (f *finder) keep(m *catalog.Match) bool {
	if !f.bursts && m.Burstable {
		return false
	}
	return f.timed(m) && f.b.keep(m)
}

// timed reports whether the task's time on an offer is known. It records an offer on which it is not.
func (f *finder) timed(m *catalog.Match) bool {
	if f.time == nil || f.time.Fits(m.InstanceType, m.Accelerator, m.AcceleratorCount) {
		return true
	}
	f.unrated = cmp.Or(m.Accelerator, m.InstanceType)
	return false
}

// surplus returns the additional cost of a burstable type of AWS with busy vCPUs, in USD per hour. Burstable types of
// other clouds slow down instead.
func surplus(m *catalog.Match) (usd float64) {
	if m.Cloud == "aws" {
		usd, _ = ec2types.Burst(m.InstanceType, m.VCPU)
	}
	return usd
}

func (f *finder) find(q catalog.Query) error {
	matches, err := f.b.catalog.Find(q)
	for k := range matches {
		f.add(&matches[k])
	}
	return err
}

// cheapest adds the best offers of a query. It fails with catalog.ErrNoOffer when there are none.
func (f *finder) cheapest(q catalog.Query, keep func(*catalog.Match) bool) error {
	none := true
	err := f.b.best(search{Query: q, Steady: !f.bursts}, keep, func(m *catalog.Match) {
		none = false
		f.add(m)
	})
	if err != nil || !none {
		return err
	}
	q.Keep = keep
	return f.find(q) // which says why
}

func (f *finder) visit(q catalog.Query) error {
	return f.b.catalog.Visit(q, func(m *catalog.Match) bool {
		f.add(m)
		return true
	})
}

// rarer adds cheap spot offers with fewer interruptions. For clouds that publish interruption bands, these are the
// cheapest offer in each band or a better one, and the cheapest without a band.
func (f *finder) rarer(q catalog.Query, keep func(*catalog.Match) bool) error {
	asked := func(clouds []string) []string {
		if len(q.Clouds) == 0 {
			return clouds
		}
		return slices.DeleteFunc(slices.Clone(clouds), func(c string) bool { return !slices.Contains(q.Clouds, c) })
	}
	banded := asked(f.b.banded)
	if len(banded) == 0 {
		return nil
	}
	q.Market = catalog.Spot
	if partly := asked(f.b.partly); len(partly) > 0 {
		q.Clouds = partly
		if err := f.b.best(search{Query: q, Steady: !f.bursts, Unbanded: true}, keep, f.add); err != nil {
			return err
		}
	}
	q.Clouds = banded
	for band := catalog.InterruptionBelow5; band <= catalog.Interruption15To20; band++ {
		q.MaxInterruption = band
		if err := f.b.best(search{Query: q, Steady: !f.bursts}, keep, f.add); err != nil {
			return err
		}
	}
	return nil
}

// learned adds the offers with a learned price or rate of interruptions, and those of the current plan.
func (f *finder) learned(q catalog.Query) error {
	known := f.b.known
	if len(known.ids) == 0 {
		return nil
	}
	if len(q.Regions) == 0 {
		q.Regions = known.regions
	}
	q.CheapestPer = catalog.PerOffer
	q.Keep = func(m *catalog.Match) bool { return known.has(m) && f.keep(m) }
	return f.visit(q)
}

func (f *finder) add(m *catalog.Match) { f.addAs(m, m.ID(), m.USDPerHour, nil) }

// addAs adds a match under an ID, once. usd is its price per hour without disk and address. reserved is the account's
// reserved capacity that it uses, or nil.
func (f *finder) addAs(m *catalog.Match, id string, usd float64, reserved *catalog.Reserved) {
	if f.found[id] {
		return
	}
	f.found[id] = true
	beside := catalog.AttachedUSD(m.Cloud, f.disk, m.Market)
	extra := surplus(m)
	beside += extra
	onDemand, ok := m.Offer.USDPerHour(catalog.OnDemand)
	if !ok { // it is not sold on demand, but has a list price
		onDemand = m.OnDemandUSD + m.SurchargeUSD
	}
	full := &match{
		Match: *m, id: id, place: f.b.number[m.Place()], usd: usd + beside,
		onDemand: onDemand + extra + catalog.AttachedUSD(m.Cloud, f.disk, catalog.OnDemand), reserved: reserved,
	}
	if reserved != nil {
		full.takes, _ = reserved.Takes(&m.Offer)
	}
	full.SurchargeUSD += beside
	full.BootSeconds, full.SlowBootSeconds = f.b.in.Boot(m.Cloud, m.InstanceType, m.BootSeconds, m.SlowBootSeconds)
	full.kg = full.kilowatts() * m.CarbonGPerKWh / 1000
	if m.Market == catalog.Spot {
		f.b.learn(full)
	}
	if f.maxUSD > 0 && full.usd > f.maxUSD {
		f.expensive = true
		delete(f.found, id) // another alternative may allow it
		return
	}
	f.matches = append(f.matches, full)
}

// known are the offers about which the broker knows more than the catalogue.
type known struct {
	ids     map[string]bool // without the market
	types   map[string]bool // machine types, for a fast check that rejects most other offers
	regions []string
}

func (b *builder) knownOffers() known {
	k := known{ids: map[string]bool{}, types: map[string]bool{}}
	regions := map[string]bool{}
	add := func(id string) {
		o, err := catalog.ParseOfferID(id)
		if err != nil {
			return // the catalogue has this cloud no more
		}
		o.Market = catalog.AnyMarket
		k.ids[o.String()], k.types[o.InstanceType] = true, true
		if r := o.Cloud + ":" + o.Region; !regions[r] {
			regions[r] = true
			k.regions = append(k.regions, r)
		}
	}
	for id := range b.in.Markets {
		add(id)
	}
	if b.in.Previous != nil {
		for i := range b.in.Previous.Offers {
			add(b.in.Previous.Offers[i].ID)
		}
	}
	slices.Sort(k.regions)
	return k
}

func (k *known) has(m *catalog.Match) bool {
	return k.types[m.InstanceType] && k.ids[m.Offer.ID()]
}

// priorHours is the weight of the catalogue's interruption rate, in machine hours. After a day on an offer, the
// observed rate has more weight.
const priorHours = 24

// learn applies the last spot price and the observed interruptions to a match. Its interruption rate is that of its
// band (the middle one if it has none), corrected by the observations (the mean of a Gamma posterior).
func (b *builder) learn(m *match) {
	rate, known := m.Interruption.PreemptionsPerHour()
	if !known {
		rate, _ = catalog.Interruption10To15.PreemptionsPerHour()
	}
	rec := b.in.Markets[m.Offer.ID()]
	if len(rec.Prices.Jumps) > 0 {
		m.changes = &rec
	}
	m.rate = (rate*priorHours + float64(rec.Preemptions)) / (priorHours + rec.Hours)
	if rec.USD > 0 {
		m.usd = rec.USD + m.SurchargeUSD
	}
}

// undominated removes a match if another one is at least as good in all that counts. It compares matches in the same
// region (or zone, with byZone), on the same market and with the same speed. If times depend on the machine, only
// machines of the same type count as equally fast. Of equally good offers it keeps the one in the current plan, or
// else the first ID.
func (b *builder) undominated(all []*match, timed, byZone bool) []*match {
	inForce := map[string]bool{}
	if b.in.Previous != nil {
		for i := range b.in.Previous.Offers {
			inForce[b.in.Previous.Offers[i].ID] = true
		}
	}
	late := map[bool]int{false: 1}
	slices.SortFunc(all, func(x, y *match) int {
		if c := cmp.Compare(x.usd, y.usd); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(x.rate, y.rate), x.takes.Compare(y.takes),
			late[inForce[x.id]]-late[inForce[y.id]], strings.Compare(x.id, y.id))
	})
	type group struct {
		cloud, region, zone, machine, accelerator string
		service                                   catalog.Service
		reserved                                  *catalog.Reserved
		count                                     float64
		market                                    catalog.Market
	}
	kept := map[group][]*match{}
	var out []*match
	for _, m := range all {
		g := group{cloud: m.Cloud, region: m.Region, market: m.Market, reserved: m.reserved, service: m.Service}
		if byZone {
			g.zone = m.Zone
		}
		if timed {
			g.machine, g.accelerator, g.count = m.InstanceType, m.Accelerator, m.AcceleratorCount
		}
		if m.changes != nil {
			out = append(out, m) // its future price is expected to differ from its current price
			continue
		}
		if slices.ContainsFunc(kept[g], func(k *match) bool { return b.beats(k, m) }) {
			continue
		}
		kept[g] = append(kept[g], m)
		out = append(out, m)
	}
	return out
}

// beats reports whether k, which costs at most as much as m, is at least as good in all else. On reserved capacity,
// the one that takes less of it is better even if it is slower, because all uses cost the same and other tasks need
// the rest.
func (b *builder) beats(k, m *match) bool {
	return k.rate <= m.rate && k.takes.Within(m.takes) && (!b.countsCarbon() || k.kg <= m.kg || m.kg == 0) &&
		(k.reserved != nil || k.noSlower(m))
}

// noSlower reports whether k boots and works at least as fast as m. For machines with accelerators, the speed of
// vCPUs does not count, because they are compared only with machines of the same kind (see undominated).
func (m *match) noSlower(than *match) bool {
	if m.BootSeconds > than.BootSeconds || m.SlowBootSeconds > than.SlowBootSeconds ||
		m.BillingMinimumSeconds > than.BillingMinimumSeconds {
		return false
	}
	return m.Accelerator != "" || cmp.Or(m.Speed, 1) >= cmp.Or(than.Speed, 1) &&
		cmp.Or(m.SlowSpeed, 1) >= cmp.Or(than.SlowSpeed, 1)
}
