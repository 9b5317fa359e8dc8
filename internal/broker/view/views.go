package view

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/admission"
	"github.com/tradewind-broker/tradewind/internal/broker/pool"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Views makes views of records for users and clients. It changes nothing.
type Views struct {
	txns     *txn.Transactor
	pools    *pool.Keeper
	sessions *admission.Runner
}

// New makes the views of the records that txns reads.
func New(txns *txn.Transactor, pools *pool.Keeper, sessions *admission.Runner) *Views {
	return &Views{txns: txns, pools: pools, sessions: sessions}
}

// StateOf returns the state of a job for users. Suspension is recorded separately from the job's own state.
func StateOf(job record.Job, ledger record.Ledger) apitypes.JobState {
	switch {
	case job.Suspended() == nil, job.State == apitypes.JobEnding, job.State.Finished():
		return job.State
	case ledger.Outstanding > 0:
		return apitypes.JobSuspending
	}
	return apitypes.JobSuspended
}

// jobsAtOnce is the number of jobs that are read together. Their three records fit into one request to the store.
const jobsAtOnce = 33

// Jobs lists up to limit jobs, the newest first. It starts where an earlier list ended (after), or with the newest if
// after is "". next is the end of this list, or "" if there are no more jobs.
func (b *Views) Jobs(ctx context.Context, after string, limit int) (views []apitypes.JobView, next string, err error) {
	lines, more, err := b.txns.Store.Query(ctx, record.PartJobs, "", store.Page{After: after, Limit: limit})
	if err != nil {
		return nil, "", err
	}
	if more {
		next = lines[len(lines)-1].Key.Sort
	}
	views = make([]apitypes.JobView, 0, len(lines))
	for some := range slices.Chunk(lines, jobsAtOnce) {
		u := b.txns.NewUnit(ctx, "api")
		var keys []store.Key
		for _, line := range some {
			_, id, _ := strings.Cut(line.Key.Sort, "#")
			keys = append(keys, record.JobKey(id), record.ProgressKey(id), record.LedgerKey(id))
		}
		if err := u.Preload(keys...); err != nil {
			return nil, "", err
		}
		for i := 0; i < len(keys); i += 3 {
			job, found, err := recordcache.Get[record.Job](u, keys[i])
			if err != nil {
				return nil, "", err
			}
			if !found || !job.Past.Gone.IsZero() {
				continue
			}
			v, _, err := b.viewOf(u, job)
			if err != nil {
				return nil, "", err
			}
			views = append(views, v)
		}
	}
	return views, next, nil
}

// LoadJob loads a job. It fails with ErrNotFound.
func LoadJob(u *txn.Unit, id string) (record.Job, error) {
	job, found, err := recordcache.Get[record.Job](u, record.JobKey(id))
	switch {
	case !found:
		err = record.NotFound(err, "job "+id)
	case !job.Past.Gone.IsZero():
		err = fmt.Errorf("job %s %w: it %s", id, record.ErrNotFound, job.Past)
	}
	return job, err
}

// JobView loads the view of a job. It fails with ErrNotFound.
func (b *Views) JobView(ctx context.Context, id string) (v apitypes.JobView, err error) {
	u := b.txns.NewUnit(ctx, "api")
	job, err := LoadJob(u, id)
	if err == nil {
		v, _, err = b.viewOf(u, job)
	}
	return v, err
}

// Document returns the document from which an API made the job, or "". It fails with ErrNotFound.
func (b *Views) Document(ctx context.Context, id string) (string, error) {
	u := b.txns.NewUnit(ctx, "api")
	job, err := LoadJob(u, id)
	if err != nil {
		return "", err
	}
	spec, err := u.Spec(job)
	if err != nil {
		return "", err
	}
	return spec.Document, nil
}

// simulated reports whether a job costs nothing because its machines are simulated. A job that was submitted to a
// simulation continues on bought machines if a broker that buys resumes it.
func (b *Views) simulated(job record.Job) bool {
	return job.Simulated && (job.State.Finished() || b.txns.Config.BuysNothing)
}

