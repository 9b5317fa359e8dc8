// Package planinput has the input of a job's plan: the job, its remaining time and budget, and the facts about its
// tasks, prices and places. The broker collects the input from its records, and a planner (internal/broker/planner)
// turns it into a plan.
package planinput

import (
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Input is all data on which a plan depends.
type Input struct {
	Job  string // ID of the job; empty if it is not submitted
	Spec *dag.Job
	Now  time.Time
	// DeadlineHours and BudgetUSD are the remaining time and money; nil means no limit.
	DeadlineHours *float64
	BudgetUSD     *float64
	// Tasks has the facts about each task by index; nil for a task that was never ready.
	Tasks []*Facts
	// Blocks are the current blocks of locations.
	Blocks []apitypes.Block
	// Markets are the observations of spot offers, by offer ID without the market.
	Markets map[string]record.MarketRecord
	// Boots are the boot times in earlier jobs of the same name, by BootKey.
	Boots map[string]apitypes.RunTimes
	// Held are the tasks that run on reserved capacity now, by ReservedID.
	Held map[string][]Holding
	// Stood are the locations of tasks to which placement rules of this job or of others refer.
	Stood []record.Placed
	// Previous is the current plan, nil for the first one.
	Previous *record.Plan
}

// Holding is a task that runs on reserved capacity, and the amount that its machines take.
type Holding struct {
	Job   string
	Task  int
	Takes apitypes.Amount
}

// Left sets the remaining deadline and budget.
func (in *Input) Left(job record.Job, ledger record.Ledger, clusters []record.Cluster, overhead time.Duration) {
	if !job.Deadline.IsZero() {
		h := math.Max(record.Hours(job.Deadline.Sub(in.Now)), 0)
		in.DeadlineHours = &h
	}
	if job.BudgetUSD > 0 {
		usd := job.BudgetUSD - ledger.SpentUSD - ledger.ReservedUSD
		for i := range clusters {
			usd += clusters[i].ReservedUSD - clusters[i].Expected(overhead, in.Now)
		}
		usd = math.Max(usd, 0)
		in.BudgetUSD = &usd
	}
}
