package planner

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

const (
	// slack is the share by which a plan may be more expensive than the cheapest one to be faster, if there is no
	// deadline. Without it, the plan of a thousand tasks would be one small machine for days.
	slack = 0.02
	// fleetPlaces is the number of regions that are compared for a fleet whose tasks move data.
	fleetPlaces = 3
	// effortTasks is the number of members above which the search makes fewer steps for each, so that planning takes
	// about equally long for any number.
	effortTasks = 1000
	// fleetEffort is the effort of a search, as in shared.Options. More effort improves little: a plan has several
	// searches, and the prices of spot machines are only expectations.
	fleetEffort = 0.25
	// onDemandEffort is the share of that effort for the comparison with on-demand machines.
	onDemandEffort = 0.4
)

// errNoFleet means that no fleet keeps the limits.
var errNoFleet = errors.New("no fleet keeps the limits")

// noFleetError is errNoFleet with a reason for the user, which may be empty. late is true if the deadline is the
// reason.
type noFleetError struct {
	message string
	late    bool
}

func (e *noFleetError) Error() string { return cmp.Or(e.message, errNoFleet.Error()) }

func (e *noFleetError) Is(target error) bool { return target == errNoFleet }

// clock returns the time. It always returns the same time if plans must not depend on it.
func (p *Planner) clock() time.Time {
	if p.opt.Now == nil {
		return time.Time{}
	}
	return p.opt.Now()
}

// site is a set of offers for a fleet, and the cost of the data that the fleet's members exchange with other tasks.
type site struct {
	found      []*match
	usd, hours float64
}

// try is a plan of a fleet at a site.
type try struct {
	site
	expected, guaranteed *shared.Model // guaranteed only with a deadline
	offers               []*match      // of the machines after those that the group has
	answer               *shared.Plan  // with expected times
}

// solve plans the fleet within a part of the deadline. It fails with errNoFleet if no plan keeps the deadline and the
// budget. A late fleet has no deadline, and is as fast as possible.
func (f *fleet) solve(ctx context.Context, part float64, late bool) error {
	f.estimates = nil
	f.setEstimates()
	frame := f.frame()
	whole := *frame
	if frame.DeadlineHours != nil {
		within := *frame.DeadlineHours * part
		frame.DeadlineHours = &within
	}
	if late {
		frame.Objective, frame.DeadlineHours = optimizer.Makespan, nil
		whole = *frame
	}
	d := f.demand()
	sites, err := f.sites(d)
	if err != nil {
		return err
	}
	var best *try
	failed := error(errNoFleet)
	for _, s := range sites[min(1, len(sites)-1):] { // the first site has all places
		t, err := f.try(ctx, frame, d, s, f.b.p.effort/float64(max(1, len(sites)-1)))
		switch {
		case errors.Is(err, errNoFleet):
			failed = err
		case err != nil:
			return err
		case best == nil || t.objective() < best.objective():
			best = t
		}
	}
	if best == nil {
		return failed
	}
	if frame.Objective == optimizer.Cost && frame.DeadlineHours == nil {
		if err := f.faster(ctx, best); err != nil {
			return err
		}
	}
	if !f.b.p.crowd {
		f.spread(best, d)
	}
	f.model, f.offers, f.answer, f.worst = best.expected, best.offers, best.answer, best.answer
	if f.b.in.DeadlineHours != nil {
		f.worst = retimed(best.guaranteed, best.answer)
	}
	f.giveWorkers()
	if err := f.setBound(&whole, d, sites[0]); err != nil {
		return err
	}
	return f.setOnDemand(ctx, best, d)
}

func (t *try) objective() float64 {
	if t.expected.Objective == optimizer.Makespan {
		return t.answer.Hours + t.hours
	}
	return t.answer.USD + t.usd
}

