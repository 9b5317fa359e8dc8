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

// UndatedStretch is the time that a task without a deadline has in its bidding table, in multiples of its work.
const UndatedStretch = 3.0

// OnDemandAllowed reports whether a task may run on demand.
func OnDemandAllowed(t *dag.Task) bool {
	return len(t.Resources) == 0 || slices.ContainsFunc(t.Resources, func(r dag.Resources) bool {
		return r.Market != dag.MarketSpot
	})
}

// PlanInfeasible is the status of a Plan that has no choices, but only the reason.
const PlanInfeasible = "infeasible"

// Head returns the summary of the plan, without its choices.
func (p *Plan) Head() apitypes.PlanHead {
	return apitypes.PlanHead{
		Version: p.Version, At: p.At, Reason: p.Reason, Status: p.Status, Message: p.Message, USD: p.USD,
		Hours:     p.Hours,
		Objective: p.Objective, Bound: p.Bound, OnDemandUSD: p.OnDemandUSD, Late: p.Late, Millis: p.Millis,
	}
}

// Plan states where each task of a job will run.
type Plan struct {
	Version int       `json:"version"`
	At      time.Time `json:"at"`
	Reason  string    `json:"reason,omitempty"` // of a replan
	Status  string    `json:"status"`           // optimal, feasible, infeasible
	Message string    `json:"message,omitempty"`
	// USD, Hours and Bound are expectations for the unfinished tasks.
	USD       float64 `json:"usd"`
	Hours     float64 `json:"hours"`
	Objective float64 `json:"objective"`
	Bound     float64 `json:"bound"`
	// OnDemandUSD is the minimum cost of the same work on demand, including data transfer like USD: in the plan's
	// regions, or with each task at its cheapest place. If time counts, that is no slower than the plan.
	OnDemandUSD float64 `json:"onDemandUSD"`
	// KeepUSD is the cost of storing the tasks' outputs, in USD per month. It is not part of USD.
	KeepUSD float64 `json:"keepUSDPerMonth,omitempty"`
	// Late means that the deadline cannot be met any more. This is the fastest plan.
	Late bool `json:"late,omitempty"`
	// Offers lists the different choices. Choice has, for each task, an index into Offers, or -1 for a task that
	// needs no machine.
	Offers []Planned `json:"offers"`
	Choice []int32   `json:"choice"`
	// TaskUSD and TaskHours are the expected cost and time of each task at its choice. For a task on a shared
	// machine, TaskUSD is its part of the machine's cost, for explanations, and TaskHours its own run time. Its
	// worker task has the cost of the machine, and the time for which it is held, with the boot. OwnUSD counts each
	// dollar once.
	TaskUSD   []float64 `json:"taskUSD"`
	TaskHours []float64 `json:"taskHours"`
	// On has, for each task, the index of the worker task on whose machine it is planned, or -1. It is nil if no
	// tasks share machines. It is a plan, not an assignment: a ready task may run on any machine of its group.
	On []int32 `json:"on,omitempty"`
	// From has, for each worker task, the time at which it is bought, in hours after At. Workers without an entry are
	// bought at once.
	From []float64 `json:"from,omitempty"`
	// Fleets has the machines that tasks share: one fleet for each offer of each group.
	Fleets []Fleet `json:"fleets,omitempty"`
	// TaskOnDemandUSD is, for a task on spot, the on-demand cost per machine of an hour of its work at the cheapest
	// place.
	TaskOnDemandUSD []float64 `json:"taskOnDemandUSD,omitempty"`
	// Runners are the next best choices of each task, for explanations. Plans of large jobs do not have them.
	Runners map[int][]apitypes.Runner `json:"runners,omitempty"`
	// Notes name the job's requirements that are not enforced at the planned locations, with the rules that apply
	// instead, and the offers that were excluded because the broker has no agent for them.
	Notes  []string `json:"notes,omitempty"`
	Millis float64  `json:"millis"`
}

// Planned is an offer that a plan chose.
type Planned struct {
	ID    string         `json:"id"` // ID in the catalogue, with the market
	Offer apitypes.Offer `json:"offer"`
	VCPU  float64        `json:"vcpu"`
	// MemoryGiB is of one machine; 0 if unknown.
	MemoryGiB float64 `json:"memoryGiB,omitempty"`
	// OnDemandUSD is the on-demand price of the same machine. It is used as the maximum bid and in comparisons.
	OnDemandUSD float64 `json:"onDemandUSD"`
	// LossesPerHour is the expected number of interruptions of one such spot machine per hour; 0 on demand.
	LossesPerHour float64 `json:"lossesPerHour,omitempty"`
	// SurchargeUSD is the part of a spot machine's price that does not follow the market, in USD per hour: that of a
	// managed service, and of the disk and address.
	SurchargeUSD float64 `json:"surchargeUSD,omitempty"`
}

