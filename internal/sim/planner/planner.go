package planner

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// planner is a small planner whose promises can be checked. For each task it takes the cheapest offer with which the
// job is in time even if a spot machine is preempted at the very end of its task and the task is repeated on demand.
type planner struct {
	list     []weather.Listing
	overhead time.Duration // to launch, boot and stage, including problems with it
	detect   time.Duration // until the loss of a machine is detected
	reserved map[string]int
	// committed is the number of vCPUs of usage commitments, by CLOUD/REGION.
	committed map[string]int
}

// New returns a planner. It is safe for concurrent use.
func New() broker.Planner { return NewReserved(nil, nil) }

// NewReserved returns a planner for accounts with reserved machines, by listing ID, and committed vCPUs, by
// CLOUD/REGION, which machines of all types share. Jobs with a deadline or a budget do not use this capacity, because
// it may be taken. A plan may use more of it than exists; the broker handles that.
func NewReserved(reserved, committed map[string]int) broker.Planner {
	return &planner{list: weather.Catalogue(), overhead: PlannedOverhead, detect: PlannedDetect, reserved: reserved,
		committed: committed}
}

// Reserves implements broker.Planner.
func (p *planner) Reserves(context.Context) bool { return len(p.reserved)+len(p.committed) > 0 }

// reservedShare is the marginal cost of an hour on a reserved machine, relative to the on-demand price.
const reservedShare = 0.1

// Committed is the prefix of commitment IDs.
const Committed = "commitment-"

// choice is one offer for one task.
type choice struct {
	*weather.Listing
	spot  bool
	mine  int           // number of reserved machines; 0 if not reserved
	vcpus int           // number of committed vCPUs; 0 if not committed
	rate  float64       // USD per hour of one machine
	usd   float64       // expected cost of the remaining task
	run   time.Duration // expected time of the remaining task
	safe  time.Duration // time in the worst case
	index int           // in planner.list
	// managed is set for a task on a managed service: the offer of the whole place, and the number of its vCPUs.
	managed apitypes.Offer
	held    float64
}

func (c choice) id() string {
	switch {
	case c.mine > 0:
		return c.ID() + "/reserved"
	case c.vcpus > 0:
		return c.ID() + "/committed"
	}
	if c.spot {
		return c.ID() + "/" + string(dag.MarketSpot)
	}
	return c.ID() + "/" + string(dag.MarketOnDemand)
}

// offer returns the offer to buy from the cloud.
func (c choice) offer() apitypes.Offer {
	if c.managed.Service != "" {
		return c.managed
	}
	o := c.Offer(c.spot, c.rate)
	if c.mine > 0 {
		o.Reservation, o.Reserved = c.InstanceType+"-"+c.Zone, c.mine
	}
	if c.vcpus > 0 {
		o.Reservation = Committed + c.Region
		o.Has, o.Takes = catalog.DemandOf(float64(c.vcpus), 0), catalog.DemandOf(c.VCPU, 0)
	}
	return o
}

// planning is a plan in progress.
type planning struct {
	*planner
	in      planinput.Input
	graph   *dag.Graph
	order   []int
	options [][]choice // by task, cheapest first; nil for tasks that need none
	fixed   []time.Duration
	finish  []time.Duration // of the tasks, as last computed
	on      []int32         // record.Plan.On
	message string
}

// Plan implements broker.Planner.
func (p *planner) Plan(_ context.Context, in planinput.Input) (*record.Plan, error) {
	n := len(in.Spec.Tasks)
	g := &planning{
		planner: p, in: in, graph: in.Spec.Graph(), order: in.Spec.Order(),
		options: make([][]choice, n), fixed: make([]time.Duration, n), finish: make([]time.Duration, n),
	}
	planned := g.fleets()
	for i := range in.Spec.Tasks {
		if !planned[i] {
			g.task(i)
		}
		if g.message != "" {
			return &record.Plan{Status: record.PlanInfeasible, Message: g.message}, nil
		}
	}
	if g.keepRules(); g.message != "" {
		return &record.Plan{Status: record.PlanInfeasible, Message: g.message}, nil
	}
	picks, late := g.choose()
	if g.message != "" {
		return &record.Plan{Status: record.PlanInfeasible, Message: g.message}, nil
	}
	return g.plan(picks, late), nil
}