// try solves the model of a site.
func (f *fleet) try(ctx context.Context, frame *shared.Model, d demand, s site, effort float64) (*try, error) {
	t := &try{site: s}
	t.expected, t.guaranteed, t.offers = f.models(frame, d, s)
	if len(t.expected.Machines) == 0 {
		return nil, &noFleetError{}
	}
	if frame.DeadlineHours == nil {
		var err error
		t.answer, err = f.search(ctx, t.expected, effort)
		return t, err
	}
	return t, f.inTime(ctx, t, effort)
}

// inTime finds a plan that keeps the deadline even with slow boots, slow machines and interruptions. In the
// guaranteed model, such delays cost money. So it first searches for a plan with expected times that also keeps the
// deadline with guaranteed ones: within the deadline, and then within the part that such delays leave of it.
func (f *fleet) inTime(ctx context.Context, t *try, effort float64) error {
	m := *t.expected
	for range 2 {
		answer, err := f.search(ctx, &m, effort)
		if errors.Is(err, errNoFleet) {
			break
		}
		if err != nil {
			return err
		}
		late := retimed(t.guaranteed, answer)
		if late.Hours <= *t.guaranteed.DeadlineHours {
			t.answer = answer
			return nil
		}
		left := *t.guaranteed.DeadlineHours - (late.Hours - answer.Hours)
		if m.DeadlineHours = &left; !(left > 0) {
			break
		}
	}
	answer, err := f.search(ctx, t.guaranteed, effort)
	if err == nil {
		t.answer = retimed(t.expected, answer)
	}
	if none := (*noFleetError)(nil); errors.As(err, &none) && none.late {
		none.message += guaranteedTimes
	}
	return err
}

// models returns the models of a site. Their limits exclude the data that the members exchange with other tasks.
func (f *fleet) models(frame *shared.Model, d demand, s site) (expected, guaranteed *shared.Model, offers []*match) {
	e := *frame
	less := func(limit *float64, by float64) *float64 {
		if limit == nil {
			return nil
		}
		left := max(*limit-by, 0)
		return &left
	}
	e.DeadlineHours, e.BudgetUSD = less(frame.DeadlineHours, s.hours), less(frame.BudgetUSD, s.usd)
	g := e
	for _, k := range f.kept {
		m := f.keptMachine(k)
		e.Machines, g.Machines = append(e.Machines, m), append(g.Machines, m)
	}
	if len(f.free) == 0 {
		return &e, &g, nil
	}
	for _, m := range s.found {
		if x, y, ok := f.machine(m, d); ok {
			e.Machines, g.Machines, offers = append(e.Machines, x), append(g.Machines, y), append(offers, m)
		}
	}
	return &e, &g, offers
}

// search solves a model. It returns no plan if the plan would need more new machines than there are worker tasks.
func (f *fleet) search(ctx context.Context, m *shared.Model, effort float64) (*shared.Plan, error) {
	sol, err := shared.Solve(ctx, m, shared.Options{Effort: effort * f.scale(), Now: f.b.p.clock})
	if errors.Is(err, optimizer.ErrUndecided) {
		return nil, &noFleetError{message: "no plan that keeps the deadline and the budget was found"}
	}
	if err != nil {
		return nil, err
	}
	if sol.Plan == nil {
		return nil, &noFleetError{message: sol.Message, late: sol.Late}
	}
	if len(f.free)-f.bought(sol.Plan) >= 0 {
		return sol.Plan, nil
	}
	fewer := *m
	fewer.MostInstances = len(f.free)
	if fewer.MostInstances == m.MostInstances || fewer.MostInstances == 0 {
		return nil, &noFleetError{}
	}
	return f.search(ctx, &fewer, effort)
}

// scale returns the factor that reduces the effort of large fleets, so that the number of steps does not grow with the
// number of members.
func (f *fleet) scale() float64 {
	return 1 / (1 + stepsPerTask*float64(max(0, len(f.members)-effortTasks))/stepsAtOnce)
}

// The steps of shared.Solve: for up to effortTasks tasks, and for each further task.
const stepsAtOnce, stepsPerTask = 3e6, 3500

// bought returns the number of machines in a plan that the group does not have yet.
func (f *fleet) bought(p *shared.Plan) (n int) {
	for _, x := range p.Instances {
		if x.Machine >= len(f.kept) {
			n++
		}
	}
	return n
}

