package planner

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/optimizer"
)

// reservations is the reserved capacity of the account on which a job may be planned.
type reservations struct {
	all []*catalog.Reserved
	// places, CLOUD:REGION, of the reservations; nil if one covers all regions
	places []string
	free   map[*catalog.Reserved]apitypes.Amount     // capacity that other jobs do not hold
	own    map[*catalog.Reserved][]planinput.Holding // capacity that this job holds
	denied map[*catalog.Reserved]map[int]bool        // tasks that must not be planned on the reservation
}

// orderSteps limits the effort to find out which tasks of a job run one after another. Above the limit, all tasks are
// assumed to run at the same time.
const orderSteps = 20_000_000

// Reserves implements broker.Planner.
func (p *Planner) Reserves(context.Context) bool { return p.catalog.Load().Reserves() }

// reservations returns the catalogue's reservations that have not ended, or nil if there are none.
func (p *Planner) reservations(in planinput.Input) *reservations {
	known := p.catalog.Load().Reserved()
	if len(known) == 0 {
		return nil
	}
	r := &reservations{free: map[*catalog.Reserved]apitypes.Amount{}, own: map[*catalog.Reserved][]planinput.Holding{},
		denied: map[*catalog.Reserved]map[int]bool{}}
	everywhere := false
	for i := range known {
		k := &known[i]
		if !k.Until.IsZero() && !k.Until.After(in.Now) {
			continue
		}
		r.all, r.free[k], r.denied[k] = append(r.all, k), k.Has(), map[int]bool{}
		everywhere = everywhere || k.Region == ""
		if place := k.Cloud + ":" + k.Region; !slices.Contains(r.places, place) {
			r.places = append(r.places, place)
		}
		for _, h := range in.Held[record.ReservedID(k.Cloud, k.ID)] {
			if h.Job == in.Job && in.Job != "" {
				r.own[k] = append(r.own[k], h)
			} else {
				r.free[k] = r.free[k].Minus(h.Takes)
			}
		}
	}
	if everywhere {
		r.places = nil
	}
	return r
}

// allows reports whether a task with the given number of machines may be planned on the reservation of a match.
func (r *reservations) allows(task, machines int, m *match) bool {
	return m.takes.Times(machines).Within(r.free[m.reserved]) && !r.denied[m.reserved][task]
}

// reserved adds the offers of a query that use reserved capacity, at the marginal cost of using it. Other prices do
// not apply to them, and neither do blocks of the same offer without a reservation.
func (f *finder) reserved(q catalog.Query) error {
	own := f.b.reserved
	if own == nil || q.Market == catalog.Spot {
		return nil
	}
	if len(q.Regions) == 0 {
		q.Regions = own.places
	}
	q.Market, q.CheapestPer, q.MaxUSDPerHour = catalog.OnDemand, catalog.PerOffer, 0 // paid for already
	q.Keep = func(m *catalog.Match) bool {
		return slices.ContainsFunc(own.all, func(k *catalog.Reserved) bool { return k.Covers(&m.Offer) })
	}
	err := f.b.catalog.Visit(q, func(m *catalog.Match) bool {
		for _, k := range own.all {
			if k.Covers(&m.Offer) && f.timed(m) && f.b.keepAs(m, asReserved(m, k)) {
				f.addAs(m, ReservedOffer(m, k), k.USDPerHour+m.SurchargeUSD, k)
			}
		}
		return true
	})
	if errors.Is(err, catalog.ErrNoOffer) {
		return nil
	}
	return err
}

// ReservedOffer is the ID of a match on reserved capacity.
func ReservedOffer(m *catalog.Match, k *catalog.Reserved) string {
	return m.Offer.ID() + "/reserved@" + k.ID
}

// choice is a task that a plan puts on reserved capacity.
type choice struct {
	task  int
	takes apitypes.Amount
	saves float64 // USD, compared with the task's cheapest option elsewhere
}

