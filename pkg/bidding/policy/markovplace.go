package policy

import (
	"context"
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// stepsMost bounds the steps of a table to the deadline.
const stepsMost = 1440

// restartSteps is into how many steps of a table a start is cut.
const restartSteps = 4

// slackSteps is into how many steps of a table the slack is cut at most.
const slackSteps = 200

// relearnPlace is after how many hours MarkovPlace learns the zones anew.
const relearnPlace = 24.0

// MarkovPlace is ours where there is nothing to bid: the recursion over the chain of a zone's availability, which tells
// short outages from long ones, with waiting, spot and on demand as actions and a start to pay for every change. In
// several zones the chain is that of the zones together, and of those that have machines it takes the one that is
// expected to keep them longest.
type MarkovPlace struct {
	ctx     context.Context
	learned float64 // time left when it was learned
	step    float64 // hours
	table   *bidding.Table
}

// NewMarkovPlace makes a chooser for one run.
func NewMarkovPlace(ctx context.Context) *MarkovPlace {
	return &MarkovPlace{ctx: ctx, learned: math.Inf(1)}
}

// Choose takes what is expected to cost least to the end.
func (p *MarkovPlace) Choose(v View) (Place, error) {
	if v.mustLeave() {
		return Place{On: bidding.OnDemand}, nil
	}
	if p.learned-v.Left >= relearnPlace || p.table == nil {
		if err := p.learn(v); err != nil {
			return Place{}, err
		}
	}
	up, age, _ := v.Zones.Any.Now()
	q := market.State(up, age)
	// Each way is weighed as if it were kept for a step of the table: compared over less, a step on spot would seem to
	// bear the risk of a whole one.
	v.Step = min(max(v.Step, p.step), v.Left)
	left := v.Left - v.Step
	rest := func(work float64, on bidding.Holding) float64 {
		return p.table.CostAt(work/p.step, left/p.step, q, on)
	}
	best, least := Place{}, rest(v.Work, bidding.OnNothing)
	if z := p.zone(v); z >= 0 {
		usd := v.SpotUSD*v.Step + rest(p.after(v, bidding.OnSpot, z), bidding.OnSpot)
		if usd < least {
			best, least = Place{On: bidding.OnSpot, Zone: z}, usd
		}
	}
	if usd := v.OnDemandUSD*v.Step + rest(p.after(v, bidding.OnDemand, 0), bidding.OnDemand); usd < least-1e-9 {
		best = Place{On: bidding.OnDemand}
	}
	return best, nil
}

// zone is where spot would be: where it is held, else where it is steadiest.
func (p *MarkovPlace) zone(v View) int {
	if v.On == bidding.OnSpot && v.Up[v.Zone] {
		return v.Zone
	}
	return v.Zones.steadiest(v.Up)
}

// after is the work left after this step on something, with what is still to go of its start.
func (p *MarkovPlace) after(v View, on bidding.Holding, zone int) float64 {
	start := v.Changeover
	if on == v.On && (on == bidding.OnDemand || zone == v.Zone) {
		start = v.Starting
	}
	return max(v.Work+start-v.Step, 0)
}

func (p *MarkovPlace) learn(v View) (err error) {
	p.learned = v.Left
	p.step = max(v.Changeover/restartSteps, v.Step, (v.Left-v.Work)/slackSteps, v.Left/stepsMost)
	// Rounded up, so that no value is asked for that the table does not hold.
	work, slack := int(math.Ceil((v.Work+v.Changeover)/p.step)), int(math.Ceil((v.Left-v.Work)/p.step))+1
	m := bidding.AvailabilityModel(&v.Zones.Any, v.SpotUSD, v.OnDemandUSD, hours(p.step), hours(v.Changeover))
	if len(v.Zones.Each) > 1 {
		m = bidding.WithMoves(m, v.Zones.moves(), hours(p.step))
	}
	p.table, err = bidding.BuildRun(p.ctx, m, work, work+slack)
	return err
}

func hours(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }
