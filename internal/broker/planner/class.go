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

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/accel"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// class is a resource request. All tasks with the same request share it.
type class struct {
	matches []*match
	reason  string // the reason why there are no matches
	// reserved states that some match uses reserved capacity.
	reserved bool
	last     *listing // the list of the last task of the class
}

// match is an offer on a market that suits a class.
type match struct {
	catalog.Match
	id    string // with market
	place int
	rate  float64
	// usd is the price per hour including disk and address: the last observed one, or the catalogue's. onDemand is
	// the on-demand price of the same machine.
	usd, onDemand float64
	kg            float64 // kg CO2eq per hour; 0 if the grid's emissions are unknown
	// changes is the history of the spot price. It is nil if no change was observed.
	changes *record.MarketRecord
	// reserved is the account's reserved capacity that the offer uses, or nil. takes is the amount that one machine
	// takes of it.
	reserved *catalog.Reserved
	takes    apitypes.Amount
	service  *onService // nil for machines
}

// offerOf returns the offer of a match as the broker requests it from a cloud.
func offerOf(m *catalog.Match) apitypes.Offer {
	return apitypes.Offer{
		Cloud: m.Cloud, Region: m.Region, Zone: m.Zone, InstanceType: m.InstanceType,
		Accelerator: m.Accelerator, AccelCount: m.AcceleratorCount, Spot: m.Market == catalog.Spot,
		Speed: m.Speed, BootSeconds: m.BootSeconds, SlowBootSeconds: m.SlowBootSeconds, Service: string(m.Service),
	}
}

// offer returns the same with the match's reservation.
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

// planned returns the plan's entry for a match. nodes is the number of machines if the plan chose it, and 0
// otherwise.
func (m *match) planned(nodes int) record.Planned {
	p := record.Planned{ID: m.id, Offer: m.offer(), VCPU: m.VCPU, MemoryGiB: m.MemoryGiB,
		OnDemandUSD: m.onDemand}
	p.Offer.Nodes = nodes
	if p.Offer.USDPerHour = m.usd; p.Offer.Spot {
		p.LossesPerHour, p.SurchargeUSD = m.rate, m.SurchargeUSD
	}
	if s := m.service; s != nil { // the broker buys one place, not machines
		p.Offer.Release, p.VCPU = s.release, s.vcpu
		p.Offer.USDPerHour *= float64(s.least)
		p.OnDemandUSD *= float64(s.least)
	}
	return p
}

