package broker

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// PlanInfeasible is the status of a Plan that says why there is none.
const PlanInfeasible = "infeasible"

// planFor is how long a plan is good for the records that it was made on, should its commit meet another: the time left is one of them.
const planFor = 5 * time.Second

// optimize plans a job, or what is left of it, and bids for it. Planning takes long compared with a commit: one that meets another keeps the plan, unless
// what it depends on has changed.
func (b *Broker) optimize(ctx context.Context, e events.Event) error {
	id, reason, failed := e.Data.Group(), "", 0
	switch data := e.Data.(type) {
	case events.DAGSubmitted:
	case events.DAGReplan:
		reason, failed = data.Reason, data.Plan
	default:
		return unexpected(events.FnOptimize, e.Data)
	}
	var on planning
	var made *solution
	return b.transact(ctx, events.FnOptimize, e.ID, true, func(u *unit) error {
		job, found, err := get[Job](u, jobKey(id))
		if err != nil || !found {
			return orSkip(err)
		}
		if job.State == JobEnding || job.State.Over() || job.Plan.Version > failed {
			return nil // over, or a newer plan is in force
		}
		at := on.in.Now
		if u.now.Sub(at) > planFor {
			at = u.now
		}
		now, err := b.loadPlanning(u, job, at)
		if err != nil {
			return err
		}
		if made == nil || !reflect.DeepEqual(on, now) {
			if made, err = b.solve(ctx, job, now, reason); err != nil {
				return fmt.Errorf("broker: plan %s: %w", id, err)
			}
			on = now
		}
		return b.planned(u, job, made, now)
	})
}

// planning is all that a plan and its bids depend on.
type planning struct {
	in     PlanInput
	tasks  []Task
	saving []Cluster // that will be taken, and save their work
}

// solution is a plan with its bids; a plan that is infeasible has none.
type solution struct {
	plan *Plan
	bids Bids
}

// solve plans a job and bids for it.
func (b *Broker) solve(ctx context.Context, job Job, on planning, reason string) (*solution, error) {
	plan, err := b.Planner.Plan(ctx, on.in)
	if err != nil || plan.Status == PlanInfeasible {
		return &solution{plan: plan}, err
	}
	plan.Version, plan.At, plan.Reason = job.Plan.Version+1, on.in.Now, reason
	in := bidInput{job: job, spec: on.in.Spec, plan: plan, tasks: on.tasks, restart: b.cfg.Restart, tick: b.cfg.TickEvery, now: on.in.Now}
	for i := range plan.Offers {
		in.markets = append(in.markets, on.in.Markets[marketID(plan.Offers[i].ID)])
	}
	bids, err := decideBids(ctx, in)
	return &solution{plan, bids}, err
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

// planned commits a plan with its bids, or what follows from there being none.
func (b *Broker) planned(u *unit, job Job, made *solution, on planning) error {
	if bad := made.plan.Status == PlanInfeasible; len(on.saving) > 0 && (bad || made.plan.Late && !on.in.Previous.Late) {
		return u.apply(decideUnsaved(job, on.saving[0]))
	} else if bad {
		return u.apply(decideInfeasible(job, made.plan.Message, on.in.Blocks, b.cfg.RetryEvery, u.now))
	}
	plan, err := b.keep(u, job.ID, "plan", made.plan.Version, made.plan)
	if err != nil {
		return err
	}
	if job.Bids, err = b.keep(u, job.ID, "bids", made.plan.Version, made.bids); err != nil {
		return err
	}
	job.Waits = len(made.bids.Begin) > 0
	return u.apply(decidePlanned(job, plan, made.plan))
}

// keep writes a value of a job that is too large for a record.
func (b *Broker) keep(u *unit, job, name string, version int, value any) (Blob, error) {
	p, err := pack(job, name, version, shortHash(u.cause), value)
	if err == nil {
		err = p.save(u.ctx, b.store, u)
	}
	return p.Blob, err
}

// decideUnsaved puts off a plan that would fail the job, or be late, until it is known what a machine has saved that will be taken: then it is asked for again.
func decideUnsaved(job Job, saving Cluster) (d Decision) {
	saving.MinPlan = job.Plan.Version + 1
	d.put(clusterKey(saving.ID), saving)
	return d
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

// loadPlanning gathers all that a plan depends on, as of a moment.
func (b *Broker) loadPlanning(u *unit, job Job, at time.Time) (p planning, err error) {
	in := &p.in
	in.Now, in.Tasks = at, make([]*TaskFacts, job.Tasks)
	if in.Spec, err = u.spec(job); err != nil {
		return p, err
	}
	if err := b.world(u, in); err != nil {
		return p, err
	}
	var clusters []Cluster
	if !job.Plan.IsZero() {
		if in.Previous, err = u.plan(job); err != nil {
			return p, err
		}
		if p.tasks, clusters, err = tasksNow(u, job.ID); err != nil {
			return p, err
		}
	}
	for _, t := range p.tasks {
		in.Tasks[t.Index] = factsOf(t, in.Previous, at)
	}
	for _, cl := range clusters {
		if cl.saving() {
			p.saving = append(p.saving, cl)
		}
	}
	var ledger Ledger
	if job.BudgetUSD > 0 {
		if ledger, _, err = get[Ledger](u, ledgerKey(job.ID)); err != nil {
			return p, err
		}
	}
	in.left(job, ledger, clusters, b.cfg.Overhead)
	return p, nil
}

// tasksNow loads the tasks of a job that were ready, with what their clusters have seen of them, and those clusters. Of a task whose machines are being taken it says that
// it waits: that is what it has to be planned as.
func tasksNow(u reader, job string) ([]Task, []Cluster, error) {
	tasks, err := list[Task](u, jobPart(job), "task#", 0)
	if err != nil {
		return nil, nil, err
	}
	clusters, err := list[Cluster](u, jobPart(job), clusterPrefix, 0)
	if err != nil {
		return nil, nil, err
	}
	tellTasks(clusters, tasks)
	for _, cl := range clusters {
		if i, ok := taskAt(tasks, cl.Task); ok && cl.saving() && tasks[i].Attempt == cl.Attempt {
			tasks[i].State = TaskQueued
		}
	}
	return tasks, clusters, nil
}

// world gathers what is known of locations and markets.
func (b *Broker) world(u *unit, in *PlanInput) error {
	known, err := list[Block](u, partBlocks, "", 0)
	if err != nil {
		return err
	}
	for _, k := range known {
		if k.Until.After(in.Now) {
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
func (in *PlanInput) left(job Job, ledger Ledger, clusters []Cluster, overhead time.Duration) {
	if !job.Deadline.IsZero() {
		h := math.Max(hours(job.Deadline.Sub(in.Now)), 0)
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
