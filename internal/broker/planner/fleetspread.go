package planner

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

const (
	// spreadFrom is the number of spot machines in one zone from which on a plan spreads them over several zones.
	spreadFrom = 4
	// spreadOver is the maximum number of offers that replace one.
	spreadOver = 4
	// spreadSlack is the share by which the spread plan may be more expensive and slower.
	spreadSlack = 0.02
	// nearSpeed and nearUSD are the shares by which the other offers may be slower and more expensive than the chosen
	// one.
	nearSpeed, nearUSD = 0.05, 0.05
)

// spread divides the spot machines of a zone in which the plan has many among nearly equal offers, preferably in
// other zones. So one price spike or one zone does not take all machines.
func (f *fleet) spread(t *try, d demand) {
	usd, hours := t.answer.USD*(1+spreadSlack), t.answer.Hours*(1+spreadSlack)
	for _, zone := range f.crowdedZones(t) {
		turn := 0
		for _, alike := range zone {
			near := f.nearOffers(t, t.answer.Instances[alike[0]].Machine, d)
			for n := min(len(near), spreadOver-1); n > 0; n-- {
				over := f.over(t, alike, near[:n], turn, d)
				if over.within(usd, hours) && f.mostInZone(over) <= f.mostInZone(t) {
					*t = *over
					break
				}
			}
			turn += len(alike)
		}
	}
}

// crowdedZones returns the new spot instances of each zone with at least spreadFrom of them: by zone, then by offer,
// in the order in which they are requested.
func (f *fleet) crowdedZones(t *try) (zones [][][]int) {
	order := make([]int, len(t.answer.Instances))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(t.answer.Instances[x].From, t.answer.Instances[y].From)
	})
	of, in, sizes := map[int]int{}, map[string]int{}, []int{}
	for _, i := range order {
		k := t.answer.Instances[i].Machine
		if k < len(f.kept) || t.offers[k-len(f.kept)].Market != catalog.Spot {
			continue
		}
		name := zoneOf(t.offers[k-len(f.kept)])
		z, known := in[name]
		if !known {
			z = len(zones)
			in[name], zones, sizes = z, append(zones, nil), append(sizes, 0)
		}
		if _, known := of[k]; !known {
			of[k] = len(zones[z])
			zones[z] = append(zones[z], nil)
		}
		zones[z][of[k]] = append(zones[z][of[k]], i)
		sizes[z]++
	}
	for z := range zones {
		if sizes[z] < spreadFrom {
			zones[z] = nil
		}
	}
	return zones
}

// mostInZone returns the highest number of new spot machines in one zone.
func (f *fleet) mostInZone(t *try) (most int) {
	in := map[string]int{}
	for _, x := range t.answer.Instances {
		if k := x.Machine - len(f.kept); k >= 0 && t.offers[k].Market == catalog.Spot {
			zone := zoneOf(t.offers[k])
			in[zone]++
			most = max(most, in[zone])
		}
	}
	return most
}

// nearOffers returns spot offers that can replace a machine of the model: offers of its type elsewhere, and offers in
// the model that are as large and about as fast. The best come first, and the best of each zone comes before all
// others.
func (f *fleet) nearOffers(t *try, k int, d demand) []*match {
	m, moves := t.offers[k-len(f.kept)], f.movesData()
	type option struct {
		*match
		usd            float64 // price of an hour of work at speed 1
		abroad, repeat int     // 1 if it is in another region, or in the zone of a better one
	}
	var options []option
	for _, o := range slices.Concat(t.offers, f.elsewhere(m, d, moves)) {
		x, _, ok := f.machine(o, d)
		if !ok || o.id == m.id || o.Market != catalog.Spot || !replaces(&x, &t.expected.Machines[k]) {
			continue
		}
		abroad := 0
		if o.place != m.place {
			abroad = 1
		}
		if abroad == 0 || !moves {
			options = append(options, option{match: o, usd: workUSD(&x), abroad: abroad})
		}
	}
	slices.SortFunc(options, func(x, y option) int {
		return cmp.Or(cmp.Compare(x.usd, y.usd), cmp.Compare(x.abroad, y.abroad), strings.Compare(x.id, y.id))
	})
	zones := map[string]bool{zoneOf(m): true}
	for i := range options {
		zone := zoneOf(options[i].match)
		if zones[zone] {
			options[i].repeat = 1
		}
		zones[zone] = true
	}
	slices.SortStableFunc(options, func(x, y option) int { return cmp.Compare(x.repeat, y.repeat) })
	near := make([]*match, len(options))
	for i := range options {
		near[i] = options[i].match
	}
	return near
}

