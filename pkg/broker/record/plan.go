package record

import (
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// UndatedStretch is how many times its work a task without a deadline is given in its table.
const UndatedStretch = 3.0

// Rounded shortens a duration to what people read.
func Rounded(d time.Duration) time.Duration {
	switch {
	case d > time.Hour:
		return d.Round(time.Minute)
	case d > time.Minute:
		return d.Round(time.Second)
	default:
		return d.Round(time.Millisecond)
	}
}

// OnDemandAllowed says whether the author lets a task run on demand.
func OnDemandAllowed(t *dag.Task) bool {
	return len(t.Resources) == 0 || slices.ContainsFunc(t.Resources, func(r dag.Resources) bool {
		return r.Market != dag.MarketSpot
	})
}

// PlanInfeasible is the status of a Plan that says why there is none.
const PlanInfeasible = "infeasible"

// Left computes what remains of the deadline and the budget.
func (in *PlanInput) Left(job Job, ledger Ledger, clusters []Cluster, overhead time.Duration) {
	if !job.Deadline.IsZero() {
		h := math.Max(Hours(job.Deadline.Sub(in.Now)), 0)
		in.DeadlineHours = &h
	}
	if job.BudgetUSD > 0 {
		usd := job.BudgetUSD - ledger.SpentUSD - ledger.ReservedUSD
		for i := range clusters {
			usd += clusters[i].ReservedUSD - clusters[i].expected(overhead, in.Now)
		}
		usd = math.Max(usd, 0)
		in.BudgetUSD = &usd
	}
}

// Head is the story of the plan without its choices.
func (p *Plan) Head() apitypes.PlanHead {
	return apitypes.PlanHead{
		Version: p.Version, At: p.At, Reason: p.Reason, Status: p.Status, Message: p.Message, USD: p.USD,
		Hours:     p.Hours,
		Objective: p.Objective, Bound: p.Bound, OnDemandUSD: p.OnDemandUSD, Late: p.Late, Millis: p.Millis,
	}
}

// PlanInput is all that a plan depends on.
type PlanInput struct {
	Job  string // its ID; empty of one that is not submitted
	Spec *dag.Job
	Now  time.Time
	// DeadlineHours and BudgetUSD are what is left of both; nil is no bound.
	DeadlineHours *float64
	BudgetUSD     *float64
	// Tasks has what is known of each task by index; nil for one that was never ready.
	Tasks []*TaskFacts
	// Blocks are the locations not to try now.
	Blocks []apitypes.Block
	// Markets are what was learned of spot offers, by offer ID without the market.
	Markets map[string]MarketRecord
	// Held is who runs on reserved capacity now, by ReservedID.
	Held map[string][]Holding
	// Stood is who stands where, as far as rules of placement of the job, or of others, know of both.
	Stood []Placed
	// Previous is the plan in force, nil for the first one.
	Previous *Plan
}

// TaskFacts is what the past fixes of a task.
type TaskFacts struct {
	// Done tasks have their outputs at Place; Fixed ones hold capacity at Place and need Hours more.
	Done, Fixed bool
	Place       string
	Hours       float64
	// Progress is the share of the work that a checkpoint has saved, of the rest.
	Progress float64
	// OnDemand tasks have left spot for good: nothing else keeps the deadline.
	OnDemand bool
}

// Plan says where each task of a job runs.
type Plan struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"` // of a replan
	Status  string    `json:"status"`           // optimal, feasible, infeasible
	Message string    `json:"message,omitempty"`
	// USD, Hours and Bound are expectations of the unfinished part.
	USD       float64 `json:"usd"`
	Hours     float64 `json:"hours"`
	Objective float64 `json:"objective"`
	Bound     float64 `json:"bound"`
	// OnDemandUSD is what the same work would cost on demand at its cheapest, with what it would move, as USD has: in
	// the plan's regions, or each task where it is cheapest. Where time counts it is no slower than the plan.
	OnDemandUSD float64 `json:"onDemandUSD"`
	// KeepUSD is what keeping what its tasks leave costs, USD a month, for as long as it is kept. USD has none of it.
	KeepUSD float64 `json:"keepUSDPerMonth,omitempty"`
	// Late says that the deadline can no longer be kept: the plan is the fastest there is.
	Late bool `json:"late,omitempty"`
	// Offers are the distinct choices; Choice has an index into them for each task, -1 for one that needs none.
	Offers []Planned `json:"offers"`
	Choice []int32   `json:"choice"`
	// TaskUSD and TaskHours are the expectations of each task at its choice.
	TaskUSD   []float64 `json:"taskUSD"`
	TaskHours []float64 `json:"taskHours"`
	// TaskOnDemandUSD is, for a task on spot, what an hour of its work there costs on demand where that is cheapest,
	// per machine.
	TaskOnDemandUSD []float64 `json:"taskOnDemandUSD,omitempty"`
	// Runners are the next best choices of each task, for explanations; not kept for large jobs.
	Runners map[int][]apitypes.Runner `json:"runners,omitempty"`
	// Notes are what the job asks for that does not hold where the plan has its tasks, and what holds there instead.
	Notes  []string `json:"notes,omitempty"`
	Millis float64  `json:"millis"`
}