// classOf returns the offers that suit a task. They are found once for all tasks with the same request.
func (b *builder) classOf(i int) (*class, error) {
	t := &b.in.Spec.Tasks[i]
	key, err := json.Marshal(struct {
		R []dag.Resources
		O bool
		K []string
		Z bool
		S []dag.Resources `json:",omitempty"`
		E int             `json:",omitempty"`
		V string          `json:",omitempty"`
		F float64         `json:",omitempty"`
		D bool            `json:",omitempty"`
		N bool            `json:",omitempty"`
	}{t.Resources, t.Ordered, slices.Sorted(maps.Keys(t.Time.On)), b.near[i] == dag.WithinZone, t.Services,
		t.Nodes, sparkVersion(t), t.Time.FLOPs, t.Time.FLOPs > 0 && t.Time.Default > 0, t.Time.Only})
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

func sparkVersion(t *dag.Task) string {
	if t.Spark == nil {
		return ""
	}
	return t.Spark.Version
}

// newClass queries the catalogue for each alternative. If alternatives are ordered, it uses only the first one with
// offers. With byZone it finds the best offers of each zone, and otherwise of each region.
func (b *builder) newClass(t *dag.Task, byZone bool) (*class, error) {
	before := b.noAgent
	b.noAgent = map[catalog.Arch]bool{}
	defer func() { maps.Copy(b.noAgent, before) }()
	f := finder{b: b, time: &t.Time, found: map[string]bool{}, disk: cmp.Or(t.DiskGiB(), cloud.DefaultDiskGiB)}
	var reasons []string
	for _, r := range t.Resources {
		var none error
		for _, q := range b.queries(t, r) {
			if byZone && q.CheapestPer != catalog.PerOffer {
				q.CheapestPer = catalog.PerZone
			}
			f.bursts, f.maxUSD = r.Burstable || q.InstanceType+q.Family != "", float64(r.MaxUSDPerHour)
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
	others, err := f.services(t)
	if err != nil {
		return nil, err
	}
	reasons = append(reasons, others...)
	c := &class{matches: b.undominated(f.matches, len(t.Time.On) > 0 || t.Time.FLOPs > 0, byZone)}
	c.reserved = slices.ContainsFunc(c.matches, func(m *match) bool { return m.reserved != nil })
	if len(c.matches) == 0 {
		if why := b.withoutAgent(); why != "" {
			reasons = append(reasons, why)
		}
		c.reason = strings.Join(slices.Compact(reasons), "; ")
		switch {
		case f.unrated != "":
			c.reason = untimed(&t.Time, f.unrated)
		case c.reason != "":
		case f.expensive:
			c.reason = "every offer that fits the task costs more than its maxUSDPerHour now, with disk and address"
		default:
			c.reason = "every offer that fits the task is blocked now"
		}
	}
	return c, nil
}

// untimed returns the reason why an estimate has no time for any suitable offer, such as the given machine.
func untimed(e *dag.TimeEstimate, machine string) string {
	if e.Only {
		return "no offer that fits the task has a time, and the default of its time is none (" + machine + " has none)"
	}
	return "no offer that fits the task has accelerators with a known rating, which time.flops needs (" + machine +
		" has none)"
}

// defaultVCPUs and defaultGiB are the minimum size of machines for a task that requests no resources. A task that
// names neither a machine nor an architecture gets amd64, because most programs and images are built for it.
const (
	defaultVCPUs = 2
	defaultGiB   = 8
	// The owner of a cluster has chosen its machines, so they may have any architecture.
	cloudOfClusters = "kubernetes"
)

// queries returns the catalogue queries of an alternative: one for the alternative, and one for each machine type or
// number of accelerators with its own time estimate. The latter are needed because the cheapest offer of a region is
// the best one only among offers that take the same time.
func (b *builder) queries(t *dag.Task, r dag.Resources) []catalog.Query {
	base := catalog.Query{
		Clouds: b.p.opt.Clouds, Regions: b.p.opt.Regions,
		VCPU: catalog.Range(r.CPUs), MemoryGiB: catalog.Range(r.Memory), Accelerator: r.Accelerator,
		AcceleratorCount: r.AcceleratorCount, InstanceType: r.InstanceType, Arch: catalog.Arch(r.FixedArch()),
		Family: r.Family, CPU: r.CPU,
		Service: catalog.Service(r.Service), CheapestPer: catalog.PerRegion, MaxUSDPerHour: float64(r.MaxUSDPerHour),
		Faster: r.Accelerator == "",
	}
	addDefaults(&base, r)
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
	if timesTypes(&t.Time, r) {
		base.CheapestPer, base.Faster = catalog.PerOffer, false
		return []catalog.Query{base}
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

// timesTypes reports whether all offers of an alternative have to be compared, because machines with the same
// accelerators may have different times.
func timesTypes(e *dag.TimeEstimate, r dag.Resources) bool {
	if r.Accelerator == "" || r.InstanceType != "" {
		return false
	}
	for key := range e.On {
		if strings.ContainsAny(key, ".-_") && !strings.Contains(key, ":") && accel.TFLOPS(key) == 0 {
			return true
		}
	}
	return false
}

// addDefaults adds the default resources of a task that requests no machine.
func addDefaults(q *catalog.Query, r dag.Resources) {
	if r.Accelerator != "" || r.InstanceType != "" {
		return
	}
	if r.CPUs.IsZero() && r.Memory.IsZero() {
		q.VCPU, q.MemoryGiB = catalog.AtLeast(defaultVCPUs), catalog.AtLeast(defaultGiB)
	}
	if r.Cloud != cloudOfClusters && r.Arch == "" && r.Family == "" && r.CPU == "" {
		q.Arch = catalog.AMD64
	}
}

// keep rejects matches that the deployment does not buy, that are blocked now, or that are outside of the job's
// regions.
func (b *builder) keep(m *catalog.Match) bool { return b.keepAs(m, offerOf(m)) }

// keepAs is keep for a match that is requested as the offer o.
func (b *builder) keepAs(m *catalog.Match, o apitypes.Offer) bool {
	kind := m.Cloud + "/" + m.InstanceType
	if slices.ContainsFunc(b.p.opt.Without, func(not string) bool { return strings.HasPrefix(kind, not) }) {
		return false
	}
	if slices.ContainsFunc(b.in.Blocks, func(k apitypes.Block) bool { return record.Covers(k, o, b.in.Now) }) {
		return false
	}
	return dag.InPlaces(b.in.Spec.Regions, m.Cloud, m.Region) && b.hasAgent(m)
}

// hasAgent reports whether the broker has an agent for a match. It records the architectures for which there is none.
func (b *builder) hasAgent(m *catalog.Match) bool {
	archs, limited := b.p.opt.Archs[m.Cloud]
	if m.Service != catalog.NoService { // it needs none
		return true
	}
	if !limited || slices.Contains(archs, string(m.Arch)) {
		return true
	}
	b.noAgent[m.Arch] = true
	return false
}

// withoutAgent returns a text about the architectures whose offers were excluded, or "" if there are none.
func (b *builder) withoutAgent() string {
	if len(b.noAgent) == 0 {
		return ""
	}
	names := make([]string, 0, len(b.noAgent))
	for _, a := range slices.Sorted(maps.Keys(b.noAgent)) {
		names = append(names, string(a))
	}
	return fmt.Sprintf("the broker has no agent for %s machines, so it does not plan them; "+
		"`make agent` builds it, and the broker reads it when it starts", strings.Join(names, " and "))
}
