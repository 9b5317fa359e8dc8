package broker

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/bid"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/history"
	"github.com/tradewind-broker/tradewind/pkg/broker/life"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// planFor is how long a plan is good for the records that it was made on, should its commit meet another: the time left
// is one of them.
const planFor = 5 * time.Second

// optimize plans a job, or what is left of it, and bids for it. Planning takes long compared with a commit: one that
// meets another keeps the plan, unless what it depends on has changed.
func (b *Functions) optimize(ctx context.Context, e events.Event) error {
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
	return b.txns.Transact(ctx, events.FnOptimize, e.ID, true, func(u *unit.Unit) error {
		job, found, err := book.Get[record.Job](u, record.JobKey(id))
		if err != nil || !found {
			return record.OrSkip(err)
		}
		if job.State == apitypes.JobEnding || job.State.Over() || job.Plan.Version > failed {
			return nil // over, or a newer plan is in force
		}
		at := on.in.Now
		if u.Now.Sub(at) > planFor {
			at = u.Now
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
	in     record.PlanInput
	tasks  []record.Task
	saving []record.Cluster // that will be taken, and save their work
	began  time.Time        // when something of it last got machines, or began to run
	serves bool             // a replica of a service of it is ready
}

// goesOn notes when something of the job has got machines, or has begun to run.
func (p *planning) goesOn(at time.Time) {
	if at.After(p.began) {
		p.began = at
	}
}

// solution is a plan with its bids; a plan that is infeasible has none, and may be feasible when blocks have ended.
type solution struct {
	plan  *record.Plan
	bids  record.Bids
	opens life.Opening
}

// solve plans a job and bids for it.
func (b *Functions) solve(ctx context.Context, job record.Job, on planning, reason string) (*solution, error) {
	plan, err := b.ports.Planner.Plan(ctx, on.in)
	if err != nil {
		return nil, err
	}
	if plan.Status == record.PlanInfeasible {
		made := &solution{plan: plan}
		if job.Infeasible == dag.Retry && len(on.saving) == 0 {
			made.opens, err = life.Opens(on.in, func(in record.PlanInput) (*record.Plan, error) {
				return b.ports.Planner.Plan(ctx, in)
			})
		}
		return made, err
	}
	plan.Version, plan.At, plan.Reason = job.Plan.Version+1, on.in.Now, reason
	in := bid.Input{Job: job, Spec: on.in.Spec, Plan: plan, Tasks: on.tasks, Restart: b.cfg.Restart,
		Tick: b.cfg.TickEvery, Now: on.in.Now}
	for i := range plan.Offers {
		in.Markets = append(in.Markets, on.in.Markets[record.MarketID(plan.Offers[i].ID)])
	}
	bids, err := bid.Decide(ctx, in)
	return &solution{plan: plan, bids: bids}, err
}

// DryRun plans a job that is not submitted, with the blocks and prices of now, and with what was learned of its tasks:
// that is noted in the job.
func (b *Users) DryRun(ctx context.Context, spec *dag.Job) (*record.Plan, error) {
	in, err := b.DryInput(ctx, spec)
	if err != nil {
		return nil, err
	}
	plan, err := b.ports.Planner.Plan(ctx, in)
	if plan != nil {
		plan.At = in.Now
	}
	return plan, err
}

// DryInput is what a plan of a job that is not submitted depends on. What was learned of its tasks is noted in the job.
func (b *Users) DryInput(ctx context.Context, spec *dag.Job) (in record.PlanInput, err error) {
	u := b.txns.NewUnit(ctx, events.FnOptimize)
	filled, err := history.Filled(u, spec)
	if err != nil {
		return in, err
	}
	*spec = *filled
	in = record.PlanInput{Spec: spec, Now: u.Now, Tasks: make([]*record.TaskFacts, len(spec.Tasks))}
	in.Left(newJob("", "", Submission{Spec: spec}, record.Blob{}, u.Now), record.Ledger{}, nil, 0)
	if err := stood(u, &in, nil); err != nil {
		return in, err
	}
	return in, world(u, b.ports.Planner, &in)
}

// planned commits a plan with its bids, or what follows from there being none.
func (b *Functions) planned(u *unit.Unit, job record.Job, made *solution, on planning) error {
	if bad := made.plan.Status == record.PlanInfeasible; len(on.saving) > 0 &&
		(bad || made.plan.Late && !on.in.Previous.Late) {
		return u.Apply(life.DecideUnsaved(job, on.saving[0]))
	} else if bad {
		return u.Apply(life.DecideInfeasible(job, life.Stuck{
			Message: made.plan.Message, Opens: made.opens, Blocks: on.in.Blocks, Began: on.began, Serves: on.serves,
			Now: on.in.Now,
		}, b.cfg))
	}
	plan, err := b.keep(u, job.ID, "plan", made.plan.Version, made.plan)
	if err != nil {
		return err
	}
	if err := b.keepBids(u, &job, made.bids); err != nil {
		return err
	}
	return u.Apply(life.DecidePlanned(job, plan, made.plan))
}

// keepBids has a job go by new bids.
func (b *Functions) keepBids(u *unit.Unit, job *record.Job, bids record.Bids) (err error) {
	job.Waits = len(bids.Begin) > 0
	job.Bids, err = b.keep(u, job.ID, "bids", bids.Plan, bids)
	return err
}

// keep writes a value of a job that is too large for a record.
func (b *Functions) keep(u *unit.Unit, job, name string, version int, value any) (record.Blob, error) {
	p, err := unit.Pack(job, name, version, record.ShortHash(u.Cause), value)
	if err == nil {
		err = p.Save(u.Ctx, b.ports.Store, u)
	}
	return p.Blob, err
}

// loadPlanning gathers all that a plan depends on, as of a moment.
func (b *Functions) loadPlanning(u *unit.Unit, job record.Job, at time.Time) (p planning, err error) {
	in := &p.in
	in.Job, in.Now, in.Tasks = job.ID, at, make([]*record.TaskFacts, job.Tasks)
	if in.Spec, err = u.Spec(job); err != nil {
		return p, err
	}
	if err := world(u, b.ports.Planner, in); err != nil {
		return p, err
	}
	var clusters []record.Cluster
	if !job.Plan.IsZero() {
		if in.Previous, err = u.Plan(job); err != nil {
			return p, err
		}
		if p.tasks, clusters, err = attempt.TasksNow(u, job.ID); err != nil {
			return p, err
		}
	}
	for _, t := range p.tasks {
		p.goesOn(t.StartedAt)
		in.Tasks[t.Index] = record.FactsOf(t, in.Previous, at)
	}
	in.WithLeads()
	leaving := clusters[:0:0]
	for _, cl := range clusters {
		p.goesOn(cl.Launched)
		p.serves = p.serves || cl.Serves()
		if cl.Saving() {
			p.saving = append(p.saving, cl)
		}
		i, ok := record.TaskAt(p.tasks, cl.Task)
		if cl.Saving() || ok && p.tasks[i].Service != "" && p.tasks[i].State == record.TaskQueued {
			leaving = append(leaving, cl)
		}
	}
	if err := stood(u, in, leaving); err != nil {
		return p, err
	}
	var ledger record.Ledger
	if job.BudgetUSD > 0 {
		if ledger, _, err = book.Get[record.Ledger](u, record.LedgerKey(job.ID)); err != nil {
			return p, err
		}
	}
	in.Left(job, ledger, clusters, b.cfg.Overhead)
	return p, nil
}

// stood gathers who stands where that rules of placement know of, but for those of the job that are about to leave.
func stood(u *unit.Unit, in *record.PlanInput, leaving []record.Cluster) error {
	if !record.IsPlaced(in.Spec) {
		return nil
	}
	var keys []store.Key
	for i := range in.Spec.Tasks {
		for _, key := range record.LabelStandsKeys(&in.Spec.Tasks[i]) {
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
			}
		}
	}
	placed, clusters, err := book.Others(u, in.Job, keys)
	if err != nil {
		return err
	}
	var known []record.Placed
	var asked []string
	for i, p := range placed {
		if p.Job == in.Job && slices.ContainsFunc(leaving,
			func(cl record.Cluster) bool { return cl.ID == clusters[i] }) {
			continue
		}
		if p.Job == in.Job || record.Minds(in.Spec, p.Stand) {
			known, asked = append(known, p), append(asked, clusters[i])
		}
	}
	in.Stood, err = book.Staying(u, known, asked)
	return err
}

// world gathers what is known of locations and markets.
func world(u *unit.Unit, p Planner, in *record.PlanInput) error {
	known, err := book.List[apitypes.Block](u, record.PartBlocks, "", 0)
	if err != nil {
		return err
	}
	for _, k := range known {
		if k.Until.After(in.Now) {
			in.Blocks = append(in.Blocks, k)
		}
	}
	markets, err := book.List[record.MarketRecord](u, record.PartMarket, "", 0)
	if err != nil {
		return err
	}
	in.Markets = make(map[string]record.MarketRecord, len(markets))
	for _, m := range markets {
		in.Markets[m.Offer] = m
	}
	if !p.Reserves(u.Ctx) {
		return nil
	}
	return held(u, in)
}

// held gathers who runs on reserved capacity.
func held(u *unit.Unit, in *record.PlanInput) error {
	all, err := book.List[record.Occupancy](u, record.PartHeld, "", 0)
	if err != nil || len(all) == 0 {
		return err
	}
	there, err := book.Holders(u, all...)
	if err != nil {
		return err
	}
	in.Held = map[string][]record.Holding{}
	for _, h := range all {
		for _, cl := range there {
			if n := h.Clusters[cl.ID]; n > 0 && cl.Holds() {
				_, takes := cl.Offer.Room(n)
				in.Held[h.ID] = append(in.Held[h.ID], record.Holding{Job: cl.Job, Task: cl.Task, Takes: takes})
			}
		}
	}
	return nil
}
