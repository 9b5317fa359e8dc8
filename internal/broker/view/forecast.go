package view

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// forecast is the expected cost of a job when it ends, in USD: what it has spent, and the rest of its work by its
// current plan. It is 0 for a job that has no plan, has ended or serves. Data transfers count in proportion to the
// remaining work.
func forecast(job record.Job, d *Look, now time.Time) float64 {
	if d.plan == nil || d.plan.Status == record.PlanInfeasible || job.Serves || job.State.Finished() {
		return 0
	}
	clusters := map[int]*record.Cluster{}
	for i := range d.seen.clusters {
		if cl := &d.seen.clusters[i]; !cl.Released() {
			clusters[cl.Task] = cl
		}
	}
	whole, rest := 0.0, 0.0
	for i := range min(job.Tasks, len(d.plan.TaskUSD)) {
		whole += d.plan.TaskUSD[i]
		if i >= len(d.seen.phases) || record.IsOpen(d.seen.phases[i]) {
			rest += remainingUSD(d.plan, i, clusters[i], now)
		}
	}
	if whole > 0 {
		rest *= max(d.plan.USD/whole, 1)
	}
	return d.SpentUSD + rest
}

// remainingUSD is the expected cost of the remaining work of a task, which runs on cl unless that is nil. The cost of a
// task on a shared machine is its part of the machine's.
func remainingUSD(plan *record.Plan, task int, cl *record.Cluster, now time.Time) float64 {
	usd, hours := plan.TaskUSD[task], plan.TaskHours[task]
	if cl == nil || cl.Running.IsZero() || hours <= 0 {
		return usd
	}
	left := max(hours-record.Hours(now.Sub(later(cl.Running, plan.At))), 0)
	if cl.Assigned() {
		return usd * left / hours
	}
	return cl.Offer.USDPerHour * float64(max(len(cl.Nodes), 1)) * left
}
