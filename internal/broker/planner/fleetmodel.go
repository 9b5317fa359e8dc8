package planner

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// estimate is the time estimate of some members, and their total work in hours at speed 1.
type estimate struct {
	task  int // one of them
	hours float64
}

// work returns the remaining work of a member on a machine of speed 1, in hours.
func (f *fleet) work(i int) float64 {
	work := f.b.in.Spec.Tasks[i].Time.For("", "", 0, 1, 1).Hours()
	if facts := f.b.in.Tasks[i]; facts != nil {
		work *= 1 - facts.Progress
	}
	return work
}

// setEstimates groups the members by time estimate. An estimate without times for named machines depends only on the
// machine's speed, so all estimates that were made at one speed are one group.
func (f *fleet) setEstimates() {
	bySpeed := map[float64]int{}
	for _, i := range f.members {
		of := &f.b.in.Spec.Tasks[i].Time
		if k, known := bySpeed[of.Speed]; known && len(of.On) == 0 {
			f.estimates[k].hours += f.work(i)
			continue
		}
		if len(of.On) == 0 {
			bySpeed[of.Speed] = len(f.estimates)
		}
		f.estimates = append(f.estimates, estimate{i, f.work(i)})
	}
}

// speedOn returns the speed of a machine for the members, as a weighted mean over their estimates: expected, and on
// the slow side.
func (f *fleet) speedOn(m *match) (speed, slow float64) {
	sum, at, slowly := 0.0, 0.0, 0.0
	for _, e := range f.estimates {
		whole := f.b.in.Spec.Tasks[e.task].Time.For("", "", 0, 1, 1).Hours()
		there := f.b.wholeWork(e.task, m, 1)
		sum += e.hours
		at += e.hours * there / whole
		slowly += e.hours * f.b.slowWork(e.task, m, there) / whole
	}
	if !(sum > 0) {
		return 1, 1
	}
	return sum / at, min(sum/at, sum/slowly)
}

// demand is the requirement of a fleet's members on a machine: sums, means and maxima over all members.
type demand struct {
	cpus, gib float64 // the largest member
	// mean is the mean run time of a member in hours at speed 1, weighted by its work. longest is the longest run
	// time.
	mean, longest float64
	every         float64 // hours between checkpoints; 0 if some member saves none
	cpuHours      float64 // sums of the members' resources, multiplied by their hours at speed 1
	gibHours      float64
	spot          bool // the members may run on spot
}

func (f *fleet) demand() demand {
	d := demand{spot: true}
	work, squares, lost, resumes, leave := 0.0, 0.0, 0.0, true, false
	for _, i := range f.members {
		t, hours := &f.b.in.Spec.Tasks[i], f.work(i)
		cpus, gib := t.Hold()
		d.cpus, d.gib = max(d.cpus, cpus), max(d.gib, gib)
		d.cpuHours, d.gibHours = d.cpuHours+cpus*hours, d.gibHours+gib*hours
		work, squares, d.longest = work+hours, squares+hours*hours, max(d.longest, hours)
		every := checkpointHours(t)
		resumes, d.every = resumes && every > 0, max(d.every, every)
		if facts := f.b.in.Tasks[i]; facts != nil {
			lost, leave = lost+facts.LostHours, leave || facts.OnDemand
		}
	}
	for _, w := range f.free {
		leave = leave || f.b.in.Tasks[w] != nil && f.b.in.Tasks[w].OnDemand
	}
	if !resumes {
		d.every = 0
	}
	if work > 0 {
		d.mean = squares / work
	}
	// As for a single task, members leave spot for the deadline, or if they have lost as much work as they contain.
	d.spot = !leave && !(lost > 0 && lost >= work)
	return d
}

// estimate updates the minimum cost of the work in an offer's place with the cost on this offer without idle time, in
// USD.
func (d *demand) estimate(m *catalog.Match, least map[string]float64) {
	if !(m.VCPU > 0 && m.MemoryGiB > 0) {
		return
	}
	usd := m.USDPerHour / cmp.Or(m.Speed, 1) * max(d.cpuHours/m.VCPU, d.gibHours/m.MemoryGiB)
	if known, ok := least[m.Place()]; !ok || usd < known {
		least[m.Place()] = usd
	}
}

