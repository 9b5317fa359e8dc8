package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// MeasureOptions configures Measure.
type MeasureOptions struct {
	// Planner makes the plans, on the offers of weather.Catalogue.
	Planner broker.Planner
	// Boots are measured boot times to draw from, instead of 15 to 100 s.
	Boots *hardware.Boots
	// Preempted is the mean time until a spot machine is preempted; 0 means never.
	Preempted time.Duration
	// Within is the maximum time for the job.
	Within time.Duration
}

// Measured has the cost and time of one job, and those of its first plan.
type Measured struct {
	Seed         uint64  `json:"seed"`
	PlannedUSD   float64 `json:"plannedUSD"`
	USD          float64 `json:"usd"` // the real cost of its machines, with their disks and addresses
	PlannedHours float64 `json:"plannedHours"`
	Hours        float64 `json:"hours"`
	Machines     int     `json:"machines"`
	Preempted    int     `json:"preempted"`
}

// errNotDone means that a measured job did not succeed in time.
var errNotDone = errors.New("the job did not succeed")

// Measure runs one job in a world in which only spot machines fail. Each step takes as long as on a real cloud: boot
// times vary, a launch takes seconds, and staging takes up to two seconds. Tasks take exactly their estimated time.
func Measure(seed uint64, job *dag.Job, o MeasureOptions) (Measured, error) {
	first := &firstPlan{Planner: o.Planner}
	w := newWorld(seed, Options{Keep: 1, Planner: first, Boots: o.Boots, steady: true, usual: true},
		weather.Faults{Taken: o.Preempted})
	defer w.end()
	w.engine.begin()
	j := w.users.plan(job)
	w.users.submit(j)
	w.Until(w.Now.Add(o.Within), w.check.AllOver)
	if w.Violation != nil {
		return Measured{}, w.Violation
	}
	s := w.check.Named(job.Name)
	if s == nil || s.Record.State != apitypes.JobSucceeded {
		return Measured{}, fmt.Errorf("seed %d: %w within %v", seed, errNotDone, o.Within)
	}
	end := w.Since()
	w.Until(w.Now.Add(calm), w.check.AtRest) // its last machines end
	m := Measured{Seed: seed, PlannedUSD: first.plan.USD, PlannedHours: first.plan.Hours, USD: w.check.Bill(s),
		Hours: end.Hours(), Preempted: w.Counts["spot machine taken"]}
	disk := cmp.Or(job.Tasks[0].DiskGiB(), cloud.DefaultDiskGiB)
	for x := range w.Machines() {
		switch {
		case x.Cloud == apitypes.PoolCloud:
			continue
		case x.Offer.Spot: // a price on demand has them already
			billed := hardware.BillingOf(x.Cloud).Billed(x.Ended.Sub(x.Launched))
			m.USD += billed.Hours() * catalog.AttachedUSD(x.Cloud, disk, catalog.Spot)
		}
		m.Machines++
	}
	return m, nil
}

// firstPlan keeps the first plan.
type firstPlan struct {
	broker.Planner
	plan *record.Plan
}

// Plan implements broker.Planner.
func (p *firstPlan) Plan(ctx context.Context, in planinput.Input) (*record.Plan, error) {
	plan, err := p.Planner.Plan(ctx, in)
	if p.plan == nil && err == nil {
		p.plan = plan
	}
	return plan, err
}

// pace has the minimum and maximum times of a machine's steps.
type pace struct {
	launch, begin, stage, save [2]time.Duration // begin: an agent on a worker
}

// The pace of machines: at its worst, and as usual.
var (
	worstPace = pace{
		launch: [2]time.Duration{500 * time.Millisecond, 40 * time.Second},
		begin:  [2]time.Duration{100 * time.Millisecond, 3 * time.Second},
		stage:  [2]time.Duration{time.Second, 2 * time.Minute},
		save:   [2]time.Duration{time.Second, 15 * time.Second},
	}
	usualPace = pace{
		launch: [2]time.Duration{500 * time.Millisecond, 4 * time.Second},
		begin:  [2]time.Duration{20 * time.Millisecond, 200 * time.Millisecond},
		stage:  [2]time.Duration{50 * time.Millisecond, 2 * time.Second},
		save:   [2]time.Duration{50 * time.Millisecond, time.Second},
	}
)

func spread(r timeline.Random, d [2]time.Duration) time.Duration { return r.Spread(d[0], d[1]) }