// fits reports whether a plan stays within every reservation. If a reservation is exceeded, it excludes the tasks
// that save the least on it from it.
func (r *reservations) fits(b *builder, sol *optimizer.Solution) bool {
	if r == nil {
		return true
	}
	chosen := map[*catalog.Reserved][]choice{}
	for i, row := range b.rows {
		if row.options == nil {
			continue
		}
		o := row.options[sol.Picks[i]]
		if k := o.match.reserved; k != nil {
			chosen[k] = append(chosen[k], choice{row.task, o.match.takes.Times(o.nodes), saves(row, &o)})
		}
	}
	all := true
	for k, picks := range chosen {
		for _, c := range r.overcommitted(b, k, picks) {
			r.denied[k][c.task], all = true, false
		}
	}
	return all
}

// saves returns the amount in USD by which an option is cheaper than the row's cheapest option outside of the same
// reservation.
func saves(row row, o *option) float64 {
	other := math.Inf(1)
	for i := range row.options {
		if x := &row.options[i]; x.match.reserved != o.match.reserved {
			other = math.Min(other, x.USD)
		}
	}
	return other - o.USD
}

// overcommitted returns the choices that do not fit on a reservation. It accepts one task after the other. A task
// fits if it and the accepted tasks that may run at the same time take at most the whole reservation. This is correct
// for any set of tasks that run at once: when its last member was accepted, all other members were counted.
func (r *reservations) overcommitted(b *builder, k *catalog.Reserved, picks []choice) (out []choice) {
	var sum apitypes.Amount
	for _, h := range r.own[k] {
		sum = sum.Plus(h.Takes)
	}
	for _, c := range picks {
		sum = sum.Plus(c.takes)
	}
	if sum.Within(r.free[k]) {
		return nil
	}
	slices.SortFunc(picks, func(x, y choice) int {
		return cmp.Or(cmp.Compare(y.saves, x.saves), cmp.Compare(x.task, y.task))
	})
	var taken []choice
	for _, h := range r.own[k] {
		taken = append(taken, choice{task: h.Task, takes: h.Takes})
	}
	order := r.order(b, len(taken)+len(picks))
	for _, c := range picks {
		at := c.takes
		for _, t := range taken {
			if !order.apart(c.task, t.task) {
				at = at.Plus(t.takes)
			}
		}
		if !at.Within(r.free[k]) {
			out = append(out, c)
		} else {
			taken = append(taken, c)
		}
	}
	return out
}

// precedence states which tasks of a job cannot run at the same time.
type precedence struct {
	children map[int][]int
	after    map[int]map[int]bool // cache: all tasks that come after a task
}

// order returns the precedence of a job's tasks. It returns an empty one if that would take too long.
func (r *reservations) order(b *builder, asked int) *precedence {
	p := &precedence{children: map[int][]int{}, after: map[int]map[int]bool{}}
	if asked*(len(b.in.Spec.Edges)+1) > orderSteps {
		return p
	}
	for _, e := range b.in.Spec.Edges {
		p.children[e.From] = append(p.children[e.From], e.To)
	}
	return p
}

// apart reports whether one of two tasks starts only after the other has finished. A task is not apart from itself,
// because it may be moving between machines.
func (p *precedence) apart(x, y int) bool { return p.followers(x)[y] || p.followers(y)[x] }

func (p *precedence) followers(task int) map[int]bool {
	if known, ok := p.after[task]; ok {
		return known
	}
	seen, next := map[int]bool{}, slices.Clone(p.children[task])
	for len(next) > 0 {
		t := next[len(next)-1]
		next = next[:len(next)-1]
		if !seen[t] {
			seen[t] = true
			next = append(next, p.children[t]...)
		}
	}
	p.after[task] = seen
	return seen
}

// proven reports whether a plan reaches its proven bound.
func proven(plan *record.Plan) bool {
	return plan.Objective <= plan.Bound+1e-9*math.Abs(plan.Objective)
}

// asReserved returns the offer of a match on reserved capacity, to compare it with blocks.
func asReserved(m *catalog.Match, k *catalog.Reserved) apitypes.Offer {
	o := offerOf(m)
	o.Reservation = k.ID
	return o
}