// queries returns the catalogue queries for machines that can hold the largest member, one for each alternative.
func (f *fleet) queries(d demand) (queries []catalog.Query) {
	t := f.b.in.Spec.Tasks[f.members[0]]
	t.Time.On = nil
	asks := slices.ContainsFunc(f.members, func(i int) bool {
		return slices.ContainsFunc(f.b.in.Spec.Tasks[i].Resources, func(r dag.Resources) bool {
			return !r.CPUs.IsZero() || !r.Memory.IsZero()
		})
	})
	for _, r := range t.Resources {
		r.CPUs, r.Memory = dag.Range{}, dag.Range{}
		if asks {
			r.CPUs, r.Memory = dag.Range{Min: d.cpus}, dag.Range{Min: d.gib}
		}
		q := f.b.queries(&t, r)[0]
		q.CheapestPer, q.Faster = catalog.PerOffer, false
		queries = append(queries, q)
	}
	return queries
}

// disk returns the disk size of each machine, in GiB.
func (f *fleet) disk() float64 {
	return cmp.Or(f.b.in.Spec.Tasks[f.members[0]].DiskGiB(), cloud.DefaultDiskGiB)
}

// sort identifies offers that differ only in their price and place.
type sort struct {
	cloud, machine string
	market         catalog.Market
	band           catalog.InterruptionBand
	place          string // if data moves
}

// matches returns the offers that suit the members: the cheapest of each sort, and those with a learned price or
// rate. With places, it returns the cheapest in each place. If there are none, it returns the reason. Unless least is
// nil, it sets the minimum estimated cost of the work in each place.
func (f *fleet) matches(d demand, places []string, least map[string]float64) (found []*match, why string) {
	b := f.b
	t := &b.in.Spec.Tasks[f.members[0]]
	all := finder{b: b, found: map[string]bool{}, disk: f.disk()}
	var reasons []string
	for n, q := range f.queries(d) {
		all.bursts = t.Resources[n].Burstable || q.InstanceType+q.Family != ""
		all.maxUSD = float64(t.Resources[n].MaxUSDPerHour)
		best := map[sort]*catalog.Match{}
		if places != nil {
			q.Regions = places
		}
		q.Keep = func(m *catalog.Match) bool {
			if least != nil && (d.spot || m.Market == catalog.OnDemand) && all.keep(m) {
				d.estimate(m, least)
			}
			if b.known.has(m) {
				if all.keep(m) {
					all.add(m)
				}
				return false
			}
			s := sort{cloud: m.Cloud, machine: m.InstanceType, market: m.Market, band: m.Interruption}
			if places != nil {
				s.place = m.Place()
			}
			if has := best[s]; has != nil && !cheaperMatch(m, has) || !all.keep(m) {
				return false
			}
			kept := *m
			best[s] = &kept
			return false
		}
		if err := b.catalog.Visit(q, func(*catalog.Match) bool { return true }); err != nil {
			reasons = append(reasons, err.Error())
			continue
		}
		for _, m := range best {
			all.add(m)
		}
		if t.Ordered && len(all.matches) > 0 {
			break
		}
	}
	found = slices.DeleteFunc(slices.Clone(all.matches),
		func(m *match) bool { return m.Market == catalog.Spot && !d.spot })
	if len(found) == 0 { // only spot is allowed
		found = all.matches
	}
	slices.SortFunc(found, func(x, y *match) int {
		return cmp.Or(cmp.Compare(x.usd, y.usd), strings.Compare(x.id, y.id))
	})
	return found, strings.Join(slices.Compact(reasons), "; ")
}

// cheaperMatch compares offers of one sort by price, and then by place.
func cheaperMatch(x, y *catalog.Match) bool {
	if x.USDPerHour != y.USDPerHour {
		return x.USDPerHour < y.USDPerHour
	}
	return strings.Compare(x.ID(), y.ID()) < 0
}