// faster replaces the plan by the fastest one that costs little more.
func (f *fleet) faster(ctx context.Context, t *try) error {
	m := *t.expected
	most := t.answer.USD * (1 + slack)
	if m.BudgetUSD != nil {
		most = min(most, *m.BudgetUSD)
	}
	m.Objective, m.BudgetUSD = optimizer.Makespan, &most
	answer, err := f.search(ctx, &m, f.b.p.effort)
	if errors.Is(err, errNoFleet) {
		return nil
	}
	if err == nil && answer.Hours < t.answer.Hours {
		t.answer = answer
	}
	return err
}

// setBound sets the lower bound: no fleet, at any of the places, has a lower cost in USD or, if the objective is the
// makespan, takes fewer hours.
func (f *fleet) setBound(frame *shared.Model, d demand, all site) error {
	m, _, _ := f.models(frame, d, site{found: all.found})
	usd, hours, err := shared.LowerBounds(m)
	if f.bound = usd; m.Objective == optimizer.Makespan {
		f.bound = hours
	}
	return err
}

// setOnDemand calculates the cost of the work on demand: with the same machines at on-demand prices, or with the best
// fleet of on-demand machines that is found. If time counts, that fleet must not be slower.
func (f *fleet) setOnDemand(ctx context.Context, t *try, d demand) error {
	f.onDemandUSD = f.usd()
	if !slices.ContainsFunc(f.answer.Instances, func(x shared.Instance) bool { return f.offer(x).Offer.Spot }) {
		return nil
	}
	f.onDemandUSD = movedUSD(f.model, f.answer)
	for _, x := range f.answer.Instances {
		f.onDemandUSD += f.billed(x) * f.offer(x).OnDemandUSD
	}
	at, err := f.onDemandSite(t, d)
	if err != nil || len(at.found) == 0 {
		return err
	}
	m := *t.expected
	if m.Machines, m.BudgetUSD = nil, nil; m.DeadlineHours != nil || m.Objective == optimizer.Makespan {
		m.Objective, m.DeadlineHours = optimizer.Cost, &f.answer.Hours
	}
	on, _, _ := f.models(&m, d, site{found: at.found})
	on.Machines = on.Machines[len(f.kept):]
	effort := onDemandEffort * f.b.p.effort * f.scale()
	sol, err := shared.Solve(ctx, on, shared.Options{Effort: effort, Now: f.b.p.clock})
	if errors.Is(err, optimizer.ErrUndecided) {
		return nil
	}
	if err == nil && sol.Plan != nil {
		f.onDemandUSD = min(f.onDemandUSD, sol.Plan.USD+at.usd-t.usd)
	}
	return err
}

// onDemandSite returns the on-demand offers: all of those considered, or if the members move data those of the best
// place.
func (f *fleet) onDemandSite(t *try, d demand) (site, error) {
	isSpot := func(m *match) bool { return m.Market == catalog.Spot }
	s := t.site
	if d.spot = false; f.movesData() {
		sites, err := f.sites(d)
		if err != nil {
			return site{}, err
		}
		s = sites[min(1, len(sites)-1)]
	}
	s.found = slices.DeleteFunc(slices.Clone(s.found), isSpot)
	return s, nil
}

// giveWorkers gives a worker task to each instance, in the order of the times at which the instances are needed.
func (f *fleet) giveWorkers() {
	order := make([]int, len(f.answer.Instances))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Compare(f.answer.Instances[x].From, f.answer.Instances[y].From)
	})
	f.worker = make([]int, len(order))
	next := 0
	for _, i := range order {
		if k := f.answer.Instances[i].Machine; k < len(f.kept) {
			f.worker[i] = f.kept[k].worker
			continue
		}
		f.worker[i] = f.free[next]
		next++
	}
}

// offer is the planned offer of an instance.
func (f *fleet) offer(x shared.Instance) record.Planned {
	if x.Machine < len(f.kept) {
		return *f.kept[x.Machine].on
	}
	return f.offers[x.Machine-len(f.kept)].planned(0)
}

