package jobstate

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// DecidePostponePlan discards a plan that would make the job fail or miss its deadline, while a machine that will be
// taken is still saving work. When the result of the saving is known, the broker requests a new plan.
func DecidePostponePlan(job record.Job, saving record.Cluster) (d record.Decision) {
	saving.MinPlan = job.Plan.Version + 1
	d.PutJob(job)
	d.Put(record.ClusterKey(saving.ID), saving)
	return d
}

// DecidePlanTried records the tries to plan a job, and fails the job if the planner has failed too often. A job that
// holds machines keeps running with its current plan.
func DecidePlanTried(job record.Job, holds bool) (d record.Decision) {
	if holds || !job.PlanTries.Spent() {
		d.PutJob(job)
		return d
	}
	reason := job.PlanTries.String()
	if help := job.PlanTries.Help(); help != "" {
		reason += "; " + help
	}
	return decideEnding(job, apitypes.JobFailed, reason)
}

// DecidePlanned makes a job use a plan.
func DecidePlanned(job record.Job, ref record.Blob, plan *record.Plan) (d record.Decision) {
	if job.Plan.IsZero() {
		job.PlannedUSD, job.OnDemandUSD = plan.USD, plan.OnDemandUSD
	}
	if job.State == apitypes.JobWaiting {
		job.State = apitypes.JobPlanning // advance starts it
		if job.Started {
			job.State = apitypes.JobRunning // schedule continues it
		}
	}
	job.Plan, job.RetryAt, job.Reason = ref, time.Time{}, ""
	d.PutJob(job)
	d.Put(record.PlanHeadKey(job.ID, plan.Version), plan.Head())
	d.Emit(events.DAGPlanned{Job: job.ID, Plan: plan.Version, Status: plan.Status, USD: plan.USD, Hours: plan.Hours})
	return d
}
