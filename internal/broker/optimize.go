package broker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/bid"
	"github.com/tradewind-broker/tradewind/internal/broker/history"
	"github.com/tradewind-broker/tradewind/internal/broker/jobstate"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// planFor is the maximum age of a plan that is reused for the same records after its commit conflicted. An older plan
// is made again, because the remaining time is an input as well.
const planFor = 5 * time.Second

// optimize plans a job or its remaining tasks, and bids for it. Planning takes long compared with a commit. So after
// a conflict the plan is reused, unless its inputs have changed.
func (b *Functions) optimize(ctx context.Context, e events.Event) error {
	id, reason, failed := e.Data.Group(), "", 0
	switch data := e.Data.(type) {
	case events.DAGSubmitted:
	case events.DAGReplan:
		reason, failed = data.Reason, data.Plan
	default:
		return unexpected(events.FnOptimize, e.Data)
	}
	if begun, err := b.beginPlan(ctx, e.ID, id, failed); err != nil || !begun {
		return err
	}
	var failure error // of the planner
	err := b.planJob(ctx, e.ID, id, reason, failed, &failure)
	if err != nil {
		err = errors.Join(err, b.endTry(ctx, e.ID, id, failed, failure, err))
	}
	return err
}

// planJob plans a job and commits the plan. failure is set if the planner fails.
func (b *Functions) planJob(ctx context.Context, cause, id, reason string, failed int, failure *error) error {
	var on planning
	var made *solution
	return b.txns.Transact(ctx, events.FnOptimize, cause, true, func(u *txn.Unit) error {
		job, needed, err := loadUnplanned(u, id, failed)
		if err != nil || !needed {
			return err
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
			if made, *failure = b.solve(ctx, job, now, reason); *failure != nil {
				return fmt.Errorf("broker: plan %s: %w", id, *failure)
			}
			on = now
		}
		job.PlanTries = record.PlanTries{}
		return b.commitPlan(u, job, made, now)
	})
}

// loadUnplanned loads a job that needs a plan newer than version failed. needed is false if the job has one, has
// finished, or does not exist.
func loadUnplanned(u *txn.Unit, id string, failed int) (job record.Job, needed bool, err error) {
	job, found, err := recordcache.Get[record.Job](u, record.JobKey(id))
	if err != nil || !found {
		return job, false, record.OrSkip(err)
	}
	return job, job.State != apitypes.JobEnding && !job.State.Finished() && job.Plan.Version <= failed, nil
}

// beginPlan records the start of a try to plan a job, so that the try counts even if this process ends during it. If
// the planner has failed too often, it fails the job instead. begun is false if there is nothing to plan.
func (b *Functions) beginPlan(ctx context.Context, cause, id string, failed int) (begun bool, err error) {
	err = b.txns.Transact(ctx, events.FnOptimize, cause+"/try", false, func(u *txn.Unit) error {
		begun = false
		handled, err := u.WasSeen(cause)
		if err != nil || handled {
			return err
		}
		job, needed, err := loadUnplanned(u, id, failed)
		if err != nil || !needed {
			return err
		}
		holds, err := holdsMachines(u, job)
		if err != nil || holds && job.PlanTries.Rests(u.Now, b.cfg.Simulated(record.PlanRest)) {
			return err
		}
		begun = true
		if !job.PlanTries.Begin(u.Now, b.cfg.Simulated(b.cfg.PlanWithin)) {
			return nil
		}
		begun = holds || !job.PlanTries.Spent()
		return u.Apply(jobstate.DecidePlanTried(job, holds))
	})
	return begun, err
}

// holdsMachines reports whether a job has a plan and machines, so that it can keep running without a new plan. It
// loads them only if the planner has failed for the job.
func holdsMachines(u *txn.Unit, job record.Job) (bool, error) {
	if job.Plan.IsZero() || job.PlanTries == (record.PlanTries{}) {
		return false, nil
	}
	clusters, err := recordcache.List[record.Cluster](u, record.JobPart(job.ID), record.ClusterPrefix, 0)
	return slices.ContainsFunc(clusters, func(cl record.Cluster) bool {
		return cl.Outcome == "" && cl.State != record.ClusterDoomed && cl.State != record.ClusterReleasing
	}), err
}