// Planned is an offer that a plan chose.
type Planned struct {
	ID    string         `json:"id"` // catalogue ID with market
	Offer apitypes.Offer `json:"offer"`
	VCPU  float64        `json:"vcpu"`
	// MemoryGiB is of one machine; 0 where nobody has said.
	MemoryGiB float64 `json:"memoryGiB,omitempty"`
	// OnDemandUSD is the on-demand price of the same machine, for the bid's cap and for comparisons.
	OnDemandUSD float64 `json:"onDemandUSD"`
	// LossesPerHour is how often one such spot machine is taken, 0 on demand.
	LossesPerHour float64 `json:"lossesPerHour,omitempty"`
	// SurchargeUSD is what of a spot machine's price is not the market's, USD per hour: that of a managed service, and
	// of its disk and address.
	SurchargeUSD float64 `json:"surchargeUSD,omitempty"`
}

// Of returns the choice for a task, nil when it needs none.
func (p *Plan) Of(task int) *Planned {
	if task < 0 || task >= len(p.Choice) || p.Choice[task] < 0 {
		return nil
	}
	return &p.Offers[p.Choice[task]]
}

// Bids are what each task of a plan is worth on spot, and by when it is to be done.
type Bids struct {
	Plan int `json:"plan"`
	// USD is what the spot markets of the plan's offers cost when they were made, by offer, per hour; 0 where nobody
	// knew.
	USD []float64 `json:"usd,omitempty"`
	// FinishBy is the moment by which each task has to be done for what follows it to keep the deadline; empty without
	// one.
	FinishBy []time.Time `json:"finishBy,omitempty"`
	// Tables say what an hour of a spot machine is worth by the work and time left, and Table which of them a task goes
	// by, −1 for none. Tasks alike share one.
	Tables []*bidding.Worth `json:"tables,omitempty"`
	Table  []int32          `json:"table,omitempty"`
	// Begin are the tasks that may wait for a better price, by task, and Begins the tables that say when they begin.
	Begin  []Begin          `json:"begin,omitempty"`
	Begins []*bidding.Begin `json:"begins,omitempty"`
}

// CentsEps is the rounding a budget comparison forgives, USD.
const CentsEps = 1e-9

// Moved returns the price that differs the most from what the bids were made on, of the markets of tasks that are not
// done, and by what share.
func (bids *Bids) Moved(progress Progress, plan *Plan,
	changed map[string]events.MarketChange) (most events.PriceMoved, share float64) {
	for i, c := range plan.Choice {
		if c < 0 || int(c) >= len(bids.USD) || progress.Phases[i] == PhaseSucceeded ||
			progress.Phases[i] == PhaseFailed {
			continue
		}
		id, from := MarketID(plan.Offers[c].ID), bids.USD[c]
		if usd := changed[id].USD; usd > 0 && math.Abs(usd-from) > share*from {
			most, share = events.PriceMoved{Offer: id, USD: usd, FromUSD: from}, math.Abs(usd-from)/max(from, CentsEps)
		}
	}
	return most, share
}

// A task waits for a better price where its spot market is dear just now and its deadline leaves the time. Its bids say
// which tasks may, and what an hour is to cost for them to begin; a session leaves them in their queue as long as it
// costs more; and tick has a session look when that changes, or time runs out.

// Begin is when a task begins that may wait for a better price.
type Begin struct {
	Task int `json:"task"`
	// Market is the spot market that it waits for, and Spot whether it is planned there; else it is planned on demand.
	Market string `json:"market"`
	Spot   bool   `json:"spot,omitempty"`
	// By is when it begins at the latest, and FinishBy when it has to be done for what follows it to be as free as it
	// is.
	By       time.Time `json:"by"`
	FinishBy time.Time `json:"finishBy"`
	// MostUSD is what the other way costs, USD per hour and machine: whatever costs more is not worth beginning for.
	MostUSD float64 `json:"mostUSD"`
	// Table is the one that it goes by, of Bids.Begins.
	Table int `json:"table"`
}

// SpotAllowed says whether the author lets a task run on spot machines.
func SpotAllowed(t *dag.Task) bool {
	return len(t.Resources) == 0 || slices.ContainsFunc(t.Resources, func(r dag.Resources) bool {
		return r.Market != dag.MarketOnDemand
	})
}