// Due returns the time at which a worker task is bought.
func (p *Plan) Due(worker int) time.Time {
	if worker >= len(p.From) {
		return p.At
	}
	return p.At.Add(time.Duration(p.From[worker] * float64(time.Hour)))
}

// Of returns the choice for a task, or nil if it needs none.
func (p *Plan) Of(task int) *Planned {
	if task < 0 || task >= len(p.Choice) || p.Choice[task] < 0 {
		return nil
	}
	return &p.Offers[p.Choice[task]]
}

// PhaseOf returns the phase of a task. A worker task has no stored phase: it waits as long as a task that is planned
// on its machine waits. Then it counts as ready, because it can be bought at any time.
func (p *Plan) PhaseOf(progress Progress, task int) byte {
	if task < len(progress.Phases) {
		return progress.Phases[task]
	}
	for i, on := range p.On {
		if int(on) == task && i < len(progress.Phases) && progress.Phases[i] == PhaseWaiting {
			return PhaseWaiting
		}
	}
	return PhaseReady
}

// Bids has, for each task, the value of its time on spot, and the time by which it must finish.
type Bids struct {
	Plan int `json:"plan"`
	// USD is the price per hour of each offer's spot market at the time of the bids; 0 if unknown.
	USD []float64 `json:"usd,omitempty"`
	// FinishBy is the time by which each task must finish so that its followers can meet the deadline. It is empty
	// without a deadline.
	FinishBy []time.Time `json:"finishBy,omitempty"`
	// Tables has values of an hour of a spot machine, by remaining work and time. Table has the index of each task's
	// table, or −1. Identical tasks share a table.
	Tables []*bidding.Worth `json:"tables,omitempty"`
	Table  []int32          `json:"table,omitempty"`
	// Begin has the tasks that may wait for a better price. Begins has the tables that determine when they start.
	Begin  []Begin          `json:"begin,omitempty"`
	Begins []*bidding.Begin `json:"begins,omitempty"`
}

// CentsEps is the tolerance in comparisons of budgets, in USD.
const CentsEps = 1e-9

// Moved returns the market of unfinished tasks whose price differs most from the price at which the bids were made,
// with the difference as a fraction.
func (bids *Bids) Moved(progress Progress, plan *Plan,
	changed map[string]events.MarketChange) (most events.PriceMoved, share float64) {
	for i, c := range plan.Choice {
		phase := plan.PhaseOf(progress, i)
		if c < 0 || int(c) >= len(bids.USD) || !IsOpen(phase) {
			continue
		}
		id, from := MarketID(plan.Offers[c].ID), bids.USD[c]
		if usd := changed[id].USD; usd > 0 && math.Abs(usd-from) > share*from {
			most, share = events.PriceMoved{Offer: id, USD: usd, FromUSD: from}, math.Abs(usd-from)/max(from, CentsEps)
		}
	}
	return most, share
}

// A task can wait for a better price if its spot market is expensive now and its deadline leaves enough time. The
// bids state which tasks may wait, and at which price they start. A session leaves such a task in its queue while the
// price is higher. tick starts a session when the price falls or the time is nearly over.

// Begin states when a task starts that may wait for a better price.
type Begin struct {
	Task int `json:"task"`
	// Market is the spot market for whose price it waits. Spot means that it is planned there. Otherwise it is
	// planned on demand.
	Market string `json:"market"`
	Spot   bool   `json:"spot,omitempty"`
	// By is the latest start. FinishBy is the time by which it must finish to leave time for its followers.
	By       time.Time `json:"by"`
	FinishBy time.Time `json:"finishBy"`
	// MostUSD is the price of the alternative, in USD per hour and machine. The task never starts at a higher price.
	MostUSD float64 `json:"mostUSD"`
	// Table is the index of its table in Bids.Begins.
	Table int `json:"table"`
}

// SpotAllowed reports whether a task may run on spot machines.
func SpotAllowed(t *dag.Task) bool {
	return len(t.Resources) == 0 || slices.ContainsFunc(t.Resources, func(r dag.Resources) bool {
		return r.Market != dag.MarketOnDemand
	})
}
