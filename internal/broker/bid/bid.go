package bid

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Input is the data from which Decide makes bids.
type Input struct {
	Job     record.Job
	Spec    *dag.Job
	Plan    *record.Plan
	Markets []record.MarketRecord // indexed like the plan's offers
	Tasks   []record.Task         // tasks that have been ready, by index
	Restart time.Duration
	Tick    time.Duration
	Now     time.Time
}

// maxTables is the maximum number of tables of a job. Further tasks have no table: only the deadline makes them
// leave.
const maxTables = 32

// Decide bids the on-demand price for each spot task. With this bid, a cloud takes a machine only if it needs the
// machine. With a lower bid, it could also take the machine when the price rises, without the notice that a task gets
// if the broker makes it leave. The task's table states when spot is no longer worth its price, given the remaining
// work and time (WCSSI, equation 8, with on-demand as the alternative). FinishBy is the time at which the task must
// leave spot for its deadline.
func Decide(ctx context.Context, in Input) (bids record.Bids, err error) {
	n := len(in.Plan.Choice)
	bids = record.Bids{Plan: in.Plan.Version, Table: make([]int32, n), USD: make([]float64, len(in.Markets))}
	for i := range in.Markets {
		bids.USD[i] = in.Markets[i].USD
	}
	if !in.Job.Deadline.IsZero() {
		_, bids.FinishBy = in.backward(func(i int) time.Duration { return record.Duration(in.Plan.TaskHours[i]) })
	}
	var tables sharedTables[*bidding.Worth]
	for i := range n {
		bids.Table[i] = -1
		c := in.Plan.Of(i)
		// the bid for a shared machine is made for its worker task
		if c == nil || !c.Offer.Spot || in.Plan.IsShared(i) {
			continue
		}
		live, ok := in.liveInput(i, bids.FinishBy)
		if !ok {
			continue
		}
		// Tasks whose work and remaining time agree to two digits share a table.
		key := fmt.Sprintf("%s %.2g %.2g %.2g", c.ID, live.Work, live.Left, live.Restart)
		bids.Table[i], err = tables.indexOf(key, func() (*bidding.Worth, error) { return bidding.NewWorth(ctx, live) })
		if err != nil {
			return bids, fmt.Errorf("broker: table of task %s: %w", in.Spec.Tasks[i].Name, err)
		}
	}
	bids.Tables = tables.made
	bids.Begin, bids.Begins, err = in.Waits(ctx)
	return bids, err
}

// liveInput returns the input of a spot task's table. ok is false if the task has no alternative, or its prices are
// unknown.
func (in *Input) liveInput(i int, by []time.Time) (l bidding.LiveTask, ok bool) {
	t, c := &in.Spec.Tasks[i], in.Plan.Of(i)
	work := record.Hours(record.TimeOn(t, c.Offer))
	if work <= 0 || !(c.Offer.USDPerHour > 0) || !(c.OnDemandUSD > 0) || !record.OnDemandAllowed(t) ||
		!t.Resumes() {
		return l, false
	}
	left := work * record.UndatedStretch
	if by != nil {
		left = max(record.Hours(by[i].Sub(in.Now)), work)
	}
	lost := work
	if t.Checkpoint != nil && t.Checkpoint.Every > 0 {
		lost = min(record.Hours(t.Checkpoint.Every), work)
	}
	// The alternative is the cheapest on-demand offer, in any place.
	other := c.OnDemandUSD
	if i < len(in.Plan.TaskOnDemandUSD) && in.Plan.TaskOnDemandUSD[i] > 0 {
		other = in.Plan.TaskOnDemandUSD[i]
	}
	m := in.Markets[in.Plan.Choice[i]]
	// A market's price excludes the surcharge, so the alternative's price must exclude it, too.
	usd := c.Offer.USDPerHour - c.SurchargeUSD
	if m.USD > 0 {
		usd = m.USD
	}
	return bidding.LiveTask{
		Prices: &m.Prices, USD: usd, OnDemandUSD: other - c.SurchargeUSD, Work: work, Left: left,
		LossesPerHour: c.LossesPerHour * float64(record.NodesOn(t, c)), Restart: record.Hours(in.Restart) + lost/2,
	}, true
}

// backward walks the DAG from its sinks. For each task it returns the latest start, given the time that the task
// needs, and the time by which the task must finish: the earliest of its children's latest starts.
func (in *Input) backward(needs func(task int) time.Duration) (beginBy, finishBy []time.Time) {
	n := len(in.Plan.Choice)
	beginBy, finishBy = make([]time.Time, n), make([]time.Time, n)
	g := in.Spec.Graph()
	for _, i := range slices.Backward(in.Spec.Order()) {
		finishBy[i] = in.Job.Deadline
		for _, c := range g.Children(i) {
			if beginBy[c].Before(finishBy[i]) {
				finishBy[i] = beginBy[c]
			}
		}
		beginBy[i] = finishBy[i].Add(-needs(i))
	}
	return beginBy, finishBy
}

// sharedTables has tables that similar tasks share. The key of a table is made from the properties in which the tasks
// agree.
type sharedTables[T any] struct {
	made []T
	at   map[string]int32
}

// indexOf returns the index of the table with a key. It makes the table if it does not exist, and returns −1 if there
// are too many.
func (s *sharedTables[T]) indexOf(key string, make func() (T, error)) (int32, error) {
	if at, known := s.at[key]; known {
		return at, nil
	}
	if len(s.made) == maxTables {
		return -1, nil
	}
	t, err := make()
	if err != nil {
		return -1, err
	}
	if s.at == nil {
		s.at = map[string]int32{}
	}
	at := int32(len(s.made)) //nolint:gosec // at most tablesMost
	s.made, s.at[key] = append(s.made, t), at
	return at, nil
}