// endTry records the end of a try whose plan was not committed because of err. The try counts as a failure if the
// planner failed, or if the job's records could not be loaded for a long time. This gets its own time, so it works
// even if the function has no time left.
func (b *Functions) endTry(ctx context.Context, cause, id string, failed int, failure, err error) error {
	passes := errors.Is(err, context.Canceled) || failure == nil &&
		(errors.Is(err, context.DeadlineExceeded) || errors.Is(err, store.ErrConflict))
	reason := err.Error()
	free := context.WithoutCancel(ctx)
	if limit := b.cfg.EndTryWithin; limit > 0 {
		var cancel context.CancelFunc
		free, cancel = context.WithTimeout(free, limit)
		defer cancel()
	}
	return b.txns.Transact(free, events.FnOptimize, cause+"/tried", false, func(u *txn.Unit) error {
		job, needed, err := loadUnplanned(u, id, failed)
		if err != nil || !needed {
			return err
		}
		holds, held := holdsMachines(u, job)
		switch {
		case passes:
			job.PlanTries.Began = time.Time{}
		case failure == nil:
			job.PlanTries.CannotLoad(reason, u.Now, b.cfg.Simulated(record.UnreadFor))
		case held != nil:
			return held
		case errors.Is(failure, context.DeadlineExceeded):
			job.PlanTries.Fail(record.OutOfTime, u.Now)
		default:
			job.PlanTries.Fail(failure.Error(), u.Now)
		}
		return u.Apply(jobstate.DecidePlanTried(job, holds))
	})
}

// planning is all data on which a plan and its bids depend.
type planning struct {
	in     planinput.Input
	tasks  []record.Task
	saving []record.Cluster // clusters that will be taken, and are saving work
	began  time.Time        // when a task of the job last got machines or started
	serves bool             // a replica of one of the job's services is ready
}

// noteProgress keeps the latest time at which a task of the job got machines or started.
func (p *planning) noteProgress(at time.Time) {
	if at.After(p.began) {
		p.began = at
	}
}

