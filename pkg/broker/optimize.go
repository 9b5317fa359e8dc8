package broker

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// PlanInfeasible is the status of a Plan that says why there is none.
const PlanInfeasible = "infeasible"

// optimize plans a job, or what is left of it. Planning takes long compared with a commit, so it is done
// between loading and committing; a plan made on records that changed meanwhile is made again.
func (b *Broker) optimize(ctx context.Context, e events.Event) error {
	id, reason, failed := e.Data.Group(), "", 0
	switch data := e.Data.(type) {
	case events.DAGSubmitted:
	case events.DAGReplan:
		reason, failed = data.Reason, data.Plan
	default:
		return unexpected(events.FnOptimize, e.Data)
	}
	return b.transact(ctx, events.FnOptimize, e.ID, true, func(u *unit) error {
		job, found, err := get[Job](u, jobKey(id))
		if err != nil || !found {
			return orSkip(err)
		}
		if job.State == JobEnding || job.State.Over() || job.Plan.Version > failed {
			return nil // over, or a newer plan is in force
		}
		in, err := b.planInput(u, job)
		if err != nil {
			return err
		}
		plan, err := b.Planner.Plan(ctx, in)
		if err != nil {
			return fmt.Errorf("broker: plan %s: %w", id, err)
		}
		plan.Version, plan.At, plan.Reason = job.Plan.Version+1, u.now, reason
		return b.planned(u, job, plan, in)
	})
}

// DryRun plans a job that is not submitted, with the blocks and prices of now.
func (b *Broker) DryRun(ctx context.Context, spec *dag.Job) (*Plan, error) {
	u := b.newUnit(ctx, events.FnOptimize)
	in := PlanInput{Spec: spec, Now: u.now, Tasks: make([]*TaskFacts, len(spec.Tasks))}
	if spec.Deadline > 0 {
		h := hours(spec.Deadline)
		in.DeadlineHours = &h
	}
	if spec.Budget > 0 {
		usd := float64(spec.Budget)
		in.BudgetUSD = &usd
	}
	if err := b.world(u, &in); err != nil {
		return nil, err
	}
	plan, err := b.Planner.Plan(ctx, in)
	if plan != nil {
		plan.At = u.now
	}
	return plan, err
}

// planned commits a plan, or what follows from there being none.
func (b *Broker) planned(u *unit, job Job, plan *Plan, in PlanInput) error {
	if plan.Status == PlanInfeasible {
		return u.apply(decideInfeasible(job, plan.Message, in.Blocks, b.cfg.RetryEvery, u.now))
	}
	p, err := b.pack(job.ID, "plan", plan.Version, shortHash(u.cause), plan)
	if err != nil {
		return err
	}
	if err := p.save(u.ctx, b.store, u); err != nil {
		return err
	}
	return u.apply(decidePlanned(job, p.Blob, plan))
}

func decidePlanned(job Job, ref Blob, plan *Plan) (d Decision) {
	if job.Plan.IsZero() {
		job.PlannedUSD, job.OnDemandUSD = plan.USD, plan.OnDemandUSD
	}
	if job.State == JobWaiting {
		job.State = JobPlanning // advance starts it
		if job.Started {
			job.State = JobRunning // schedule goes on
		}
	}
	job.Plan, job.RetryAt, job.Reason = ref, time.Time{}, ""
	d.put(jobKey(job.ID), job)
	d.put(planHeadKey(job.ID, plan.Version), plan.head())
	d.emit(events.DAGPlanned{Job: job.ID, Plan: plan.Version, Status: plan.Status, USD: plan.USD, Hours: plan.Hours})
	return d
}

// decideInfeasible fails the job, or has it wait for a block to expire, as its author chose.
func decideInfeasible(job Job, reason string, blocks []Block, retry time.Duration, now time.Time) Decision {
	if job.Infeasible != dag.Wait {
		return decideEnding(job, JobFailed, "no feasible plan: "+reason)
	}
	at := now.Add(retry)
	for _, b := range blocks {
		if b.Until.After(now) && b.Until.Before(at) {
			at = b.Until
		}
	}
	job.State, job.RetryAt = JobWaiting, at
	job.Reason = "no feasible plan: " + reason
	var d Decision
	d.put(jobKey(job.ID), job)
	return d
}