func (g *planning) facts(i int) planinput.Facts {
	if i >= 0 && i < len(g.in.Tasks) && g.in.Tasks[i] != nil {
		return *g.in.Tasks[i]
	}
	return planinput.Facts{}
}

// task computes the options of a task, or its fixed remaining time if it already runs.
func (g *planning) task(i int) {
	t, facts := &g.in.Spec.Tasks[i], g.facts(i)
	if facts.Done {
		return
	}
	if facts.Fixed {
		g.fixed[i] = time.Duration(facts.Hours*float64(time.Hour)) + g.overhead
		if c := g.in.Previous.Of(i); c != nil && c.Offer.Spot { // it may still be taken
			g.fixed[i] += g.detect + g.overhead + time.Duration(g.in.Previous.TaskHours[i]*float64(time.Hour))
		}
		return
	}
	slowest := time.Duration(0) // on demand, as the fallback for spot
	g.options[i] = make([]choice, 0, len(g.list))
	for n := range g.list {
		l := &g.list[n]
		if !Suits(t, l) {
			continue
		}
		for _, spot := range []bool{false, true} {
			c := g.option(t, facts, l, spot)
			c.index = n
			if !allows(t, c) || g.blocked(c) {
				continue
			}
			if !spot {
				slowest = max(slowest, c.safe)
			}
			g.options[i] = append(g.options[i], c)
			for _, own := range g.own(t, c) {
				if !g.blocked(own) {
					g.options[i] = append(g.options[i], own)
				}
			}
		}
	}
	g.services(i)
	if len(g.options[i]) == 0 {
		g.message = fmt.Sprintf("task %s: no suitable offer is unblocked", t.Name)
		return
	}
	for n := range g.options[i] {
		if c := &g.options[i][n]; c.spot {
			c.safe += g.detect + slowest
		}
	}
	g.leaveSpot(i, slowest > 0)
	slices.SortStableFunc(g.options[i], func(a, b choice) int { return cmp.Compare(a.usd, b.usd) })
}

// services adds the options of a task on managed services.
func (g *planning) services(i int) {
	t := &g.in.Spec.Tasks[i]
	if len(t.Services) == 0 {
		return
	}
	list := weather.Services()
	for n := range list {
		m := &list[n]
		if t.ServiceNamed(m.Service) == nil {
			continue
		}
		c := g.option(t, g.facts(i), &m.Listing, false)
		c.managed, c.held = m.OfferTo(t)
		start := m.Ready[1] + m.Start[1]
		c.rate, c.safe = c.managed.USDPerHour, c.safe+start
		c.usd = c.rate * (c.run + start).Hours()
		if !g.blocked(c) {
			g.options[i] = append(g.options[i], c)
		}
	}
}

// leaveSpot removes the spot offers that a task does not use any more, if it may run on demand.
func (g *planning) leaveSpot(i int, onDemand bool) {
	facts := g.facts(i)
	if !onDemand {
		return
	}
	g.options[i] = slices.DeleteFunc(g.options[i], func(c choice) bool {
		return c.spot && facts.LeavesSpot(WholeWork(&g.in.Spec.Tasks[i], c.Listing).Hours())
	})
}

// WholeWork is the time that a task takes on a machine from its beginning, without interruptions.
func WholeWork(t *dag.Task, l *weather.Listing) time.Duration {
	if t.StandIn() {
		return t.Recorded
	}
	return t.TimeOn(l.InstanceType, l.Accelerator, l.Accelerators, 0, 0)
}