// solution is a plan with its bids. An infeasible plan has no bids, and may become feasible when blocks have ended.
type solution struct {
	plan  *record.Plan
	bids  record.Bids
	opens jobstate.Opening
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
			made.opens, err = jobstate.Opens(on.in, func(in planinput.Input) (*record.Plan, error) {
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

// DryRun plans a job that is not submitted, with the current blocks and prices. It adds the learned run times of the
// tasks to spec.
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

// DryInput returns the planner's input for a job that is not submitted. It adds the learned run times of the tasks to
// spec.
func (b *Users) DryInput(ctx context.Context, spec *dag.Job) (in planinput.Input, err error) {
	u := b.txns.NewUnit(ctx, events.FnOptimize)
	filled, err := history.LoadAndFill(u, spec)
	if err != nil {
		return in, err
	}
	*spec = *filled
	in = planinput.Input{Spec: spec.WithWorkers(), Now: u.Now}
	in.Tasks = make([]*planinput.Facts, len(in.Spec.Tasks))
	in.Left(newJob("", "", Submission{Spec: spec}, record.Blob{}, u.Now), record.Ledger{}, nil, 0)
	if err := loadPlaced(u, &in, nil); err != nil {
		return in, err
	}
	return in, loadWorld(u, b.ports.Planner, &in)
}

// commitPlan commits a plan with its bids, or the consequence of an infeasible plan.
func (b *Functions) commitPlan(u *txn.Unit, job record.Job, made *solution, on planning) error {
	if bad := made.plan.Status == record.PlanInfeasible; len(on.saving) > 0 &&
		(bad || made.plan.Late && !on.in.Previous.Late) {
		return u.Apply(jobstate.DecidePostponePlan(job, on.saving[0]))
	} else if bad {
		return u.Apply(jobstate.DecideInfeasible(job, jobstate.NoPlan{
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
	return u.Apply(jobstate.DecidePlanned(job, plan, made.plan))
}

// keepBids stores new bids and makes the job use them.
func (b *Functions) keepBids(u *txn.Unit, job *record.Job, bids record.Bids) (err error) {
	job.Waits = len(bids.Begin) > 0
	job.Bids, err = b.keep(u, job.ID, "bids", bids.Plan, bids)
	return err
}

// keep stores a value of a job that is too large for a record.
func (b *Functions) keep(u *txn.Unit, job, name string, version int, value any) (record.Blob, error) {
	p, err := txn.Pack(job, name, version, record.ShortHash(u.Cause), value)
	if err == nil {
		err = p.Save(u.Ctx, b.ports.Store, u)
	}
	return p.Blob, err
}

// addFailed excludes from a plan the tasks that have failed for good, or will not run because of a failure.
func addFailed(u *txn.Unit, job record.Job, in *planinput.Input) error {
	if !job.Continues() {
		return nil // a failure ends such a job
	}
	progress, _, err := recordcache.Get[record.Progress](u, record.ProgressKey(job.ID))
	for i, phase := range progress.Phases {
		if record.NeverRuns(phase) {
			in.Tasks[i] = &planinput.Facts{Done: true}
		}
	}
	return err
}

// loadPlanning loads all inputs of a plan, as they are at a time.
func (b *Functions) loadPlanning(u *txn.Unit, job record.Job, at time.Time) (p planning, err error) {
	in := &p.in
	if in.Spec, err = u.Spec(job); err != nil {
		return p, err
	}
	in.Job, in.Now, in.Tasks = job.ID, at, make([]*planinput.Facts, len(in.Spec.Tasks))
	if err := loadWorld(u, b.ports.Planner, in); err != nil {
		return p, err
	}
	var clusters []record.Cluster
	if !job.Plan.IsZero() {
		if in.Previous, err = u.Plan(job); err != nil {
			return p, err
		}
	}
	if !job.Plan.IsZero() || len(job.From) > 0 {
		if p.tasks, clusters, err = attempt.TasksNow(u, job.ID); err != nil {
			return p, err
		}
	}
	for _, t := range p.tasks {
		p.noteProgress(t.StartedAt)
		if record.IsWorker(in.Spec, t.Index) && (t.State == record.TaskSucceeded || t.State == record.TaskFailed) {
			continue // the machine can be bought again
		}
		in.Tasks[t.Index] = planinput.FactsOf(t, in.Previous, at)
		if t.State == record.TaskAdmitted && record.IsWorker(in.Spec, t.Index) && in.Previous.Of(t.Index) != nil {
			in.Tasks[t.Index].Place = record.Place(in.Previous.Of(t.Index).Offer)
			in.Tasks[t.Index].Fixed = true // the machine is about to be bought
		}
	}
	if err := addFailed(u, job, in); err != nil {
		return p, err
	}
	in.WithLeads()
	if err := loadPlaced(u, in, p.addClusters(clusters)); err != nil {
		return p, err
	}
	var ledger record.Ledger
	if job.BudgetUSD > 0 {
		if ledger, _, err = recordcache.Get[record.Ledger](u, record.LedgerKey(job.ID)); err != nil {
			return p, err
		}
	}
	in.Left(job, ledger, clusters, b.cfg.Overhead)
	return p, nil
}

// addClusters adds the state of the job's clusters, and returns the clusters that are about to leave.
func (p *planning) addClusters(clusters []record.Cluster) (leaving []record.Cluster) {
	for _, cl := range clusters {
		p.noteProgress(cl.Launched)
		p.serves = p.serves || cl.Serves()
		if cl.Saving() {
			p.saving = append(p.saving, cl)
		}
		i, ok := record.TaskAt(p.tasks, cl.Task)
		if cl.Saving() || ok && p.tasks[i].Service != "" && p.tasks[i].State == record.TaskQueued {
			leaving = append(leaving, cl)
		}
	}
	return leaving
}

// loadPlaced loads the placements of other tasks to which placement rules refer, except those of the job's own
// clusters that are about to leave.
func loadPlaced(u *txn.Unit, in *planinput.Input, leaving []record.Cluster) error {
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
	placed, clusters, err := recordcache.Others(u, in.Job, keys)
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
		if p.Job == in.Job || record.KeepsApart(in.Spec, p.Location) {
			known, asked = append(known, p), append(asked, clusters[i])
		}
	}
	in.Stood, err = recordcache.Staying(u, known, asked)
	return err
}

// loadWorld loads the observed blocks and markets.
func loadWorld(u *txn.Unit, p Planner, in *planinput.Input) error {
	known, err := recordcache.List[apitypes.Block](u, record.PartBlocks, "", 0)
	if err != nil {
		return err
	}
	for _, k := range known {
		if k.Until.After(in.Now) {
			in.Blocks = append(in.Blocks, k)
		}
	}
	markets, err := recordcache.List[record.MarketRecord](u, record.PartMarket, "", 0)
	if err != nil {
		return err
	}
	in.Markets = make(map[string]record.MarketRecord, len(markets))
	for _, m := range markets {
		in.Markets[m.Offer] = m
	}
	learned, err := history.Known(u, in.Spec.Name)
	if err != nil {
		return err
	}
	in.Boots = learned.Boots
	if !p.Reserves(u.Ctx) {
		return nil
	}
	return loadHeld(u, in)
}

// loadHeld loads the tasks that run on reserved capacity.
func loadHeld(u *txn.Unit, in *planinput.Input) error {
	all, err := recordcache.List[record.Occupancy](u, record.PartHeld, "", 0)
	if err != nil || len(all) == 0 {
		return err
	}
	there, err := recordcache.Holders(u, all...)
	if err != nil {
		return err
	}
	in.Held = map[string][]planinput.Holding{}
	for _, h := range all {
		for _, cl := range there {
			if n := h.Clusters[cl.ID]; n > 0 && cl.Holds() {
				_, takes := cl.Offer.Room(n)
				in.Held[h.ID] = append(in.Held[h.ID], planinput.Holding{Job: cl.Job, Task: cl.Task, Takes: takes})
			}
		}
	}
	return nil
}
