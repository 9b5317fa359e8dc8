package reproduce

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/native"
)

// newPlanner returns the broker's planner on the whole catalogue. It buys the given managed services.
func newPlanner(services ...string) (*planner.Planner, error) {
	c, err := catalog.Default()
	if err != nil {
		return nil, err
	}
	moves, err := egress.Default()
	if err != nil {
		return nil, err
	}
	o := planner.DefaultOptions()
	o.Now = nil // the same input gives the same plan
	o.Services = map[string]bool{}
	for _, name := range services {
		o.Services[name] = true
	}
	return planner.New(c, moves, o), nil
}

// broker looks for a place for a job of one task. It has the broker's planner, the places that are blocked after
// failures, and the interruptions of each spot market.
type broker struct {
	planner *planner.Planner
	spec    *dag.Job
	config  config.Config
	blocks  []apitypes.Block
	markets map[string]record.MarketRecord
}

func newBroker(job string) (*broker, error) {
	p, err := newPlanner()
	if err != nil {
		return nil, err
	}
	spec, err := native.Parse("job.yaml", []byte(job))
	if err != nil {
		return nil, err
	}
	return &broker{planner: p, spec: spec, config: config.Default(), markets: map[string]record.MarketRecord{}}, nil
}

// next plans the job without the blocked places. ok is false if every place is blocked.
func (b *broker) next(ctx context.Context, now time.Time) (o *record.Planned, ok bool, err error) {
	plan, err := b.planner.Plan(ctx, planinput.Input{Spec: b.spec, Now: now, Blocks: b.blocks, Markets: b.markets})
	if err != nil || plan.Status == record.PlanInfeasible {
		return nil, false, err
	}
	return plan.Of(0), true, nil
}

// block blocks a place that refused or took machines, for as long as the broker does.
func (b *broker) block(o apitypes.Offer, now time.Time) {
	k := attempt.TakenBlock(o, b.config, b.blocks, now)
	b.blocks = append(slices.DeleteFunc(b.blocks, func(old apitypes.Block) bool {
		return record.BlockKey(old) == record.BlockKey(k)
	}), k)
}

// saw records machine hours and interruptions of a spot market.
func (b *broker) saw(o *record.Planned, hours float64, preemptions int) {
	id := strings.TrimSuffix(o.ID, "/"+string(catalog.Spot))
	m := b.markets[id]
	m.Offer = id
	m.Hours += hours
	m.Preemptions += preemptions
	b.markets[id] = m
}

// opens returns when the first block ends.
func (b *broker) opens(now time.Time) (first time.Time) {
	for _, k := range b.blocks {
		if k.Until.After(now) && (first.IsZero() || k.Until.Before(first)) {
			first = k.Until
		}
	}
	return first
}

// errNowhere means that no place sells what a job needs.
var errNowhere = errors.New("no place of the catalogue sells what the job needs")

// find looks for a place for the job, and returns the number of attempts and how long they took. A place that has no
// room is blocked, and the job is planned again. If all places are blocked, the broker waits for the first.
func (b *broker) find(ctx context.Context, began time.Time, room func(o *record.Planned, at time.Time) bool) (
	attempts int, took time.Duration, err error) {
	for now := began; ; {
		o, ok, err := b.next(ctx, now)
		if err != nil {
			return 0, 0, err
		}
		if !ok {
			if now = b.opens(now); now.IsZero() {
				return 0, 0, errNowhere
			}
			continue
		}
		attempts++
		if room(o, now) {
			return attempts, now.Sub(began), nil
		}
		b.block(o.Offer, now)
	}
}