// billed returns the hours that are billed for an instance. For a machine that the group has, this is the time after
// its planned end.
func (f *fleet) billed(x shared.Instance) float64 {
	if x.Machine < len(f.kept) {
		return max(x.To-f.kept[x.Machine].hours, 0)
	}
	return billedHours(&f.model.Machines[x.Machine], x.To-x.From)
}

func billedHours(m *shared.Machine, held float64) float64 {
	held = max(held, m.MinimumHours)
	if m.IncrementHours > 0 {
		return math.Ceil(held/m.IncrementHours-1e-9) * m.IncrementHours
	}
	return held
}

// usd returns the cost of the fleet: its machines, and the data that moves between them.
func (f *fleet) usd() float64 {
	sum := movedUSD(f.model, f.answer)
	for _, x := range f.answer.Instances {
		sum += f.billed(x) * f.model.Machines[x.Machine].USDPerHour
	}
	return sum
}

// movedUSD is the cost of the data that moves between the instances of a plan.
func movedUSD(m *shared.Model, p *shared.Plan) (sum float64) {
	if len(m.Edges) == 0 {
		return 0
	}
	index := indexOf(m)
	place := func(on int) int { return m.Machines[p.Instances[on].Machine].Place }
	for _, e := range m.Edges {
		from, to := p.Tasks[index[e.From]].On, p.Tasks[index[e.To]].On
		if from != to {
			sum += e.GiB * m.USDPerGiB[place(from)][place(to)]
		}
	}
	return sum
}

func indexOf(m *shared.Model) map[string]int {
	index := make(map[string]int, len(m.Tasks))
	for t := range m.Tasks {
		index[m.Tasks[t].ID] = t
	}
	return index
}

// write adds the machines and the members to a plan.
func (f *fleet) write(plan *record.Plan) {
	weight, sum := f.weights()
	of := map[int32]*record.Fleet{}
	var order []int32
	used := map[int32]float64{}
	for i, x := range f.answer.Instances {
		w, m := f.worker[i], &f.model.Machines[x.Machine]
		k := offer(plan, f.offer(x))
		if x.Machine >= len(f.kept) {
			plan.Offers[k] = f.offer(x) // at the current price
		}
		if of[k] == nil {
			of[k] = &record.Fleet{Group: f.group, Offer: k}
			order = append(order, k)
		}
		billed, held := f.billed(x), x.To-x.From
		if x.Machine < len(f.kept) {
			plan.TaskUSD[w] += billed * m.USDPerHour
			plan.TaskHours[w] = max(plan.TaskHours[w], x.To)
		} else {
			plan.Choice[w], plan.TaskUSD[w], plan.TaskHours[w] = k, billed*m.USDPerHour, held
			if x.From > 0 {
				plan.From = append(plan.From, make([]float64, max(w+1-len(plan.From), 0))...)
				plan.From[w] = x.From
			}
		}
		fleet := of[k]
		fleet.Machines++
		fleet.USD += billed * m.USDPerHour
		fleet.Hours += billed
		used[k] += max(held, billed)
	}
	busy := map[int32][2]float64{}
	for n, i := range f.members {
		run := f.answer.Tasks[n]
		x := f.answer.Instances[run.On]
		m, w := &f.model.Machines[x.Machine], f.worker[run.On]
		k := plan.Choice[w]
		plan.Choice[i], plan.On[i] = k, int32(w) //nolint:gosec // at most as many as tasks
		plan.TaskHours[i] = run.To - run.From
		if sum[run.On] > 0 {
			plan.TaskUSD[i] = f.billed(x) * m.USDPerHour * weight[n] / sum[run.On]
		}
		of[k].Tasks++
		b := busy[k]
		b[0] += (run.To - run.From) * f.model.Tasks[n].CPUs / m.CPUs
		b[1] += (run.To - run.From) * f.model.Tasks[n].MemoryGiB / m.MemoryGiB
		busy[k] = b
	}
	for _, k := range order {
		if used[k] > 0 {
			of[k].Utilisation = min(max(busy[k][0], busy[k][1])/used[k], 1)
		}
		plan.Fleets = append(plan.Fleets, *of[k])
	}
}