// frame returns a model of the members without machines.
func (f *fleet) frame() *shared.Model {
	b := f.b
	m := &shared.Model{
		Objective: b.model.Objective, DeadlineHours: b.in.DeadlineHours, BudgetUSD: b.in.BudgetUSD,
		MostInstances: min(len(f.free)+len(f.kept), dag.MaxWorkers),
		Places:        b.data.places, USDPerGiB: b.data.usd, HoursPerGiB: b.data.hours,
	}
	for _, i := range f.members {
		t := &b.in.Spec.Tasks[i]
		cpus, gib := t.Hold()
		hours := f.work(i) + b.p.opt.Handling.Hours()
		m.Tasks = append(m.Tasks, shared.Task{ID: t.Name, CPUs: cpus, MemoryGiB: gib, Hours: hours})
	}
	for _, e := range b.in.Spec.Edges {
		if _, from := f.index[e.From]; !from {
			continue
		}
		if _, to := f.index[e.To]; to {
			m.Edges = append(m.Edges, optimizer.Edge{
				From: b.in.Spec.Tasks[e.From].Name, To: b.in.Spec.Tasks[e.To].Name, GiB: float64(e.Data),
			})
		}
	}
	return m
}

// machine returns a match as a machine of the model: with expected times, and with guaranteed ones, which are used
// for deadlines. ok is false if a task would be interrupted too often to finish.
//
// On spot, all work of a machine takes longer by the factor that bidding.Spot expects for the mean member, and the
// price per hour covers only the time in which the machine is held. The guaranteed times allow for one interruption:
// the machine's tasks start later by a restart and the longest work that may have to be repeated.
func (f *fleet) machine(m *match, d demand) (expected, guaranteed shared.Machine, ok bool) {
	speed, slow := f.speedOn(m)
	billing := hardware.BillingOf(m.Cloud)
	expected = shared.Machine{
		ID: m.id, Place: m.place, USDPerHour: m.usd, CPUs: m.VCPU, MemoryGiB: m.MemoryGiB, Speed: speed,
		BootHours: m.bootHours(), MinimumHours: billing.Minimum.Hours(), IncrementHours: billing.Increment.Hours(),
		Most: len(f.free),
	}
	guaranteed = expected
	guaranteed.BootHours, guaranteed.Speed = max(m.bootHours(), m.SlowBootSeconds/secondsPerHour), slow
	if m.Market != catalog.Spot || !(d.mean > 0) {
		return expected, guaranteed, true
	}
	run := bidding.Run{Hours: d.mean / speed, RestartHours: f.b.p.opt.Restart.Hours(), PreemptionsPerHour: m.rate,
		Nodes: 1, ReactHours: f.b.p.opt.TickEvery.Hours(), CheckpointHours: d.every}
	q, ok := bidding.Spot(run)
	if !ok {
		return expected, guaranteed, false
	}
	run.Hours = d.longest / slow
	worst, ok := bidding.Spot(run)
	if !ok {
		return expected, guaranteed, false
	}
	stretch := max(q.Hours*speed/d.mean, 1)
	expected.Speed /= stretch
	expected.USDPerHour = f.b.meanUSD(m, q.Held) * q.Held / q.Hours
	guaranteed.USDPerHour, guaranteed.Speed = expected.USDPerHour, min(slow, expected.Speed)
	guaranteed.BootHours += worst.Guaranteed - run.Hours
	return expected, guaranteed, true
}

// keptMachine returns a machine of the group as a machine of the model. It needs no boot, but its current tasks come
// first: it is free as soon as it could have done their work.
func (f *fleet) keptMachine(k kept) shared.Machine {
	b, o := f.b, &k.on.Offer
	m := &match{Match: catalog.Match{Offer: catalog.Offer{InstanceType: o.InstanceType}}}
	m.Speed = o.Speed
	speed, _ := f.speedOn(m)
	out := shared.Machine{
		ID: "worker:" + b.in.Spec.Tasks[k.worker].Name, Place: b.number[b.in.Tasks[k.worker].Place],
		USDPerHour: o.USDPerHour, CPUs: k.on.VCPU, MemoryGiB: k.on.MemoryGiB, Speed: speed, Most: 1,
	}
	busy := false
	for _, i := range f.running {
		if prev := b.in.Previous; prev.IsShared(i) && int(prev.On[i]) == k.worker {
			cpus, gib := b.in.Spec.Tasks[i].Hold()
			out.BootHours += max(cpus/out.CPUs, gib/out.MemoryGiB) * b.in.Tasks[i].Hours
			busy = true
		}
	}
	if !busy && k.hours >= b.in.Previous.TaskHours[k.worker] {
		out.BootHours = o.BootSeconds / secondsPerHour // it still boots
	}
	if math.IsNaN(out.BootHours) || math.IsInf(out.BootHours, 0) {
		out.BootHours = k.hours
	}
	return out
}