// planInput gathers all that a plan depends on.
func (b *Broker) planInput(u *unit, job Job) (in PlanInput, err error) {
	in.Now = u.now
	if in.Spec, err = u.spec(job); err != nil {
		return in, err
	}
	if err := b.left(u, job, &in); err != nil {
		return in, err
	}
	if err := b.world(u, &in); err != nil {
		return in, err
	}
	in.Tasks = make([]*TaskFacts, job.Tasks)
	if job.Plan.IsZero() {
		return in, nil
	}
	if in.Previous, err = u.plan(job); err != nil {
		return in, err
	}
	tasks, err := list[Task](u, jobPart(job.ID), "task#", 0)
	if err != nil {
		return in, err
	}
	clusters, err := list[Cluster](u, jobPart(job.ID), clusterPrefix, 0)
	if err != nil {
		return in, err
	}
	tellTasks(clusters, tasks)
	for _, t := range tasks {
		in.Tasks[t.Index] = factsOf(t, in.Previous, u.now)
	}
	return in, nil
}

// world gathers what is known of locations and markets.
func (b *Broker) world(u *unit, in *PlanInput) error {
	known, err := list[Block](u, partBlocks, "", 0)
	if err != nil {
		return err
	}
	for _, k := range known {
		if k.Until.After(u.now) {
			in.Blocks = append(in.Blocks, k)
		}
	}
	markets, err := list[MarketRecord](u, partMarket, "", 0)
	if err != nil {
		return err
	}
	in.Markets = make(map[string]MarketRecord, len(markets))
	for _, m := range markets {
		in.Markets[m.Offer] = m
	}
	return nil
}

// left computes what remains of the deadline and the budget.
func (b *Broker) left(u *unit, job Job, in *PlanInput) error {
	if !job.Deadline.IsZero() {
		h := math.Max(hours(job.Deadline.Sub(u.now)), 0)
		in.DeadlineHours = &h
	}
	if job.BudgetUSD > 0 {
		ledger, _, err := get[Ledger](u, ledgerKey(job.ID))
		if err != nil {
			return err
		}
		clusters, err := list[Cluster](u, jobPart(job.ID), clusterPrefix, 0)
		if err != nil {
			return err
		}
		usd := job.BudgetUSD - ledger.SpentUSD - ledger.ReservedUSD
		for i := range clusters {
			usd += clusters[i].ReservedUSD - clusters[i].expected(b.cfg.Overhead, u.now)
		}
		usd = math.Max(usd, 0)
		in.BudgetUSD = &usd
	}
	return nil
}

// factsOf says what the past fixes of a task: a finished one has its outputs somewhere, a running one holds
// its machines, a queued one has the progress it saved.
func factsOf(t Task, plan *Plan, now time.Time) *TaskFacts {
	f := &TaskFacts{Place: t.Place, Progress: t.Progress, OnDemand: t.OnDemand}
	switch t.State {
	case TaskSucceeded:
		f.Done = true
	case TaskAdmitted, TaskLaunching, TaskRunning:
		f.Fixed = t.Place != ""
		if t.Index < len(plan.TaskHours) {
			f.Hours = plan.TaskHours[t.Index]
		}
		if t.Hours > 0 {
			f.Hours = t.Hours
		}
		if t.State == TaskRunning {
			f.Hours = math.Max(f.Hours-hours(now.Sub(t.StartedAt)), 0)
		}
	case TaskQueued, TaskFailed:
		f.Place = ""
	}
	return f
}

// PlanHead is the story of one plan without its choices, kept for explanations.
type PlanHead struct {
	Version     int       `json:"version"`
	At          time.Time `json:"at"`
	Reason      string    `json:"reason,omitempty"`
	Status      string    `json:"status"`
	Message     string    `json:"message,omitempty"`
	USD         float64   `json:"usd"`
	Hours       float64   `json:"hours"`
	Objective   float64   `json:"objective"`
	Bound       float64   `json:"bound"`
	OnDemandUSD float64   `json:"onDemandUSD"`
	Late        bool      `json:"late,omitempty"`
	Millis      float64   `json:"millis"`
}

func (p *Plan) head() PlanHead {
	return PlanHead{
		Version: p.Version, At: p.At, Reason: p.Reason, Status: p.Status, Message: p.Message, USD: p.USD, Hours: p.Hours,
		Objective: p.Objective, Bound: p.Bound, OnDemandUSD: p.OnDemandUSD, Late: p.Late, Millis: p.Millis,
	}
}