// own returns the choices on capacity that the account already has, if other tasks leave room for the task.
func (g *planning) own(t *dag.Task, c choice) (all []choice) {
	if c.spot || g.in.DeadlineHours != nil || g.in.BudgetUSD != nil {
		return nil
	}
	c.rate, c.usd = c.rate*reservedShare, c.usd*reservedShare
	machine, shared := c, c
	machine.mine, shared.vcpus = g.reserved[c.ID()], g.committed[c.Cloud+"/"+c.Region]
	for _, on := range []choice{machine, shared} {
		if on.mine+on.vcpus == 0 {
			continue
		}
		o := on.offer()
		id, _ := record.HeldBy(o)
		has, used := o.Room(t.Nodes)
		for _, h := range g.in.Held[id] {
			used = used.Plus(h.Takes)
		}
		if used.Within(has) {
			all = append(all, on)
		}
	}
	return all
}

// Suits reports whether a machine has the resources that a task requests.
func Suits(t *dag.Task, l *weather.Listing) bool {
	return slices.ContainsFunc(t.Resources, func(r dag.Resources) bool {
		return r.CPUs.Contains(l.VCPU) && (r.Cloud == "" || r.Cloud == l.Cloud) &&
			(r.Region == "" || r.Region == l.Region) &&
			(r.Zone == "" || r.Zone == l.Zone) && (r.InstanceType == "" || r.InstanceType == l.InstanceType) &&
			r.Accelerator == l.Accelerator && r.AcceleratorCount <= l.Accelerators
	})
}

// allows reports whether a task may be bought on the market of a choice.
func allows(t *dag.Task, c choice) bool {
	return slices.ContainsFunc(t.Resources, func(r dag.Resources) bool {
		return r.Market != dag.MarketSpot && !c.spot || r.Market != dag.MarketOnDemand && c.spot
	})
}

func (g *planning) option(t *dag.Task, facts planinput.Facts, l *weather.Listing, spot bool) choice {
	c := choice{Listing: l, spot: spot, rate: l.OnDemandUSD}
	if spot {
		c.rate = l.SpotUSD
		if m, ok := g.in.Markets[l.ID()]; ok && m.USD > 0 {
			c.rate = m.USD
		}
	}
	c.run = time.Duration(float64(WholeWork(t, l)) * (1 - facts.Progress))
	c.usd = c.rate * float64(t.Nodes) * hardware.BillingOf(l.Cloud).BilledHours(c.run.Hours())
	c.safe = c.run + g.overhead
	if spot {
		c.usd *= 1.1 // work lost when a machine is preempted
	}
	return c
}

func (g *planning) blocked(c choice) bool {
	if len(g.in.Blocks) == 0 {
		return false
	}
	o := c.offer()
	return slices.ContainsFunc(g.in.Blocks, func(b apitypes.Block) bool { return record.Covers(b, o, g.in.Now) })
}

// choose takes the fastest safe option of each task. Then, in the order of the DAG, it takes a cheaper option
// wherever the job stays on time, or always if the job has no deadline.
func (g *planning) choose() (picks []int, late bool) {
	picks = make([]int, len(g.options))
	for i, options := range g.options {
		for n := range options {
			if options[n].safe < options[picks[i]].safe {
				picks[i] = n
			}
		}
	}
	bound := math.Inf(1)
	if g.in.DeadlineHours != nil {
		bound = *g.in.DeadlineHours
	}
	late = g.makespan(picks) > bound
	if late && g.in.Previous == nil {
		g.message = "the deadline is too early for any plan"
		return picks, late
	}
	if !late && g.in.Spec.Objective != dag.MinimizeMakespan {
		for _, i := range g.order {
			g.cheapen(picks, i, bound)
		}
	}
	if g.in.BudgetUSD != nil && g.usd(picks) > *g.in.BudgetUSD {
		for i := range picks {
			picks[i] = 0 // the cheapest
		}
		late = g.makespan(picks) > bound
		if g.usd(picks) > *g.in.BudgetUSD || late && g.in.Previous == nil {
			g.message = fmt.Sprintf(
				"the cheapest plan costs %.2f USD, but only %.2f are left",
				g.usd(picks),
				*g.in.BudgetUSD,
			)
		}
	}
	return picks, late
}

