package policy

import (
	"context"
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/market"
)

// maxSteps is the maximum number of steps of a table.
const maxSteps = 1440

// restartSteps is the number of steps into which a table divides a start.
const restartSteps = 4

// slackSteps is the maximum number of steps into which a table divides the slack.
const slackSteps = 200

// relearnPlace is the number of hours after which MarkovPlace learns the zones again.
const relearnPlace = 24.0

// MarkovPlace is our own policy for markets without bids: the recursion over the chain of a zone's availability,
// which distinguishes short from long outages. Its actions are waiting, spot and on-demand, and every change pays for
// a start. With several zones the chain is that of all zones together, and the policy uses the available zone that is
// expected to keep its machines longest.
type MarkovPlace struct {
	ctx     context.Context
	learned float64 // time left when the chain was learned
	step    float64 // hours
	table   *bidding.Table
}

// NewMarkovPlace returns a chooser for one run.
func NewMarkovPlace(ctx context.Context) *MarkovPlace {
	return &MarkovPlace{ctx: ctx, learned: math.Inf(1)}
}

// Choose returns the place with the lowest expected cost to the end.
func (p *MarkovPlace) Choose(v View) (Place, error) {
	if v.pointOfNoReturn() {
		return Place{On: bidding.OnDemand}, nil
	}
	if p.learned-v.Left >= relearnPlace || p.table == nil {
		if err := p.learn(v); err != nil {
			return Place{}, err
		}
	}
	up, age, _ := v.Zones.Any.Now()
	q := market.State(up, age)
	// Each alternative is compared over a whole step of the table. Over a shorter time, a step on spot would seem to
	// carry the risk of a whole step.
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

// zone returns the zone to use for spot: the current one if it has machines, otherwise the steadiest.
func (p *MarkovPlace) zone(v View) int {
	if v.On == bidding.OnSpot && v.Up[v.Zone] {
		return v.Zone
	}
	return v.Zones.steadiest(v.Up)
}

// after returns the work, in hours, that remains after this step if it is spent in the given place. It includes the
// remaining start-up time.
func (p *MarkovPlace) after(v View, on bidding.Holding, zone int) float64 {
	start := v.Changeover
	if on == v.On && (on == bidding.OnDemand || zone == v.Zone) {
		start = v.Starting
	}
	return max(v.Work+start-v.Step, 0)
}

func (p *MarkovPlace) learn(v View) (err error) {
	p.learned = v.Left
	p.step = max(v.Changeover/restartSteps, v.Step, (v.Left-v.Work)/slackSteps, v.Left/maxSteps)
	// Rounded up, so that the table holds every value that is looked up.
	work, slack := int(math.Ceil((v.Work+v.Changeover)/p.step)), int(math.Ceil((v.Left-v.Work)/p.step))+1
	m := bidding.AvailabilityModel(&v.Zones.Any, v.SpotUSD, v.OnDemandUSD, hours(p.step), hours(v.Changeover))
	if len(v.Zones.Each) > 1 {
		m = bidding.WithMoves(m, v.Zones.moves(), hours(p.step))
	}
	p.table, err = bidding.BuildRun(p.ctx, m, work, work+slack)
	return err
}

func hours(h float64) time.Duration { return time.Duration(h * float64(time.Hour)) }
