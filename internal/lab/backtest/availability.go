package backtest

import (
	"context"
	"fmt"
	"math"
	"path"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tradewind-broker/tradewind/internal/bidding/policy"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// AvailabilityOptions configures Availability. Times are hours. An on-demand hour costs 1 USD, so costs are in
// on-demand hours.
type AvailabilityOptions struct {
	Work, Deadline float64
	Changeover     float64 // time of every start, paid and without progress
	SpotRatio      float64 // spot price as a share of the on-demand price
	Every          float64 // hours between starts of runs
	Together       bool    // treat the traces of a folder as zones of one run
	Nodes          int     // machines needed at the same time; 0 means 1
	Policies       []string
	// Informed makes our own policy learn from the whole trace beforehand. This shows how much of the gap to the
	// clairvoyant no such chain can close.
	Informed bool
}

func (o *AvailabilityOptions) check() error {
	const year = 24 * 365
	switch {
	case !(o.Work > 0) || o.Work > year:
		return fmt.Errorf("%w: the work must be more than zero and at most a year", ErrBadRequest)
	case !(o.Changeover >= 0):
		return fmt.Errorf("%w: a changeover must not be negative", ErrBadRequest)
	case !(o.Deadline >= o.Work+o.Changeover):
		return fmt.Errorf("%w: the deadline must leave time for the work and a start: at least %.4gh", ErrBadRequest,
			o.Work+o.Changeover)
	case o.Deadline > year:
		return fmt.Errorf("%w: the deadline must be within a year", ErrBadRequest)
	case !(o.SpotRatio > 0 && o.SpotRatio <= 1):
		return fmt.Errorf("%w: the spot price must be more than zero and at most the on-demand price", ErrBadRequest)
	case !(o.Every > 0):
		return fmt.Errorf("%w: the time between starts must be more than zero", ErrBadRequest)
	}
	return nil
}

// Availability replays one task on each trace, or on the traces of each folder together, with starts at fixed
// intervals. Errors wrap ErrBadRequest, or are the context's.
func Availability(ctx context.Context, traces []*market.Trace, o AvailabilityOptions) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	names, err := choose(o.Policies)
	if err != nil {
		return nil, err
	}
	groups := separate(traces)
	if o.Together {
		groups = together(traces)
	}
	all := make([]sums, len(groups))
	titles := make([]string, len(groups))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, traces := range groups {
		titles[i] = traces[0].Name
		if o.Together {
			titles[i] = path.Dir(traces[0].Name)
		}
		g.Go(func() (err error) {
			all[i], err = availabilityGroup(ctx, newZones(traces, o.Nodes), siblings(groups, traces, o), o, names)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return report(titles, all)
}

func separate(traces []*market.Trace) (groups [][]*market.Trace) {
	for _, t := range traces {
		groups = append(groups, []*market.Trace{t})
	}
	return groups
}

// together groups traces by folder and gap, because only these were recorded at the same time.
func together(traces []*market.Trace) (groups [][]*market.Trace) {
	type key struct {
		folder string
		gap    time.Duration
	}
	at := map[key]int{}
	for _, t := range traces {
		k := key{path.Dir(t.Name), t.Gap}
		i, known := at[k]
		if !known {
			i = len(groups)
			at[k], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	return groups
}

// zones are parallel traces. The shortest determines their length.
type zones struct {
	gap time.Duration
	up  [][]bool // [zone][step]
}

func newZones(traces []*market.Trace, nodes int) *zones {
	z := &zones{gap: traces[0].Gap}
	for _, t := range traces {
		z.up = append(z.up, t.Up(nodes))
	}
	return z
}

func (z *zones) steps() int {
	n := len(z.up[0])
	for _, up := range z.up {
		n = min(n, len(up))
	}
	return n
}

// learningHalfLife is the observed time after which an observation of a zone counts half.
const learningHalfLife = 60 * 24 * time.Hour

// siblings returns, for a trace that is replayed alone, the other traces recorded at the same time.
func siblings(groups [][]*market.Trace, of []*market.Trace, o AvailabilityOptions) (out []*zones) {
	if o.Together {
		return nil
	}
	for _, g := range together(slices.Concat(groups...)) {
		if !slices.Contains(g, of[0]) {
			continue
		}
		for _, t := range g {
			if t != of[0] {
				out = append(out, newZones([]*market.Trace{t}, o.Nodes))
			}
		}
	}
	return out
}

// watch adds the steps from one to another to the observations of the zones.
func (z *zones) watch(learned *policy.Zones, from, to int) {
	up := make([]bool, len(z.up))
	for step := from; step < min(to, z.steps()); step++ {
		learned.Observe(z.at(step, up), z.gap)
	}
}

// availabilityGroup replays one group of zones. Its kin are used only for learning, up to the start of each run.
func availabilityGroup(ctx context.Context, z *zones, kin []*zones, o AvailabilityOptions,
	names []string) (sums, error) {
	gap := z.gap.Hours()
	length := int(math.Ceil(o.Deadline/gap - 1e-9))
	every := max(int(o.Every/gap+0.5), 1)
	learned := policy.NewZones(len(z.up), learningHalfLife)
	others := make([]*policy.Zones, len(kin))
	for k := range kin {
		others[k] = policy.NewZones(1, learningHalfLife)
		learned.Any.Kin = append(learned.Any.Kin, &others[k].Any)
	}
	if o.Informed {
		z.watch(learned, 0, z.steps())
	}
	s := sums{}
	for start, before := 0, 0; start+length <= z.steps(); before, start = start, start+every {
		if !o.Informed {
			z.watch(learned, before, start)
		}
		for k := range kin {
			kin[k].watch(others[k], before, start)
		}
		run := map[string]outcome{}
		for _, name := range names {
			if name == Clairvoyant {
				run[name] = outcome{usd: optimalAvailabilityCost(z, start, length, o)}
				continue
			}
			var err error
			if name == UniformProgress && len(z.up) > 1 {
				run[UniformProgressZones], err = replayAvailability(chooser(ctx, name, o), z, start, length, o, learned)
				if err == nil {
					run[name], err = eachZone(ctx, name, z, start, length, o)
				}
			} else {
				run[name], err = replayAvailability(chooser(ctx, name, o), z, start, length, o, learned)
			}
			if err != nil {
				return nil, err
			}
		}
		s.add(run)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// eachZone returns the mean of runs that each stay in one zone: the result of a single-zone policy in a random zone.
func eachZone(ctx context.Context, name string, z *zones, start, length int,
	o AvailabilityOptions) (mean outcome, err error) {
	n := float64(len(z.up))
	for k := range z.up {
		one := &zones{gap: z.gap, up: z.up[k : k+1]}
		got, err := replayAvailability(chooser(ctx, name, o), one, start, length, o,
			policy.NewZones(1, learningHalfLife))
		if err != nil {
			return mean, err
		}
		mean.usd += got.usd / n
		mean.missed = mean.missed || got.missed
		mean.interruptions += got.interruptions
	}
	return mean, nil
}

// at stores in up which zones have machines in a step.
func (z *zones) at(step int, up []bool) []bool {
	for k := range z.up {
		up[k] = z.up[k][step]
	}
	return up
}

// chooser returns the chooser of a policy for one run.
func chooser(ctx context.Context, name string, o AvailabilityOptions) policy.Chooser {
	switch name {
	case OnDemand:
		return policy.OnDemandPlace{}
	case Spot:
		return policy.SpotPlace{}
	case Greedy, AIB:
		return &policy.GreedyPlace{}
	case UniformProgress:
		return &policy.UniformPlace{Work: o.Work, Deadline: o.Deadline}
	case BFRC:
		return policy.NewPlainPlace(ctx, o.Work, o.Deadline)
	default:
		return policy.NewMarkovPlace(ctx)
	}
}

// replayAvailability runs one task from a start until it finishes or reaches its deadline.
func replayAvailability(c policy.Chooser, z *zones, start, length int, o AvailabilityOptions,
	history *policy.Zones) (outcome, error) {
	var out outcome
	gap := z.gap.Hours()
	v := policy.View{
		Work: o.Work, Changeover: o.Changeover, SpotUSD: o.SpotRatio, OnDemandUSD: 1,
		Up: make([]bool, len(z.up)), Zones: history.Clone(),
	}
	for i := range length {
		if v.Work <= 1e-9 {
			break
		}
		v.Left = o.Deadline - float64(i)*gap
		v.Step = min(gap, v.Left) // the last step ends with the deadline
		v.Zones.Observe(z.at(start+i, v.Up), z.gap)
		if v.On == bidding.OnSpot && !v.Up[v.Zone] {
			v.On, v.Starting = bidding.OnNothing, 0
			out.interruptions++
		}
		place, err := c.Choose(v)
		if err != nil {
			return out, err
		}
		if place.On == bidding.OnSpot && !v.Up[place.Zone] {
			return out, fmt.Errorf("the policy chose spot in zone %d, which has no machines", place.Zone)
		}
		out.usd += advance(&v, place)
	}
	out.missed = v.Work > 1e-9
	return out, nil
}

// advance simulates one step on the chosen place and returns its cost. The rest of a start comes first, then work
// until none is left.
func advance(v *policy.View, to policy.Place) (usd float64) {
	if to.On != v.On || to.On == bidding.OnSpot && to.Zone != v.Zone {
		v.Starting = v.Changeover
		if to.On == bidding.OnNothing {
			v.Starting = 0
		}
	}
	v.On, v.Zone = to.On, to.Zone
	rate := 0.0
	switch to.On {
	case bidding.OnSpot:
		rate = v.SpotUSD
	case bidding.OnDemand:
		rate = v.OnDemandUSD
	default:
		return 0
	}
	used := min(v.Step, v.Starting+v.Work)
	lost := min(v.Starting, used)
	v.Starting -= lost
	v.Work -= used - lost
	return used * rate
}