// replaces reports whether a machine is as large as another, and nearly as fast and as cheap.
func replaces(x, base *shared.Machine) bool {
	return x.CPUs >= base.CPUs && x.MemoryGiB >= base.MemoryGiB && x.Speed >= base.Speed*(1-nearSpeed) &&
		workUSD(x) <= workUSD(base)*(1+nearUSD)
}

// workUSD returns the price of an hour of work at speed 1 on a whole machine.
func workUSD(x *shared.Machine) float64 { return x.USDPerHour / x.Speed }

func zoneOf(m *match) string { return m.Place() + "/" + m.Zone }

// elsewhere returns the spot offers of an offer's type that are not in the model: in its region if data moves, and
// otherwise anywhere.
func (f *fleet) elsewhere(m *match, d demand, moves bool) []*match {
	t := &f.b.in.Spec.Tasks[f.members[0]]
	all := finder{b: f.b, found: map[string]bool{}, disk: f.disk()}
	for n, q := range f.queries(d) {
		all.bursts = t.Resources[n].Burstable || q.InstanceType+q.Family != ""
		all.maxUSD = float64(t.Resources[n].MaxUSDPerHour)
		q.Clouds, q.InstanceType, q.Market, q.Keep = []string{m.Cloud}, m.InstanceType, catalog.Spot, all.keep
		if moves {
			q.Regions = []string{m.Place()}
		}
		_ = all.visit(q) // an alternative that does not exist adds nothing
	}
	return slices.DeleteFunc(all.matches, func(o *match) bool { return o.InstanceType != m.InstanceType })
}

// over returns a plan in which some instances are divided among their offer and near ones, starting with offer number
// first.
func (f *fleet) over(t *try, instances []int, near []*match, first int, d demand) *try {
	out, expected, guaranteed := *t, *t.expected, *t.guaranteed
	out.expected, out.guaranteed, out.offers = &expected, &guaranteed, slices.Clone(t.offers)
	expected.Machines, guaranteed.Machines = slices.Clone(expected.Machines), slices.Clone(guaranteed.Machines)
	answer := shared.Plan{Instances: slices.Clone(t.answer.Instances), Tasks: t.answer.Tasks}
	machines := []int{answer.Instances[instances[0]].Machine}
	for _, o := range near {
		k := slices.IndexFunc(out.offers, func(x *match) bool { return x.id == o.id })
		if k < 0 {
			x, y, _ := f.machine(o, d)
			k = len(out.offers)
			expected.Machines, guaranteed.Machines = append(expected.Machines, x), append(guaranteed.Machines, y)
			out.offers = append(out.offers, o)
		}
		machines = append(machines, len(f.kept)+k)
	}
	for n, i := range instances {
		answer.Instances[i].Machine = machines[(first+n)%len(machines)]
	}
	out.answer = retimed(&expected, &answer)
	return &out
}

// within reports whether a plan keeps its own limits and the given ones.
func (t *try) within(usd, hours float64) bool {
	m := t.expected
	if m.BudgetUSD != nil {
		usd = min(usd, *m.BudgetUSD)
	}
	if t.answer.USD > usd || t.answer.Hours > hours {
		return false
	}
	return m.DeadlineHours == nil || t.answer.Hours <= *m.DeadlineHours &&
		retimed(t.guaranteed, t.answer).Hours <= *t.guaranteed.DeadlineHours
}