// weights returns, for each member, its share of its machine multiplied by its hours, and the sums of these by
// instance.
func (f *fleet) weights() (weight, sum []float64) {
	weight, sum = make([]float64, len(f.members)), make([]float64, len(f.answer.Instances))
	for n := range f.members {
		run, t := f.answer.Tasks[n], &f.model.Tasks[n]
		m := &f.model.Machines[f.answer.Instances[run.On].Machine]
		weight[n] = max(t.CPUs/m.CPUs, t.MemoryGiB/m.MemoryGiB) * (run.To - run.From)
		sum[run.On] += weight[n]
	}
	return weight, sum
}

// sites returns the sets of offers to compare: all places, and if the members move data, the best single places.
func (f *fleet) sites(d demand) ([]site, error) {
	var least map[string]float64
	if f.movesData() {
		least = map[string]float64{}
	}
	found, why := f.matches(d, nil, least)
	if len(found) == 0 && len(f.kept) == 0 {
		return nil, &noFleetError{message: why}
	}
	all := []site{{found: found}}
	if least == nil || len(found) == 0 {
		return all, nil
	}
	type at struct {
		name string
		site site
		usd  float64
	}
	var places []at
	for name, usd := range least {
		s := f.external(f.b.number[name])
		places = append(places, at{name, s, usd + s.usd})
	}
	slices.SortFunc(places, func(x, y at) int { return cmp.Or(cmp.Compare(x.usd, y.usd), cmp.Compare(x.name, y.name)) })
	places = places[:min(len(places), fleetPlaces)]
	var names []string
	for _, p := range places {
		names = append(names, p.name)
	}
	found, _ = f.matches(d, names, nil)
	for _, p := range places {
		for _, m := range found {
			if m.Place() == p.name {
				p.site.found = append(p.site.found, m)
			}
		}
		all = append(all, p.site)
	}
	return all, nil
}

// movesData reports whether the members read or write data of a known size.
func (f *fleet) movesData() bool {
	in := &f.b.in
	for _, e := range in.Spec.Edges {
		_, from := f.index[e.From]
		if _, to := f.index[e.To]; (from || to) && e.Data > 0 {
			return true
		}
	}
	return slices.ContainsFunc(f.members, func(i int) bool {
		return outputSize(&in.Spec.Tasks[i]) > 0 ||
			slices.ContainsFunc(in.Spec.Tasks[i].Inputs, func(x dag.Input) bool { return x.Size > 0 })
	})
}

// external returns the cost of the data that the members in a place read from buckets and finished tasks and write to
// their store, and the longest time of one member for that.
func (f *fleet) external(place int) (s site) {
	b := f.b
	hours := map[int]float64{}
	for _, i := range f.members {
		t := &b.in.Spec.Tasks[i]
		for _, in := range t.Inputs {
			if from, ok := b.number[b.p.placeOf(in.URI)]; ok && in.Size > 0 {
				from = b.data.bucketAt(from)
				s.usd += float64(in.Size) * b.data.usd[from][place]
				hours[i] = max(hours[i], float64(in.Size)*b.data.hours[from][place])
			}
		}
		if b.data.store != nil {
			to, gib := b.data.store[place], float64(outputSize(t))
			s.usd += gib * b.market.usd[place][to]
			hours[i] += gib * b.hours[place][to]
		}
	}
	for _, e := range b.in.Spec.Edges {
		if _, to := f.index[e.To]; !to || e.Data <= 0 || !b.settled(e.From) {
			continue
		}
		if from, ok := b.number[b.in.Tasks[e.From].Place]; ok {
			s.usd += float64(e.Data) * b.data.usd[from][place]
			hours[e.To] = max(hours[e.To], float64(e.Data)*b.data.hours[from][place])
		}
	}
	for _, h := range hours {
		s.hours = max(s.hours, h)
	}
	return s
}