// viewOf makes the view of a job, and returns its clusters if it has not finished.
func (b *Views) viewOf(u *txn.Unit, job record.Job) (v apitypes.JobView, clusters []record.Cluster, err error) {
	v = apitypes.JobView{
		ID: job.ID, Name: job.Name, Queue: job.Queue, State: job.State, Reason: job.Reason,
		Objective: string(job.Objective),
		Submitted: job.Submitted, Finished: job.Finished, Deadline: job.Deadline, BudgetUSD: job.BudgetUSD,
		Tasks: job.Tasks, SpentUSD: job.USD, PlannedUSD: job.PlannedUSD,
		OnDemandUSD: job.OnDemandUSD, Plan: job.Plan.Version, Late: job.Late, Source: job.Source, Update: job.Update,
		Expires: job.Past.Expires,
	}
	v.Simulated = b.simulated(job)
	if v.Simulated && job.TimeScale != 1 {
		v.TimeScale = job.TimeScale
	}
	progress, _, err := recordcache.Get[record.Progress](u, record.ProgressKey(job.ID))
	if err != nil {
		return v, nil, err
	}
	v.Succeeded = progress.Succeeded
	if job.State.Finished() {
		return v, nil, nil
	}
	ledger, _, err := recordcache.Get[record.Ledger](u, record.LedgerKey(job.ID))
	if err != nil {
		return v, nil, err
	}
	v.SpentUSD = ledger.SpentUSD
	v.State = StateOf(job, ledger)
	if p := job.Suspended(); p != nil && v.State != job.State {
		v.Suspended = *p
	}
	if v.Reason == "" && job.PlanTries.Failed > 0 {
		v.Reason = job.PlanTries.String()
	}
	if v.Reason == "" && job.State == apitypes.JobRunning {
		v.Reason = b.sessions.PausedBecause()
	}
	if ledger.Outstanding == 0 { // no attempt holds machines
		return v, nil, nil
	}
	clusters, err = recordcache.List[record.Cluster](u, record.JobPart(job.ID), record.ClusterPrefix, 0)
	if err != nil {
		return v, nil, err
	}
	for _, cl := range clusters {
		v.SpentUSD += cl.Accrued(u.Now)
	}
	return v, clusters, nil
}

// taskViews returns the views of the tasks with index from up to but excluding to, from their records.
func taskViews(job record.Job, spec *dag.Job, plan *record.Plan, tasks []record.Task, attempts []apitypes.Attempt, from,
	to int) []apitypes.TaskView {
	views := make([]apitypes.TaskView, to-from)
	g := spec.Graph()
	for i := from; i < to; i++ {
		v := apitypes.TaskView{Index: i, Name: spec.Tasks[i].Name, State: "waiting", Nodes: spec.Tasks[i].Nodes,
			Unsaved: !spec.Tasks[i].Resumes() && spec.Tasks[i].Service == nil}
		for _, p := range g.Parents(i) {
			v.After = append(v.After, int(p))
		}
		if plan != nil {
			if c := plan.Of(i); c != nil {
				v.Offer, v.USDPerHour, v.Hours = c.ID, c.Offer.USDPerHour, plan.TaskHours[i]
				v.Nodes = record.NodesOn(&spec.Tasks[i], c)
				v.Accelerators = accelerators(c.Offer)
			}
		}
		views[i-from] = v
	}
	for _, t := range tasks {
		v := &views[t.Index-from]
		v.State, v.Attempts, v.Progress = string(t.State), t.Attempt, t.Progress
		v.Started, v.Ended, v.Reason = t.StartedAt, t.EndedAt, t.Reason
		v.Unsaved = v.Unsaved && t.Checkpoint.Seq == 0
	}
	for _, a := range attempts {
		v := &views[a.Task-from]
		v.USD += a.USD
		if a.Started.After(v.Started) { // for a cancelled task, only the attempt has the start
			v.Started = a.Started
		}
		if a.Number != v.Attempts || v.State == string(record.TaskQueued) {
			continue
		}
		if _, shared := a.Shares(); shared {
			v.USDPerHour = 0 // the worker, which is planned at v.Offer, has the cost
		} else {
			v.Offer, v.USDPerHour = a.OfferID, a.Offer.USDPerHour
			if spec.Tasks[a.Task].MaxNodes > 0 {
				v.Nodes = a.Nodes
			}
			v.Accelerators = accelerators(a.Offer)
			if a.RateUSD > 0 {
				v.USDPerHour = a.RateUSD
			}
		}
	}
	if job.State == apitypes.JobEnding || job.State.Finished() {
		for i := range views {
			if s := views[i].State; s != string(record.TaskSucceeded) && s != string(record.TaskFailed) {
				views[i].State = "cancelled"
			}
		}
	}
	return views
}

// accelerators returns the accelerators of a machine as text, TYPE:COUNT.
func accelerators(o apitypes.Offer) string {
	if o.Accelerator == "" {
		return ""
	}
	return dag.AcceleratorKey(o.Accelerator, o.AccelCount)
}

// Queues lists the queues that have settings or were used.
func (b *Views) Queues(ctx context.Context) ([]apitypes.Queue, error) {
	u := b.txns.NewUnit(ctx, "api")
	queues, err := recordcache.List[apitypes.Queue](u, record.PartQueues, "", 0)
	record.Months(queues, u.Now)
	return queues, err
}

// Waiting lists up to limit waiting tasks of a queue, in the order in which they will be admitted.
func (b *Views) Waiting(ctx context.Context, queue string, limit int) ([]apitypes.Waiting, error) {
	return recordcache.List[apitypes.Waiting](b.txns.NewUnit(ctx, "api"), record.WaitPart(queue), "wait#", limit)
}

// Blocks lists the locations that are blocked now.
func (b *Views) Blocks(ctx context.Context) ([]apitypes.Block, error) {
	u := b.txns.NewUnit(ctx, "api")
	all, err := recordcache.List[apitypes.Block](u, record.PartBlocks, "", 0)
	return slices.DeleteFunc(all, func(k apitypes.Block) bool { return !k.Until.After(u.Now) }), err
}