func (g *planning) cheapen(picks []int, i int, bound float64) {
	fastest := picks[i]
	for n := range g.options[i] {
		picks[i] = n
		if n == fastest || math.IsInf(bound, 1) || g.makespan(picks) <= bound {
			return
		}
	}
	picks[i] = fastest
}

// makespan returns when the job ends at the latest, in hours from now.
func (g *planning) makespan(picks []int) float64 {
	return g.length(func(i int) time.Duration {
		if len(g.options[i]) == 0 {
			return g.fixed[i]
		}
		return g.options[i][picks[i]].safe
	})
}

// expected returns when it ends without failures, in hours from now.
func (g *planning) expected(picks []int) float64 {
	return g.length(func(i int) time.Duration {
		if len(g.options[i]) == 0 {
			return time.Duration(g.facts(i).Hours * float64(time.Hour))
		}
		return g.options[i][picks[i]].run
	})
}

// length returns the length of the critical path, in hours.
func (g *planning) length(of func(int) time.Duration) float64 {
	last := time.Duration(0)
	for _, i := range g.order {
		end := time.Duration(0)
		for _, p := range g.graph.Parents(i) {
			end = max(end, g.finish[p])
		}
		end += of(i)
		g.finish[i] = end
		last = max(last, end)
	}
	return last.Hours()
}

func (g *planning) usd(picks []int) float64 {
	sum := 0.0
	for i, options := range g.options {
		if len(options) > 0 {
			sum += options[picks[i]].usd
		}
	}
	return sum
}

// plan makes the record of the chosen options.
func (g *planning) plan(picks []int, late bool) *record.Plan {
	n := len(picks)
	plan := &record.Plan{
		Status: "feasible", Late: late, USD: g.usd(picks), Hours: g.expected(picks),
		Choice: make([]int32, n), TaskUSD: make([]float64, n), TaskHours: make([]float64, n),
	}
	plan.Objective, plan.On = plan.USD, g.on
	index := map[string]int32{}
	var running []int
	for i, options := range g.options {
		plan.Choice[i] = -1
		if len(options) == 0 {
			if g.in.Previous != nil && i < len(g.in.Previous.TaskHours) {
				plan.TaskHours[i], plan.TaskUSD[i] = g.in.Previous.TaskHours[i], g.in.Previous.TaskUSD[i]
			}
			running = append(running, i)
			continue
		}
		c := options[picks[i]]
		at, ok := index[c.id()]
		if !ok {
			at = int32(len(plan.Offers)) //nolint:gosec // a handful
			index[c.id()] = at
			plan.Offers = append(plan.Offers, record.Planned{
				ID: c.id(), Offer: c.offer(), VCPU: c.VCPU, MemoryGiB: ListingGiB(c.Listing),
				OnDemandUSD: c.OnDemandUSD,
			})
			if c.managed.Service != "" {
				plan.Offers[at].VCPU, plan.Offers[at].OnDemandUSD = c.held, c.rate
			}
		}
		plan.Choice[i], plan.TaskUSD[i], plan.TaskHours[i] = at, c.usd, c.run.Hours()
		cheapest := math.Inf(1)
		for _, o := range options {
			if !o.spot && o.mine+o.vcpus == 0 {
				cheapest = min(cheapest, o.usd)
			}
		}
		if !math.IsInf(cheapest, 1) {
			plan.OnDemandUSD += cheapest
		}
	}
	for _, i := range running {
		g.keepPrevious(plan, i, index)
	}
	return plan
}
