package view

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/admission"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/pool"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Views shows what is recorded to people and programs. It changes nothing.
type Views struct {
	txns     *unit.Transactor
	pools    *pool.Keeper
	sessions *admission.Runner
}

// New makes the views of the records that txns reads.
func New(txns *unit.Transactor, pools *pool.Keeper, sessions *admission.Runner) *Views {
	return &Views{txns: txns, pools: pools, sessions: sessions}
}

// JobView is a job as users see it: the API's and the command line's JSON.
type JobView struct {
	ID          string          `json:"id" doc:"Job ID"`
	Name        string          `json:"name" doc:"Name its author gave it"`
	Queue       string          `json:"queue" doc:"Queue it runs in"`
	State       record.JobState `json:"state" doc:"planning, waiting, running, suspending, suspended, ending, succeeded, failed or cancelled"`
	Reason      string          `json:"reason,omitempty" doc:"Why it failed, or what it waits for"`
	Objective   string          `json:"objective" doc:"cost or makespan"`
	Submitted   time.Time       `json:"submitted" doc:"When it was submitted"`
	Finished    time.Time       `json:"finished,omitzero" doc:"When it ended"`
	Deadline    time.Time       `json:"deadline,omitzero" doc:"When it has to be done"`
	BudgetUSD   float64         `json:"budgetUSD,omitempty" doc:"The most it may cost, USD"`
	Tasks       int             `json:"tasks" doc:"Number of tasks"`
	Succeeded   int             `json:"succeeded" doc:"Tasks that are done"`
	SpentUSD    float64         `json:"spentUSD" doc:"Cost so far, machines that run now included, USD"`
	PlannedUSD  float64         `json:"plannedUSD" doc:"Expected cost by the first plan, USD"`
	OnDemandUSD float64         `json:"onDemandUSD" doc:"The same work on demand at its cheapest, with the data it moves, USD"`
	Plan        int             `json:"plan" doc:"Version of the plan in force, 0 before the first"`
	Late        bool            `json:"late,omitempty" doc:"The deadline cannot be or was not kept"`
	Source      string          `json:"source,omitempty" doc:"Where it came from"`

	Update    record.Update     `json:"update,omitzero" doc:"The last update of its services"`
	Suspended record.Suspension `json:"suspended,omitzero" doc:"While it is suspended: who has it wait, since when and why"`
}

// What a job is called that is suspended: while it still holds machines, whose work is being saved, and after.
const (
	Suspending record.JobState = "suspending"
	Suspended  record.JobState = "suspended"
)

// StateOf is a job's state as users see it: suspending is beside a job's own, which goes on.
func StateOf(job record.Job, ledger record.Ledger) record.JobState {
	switch {
	case job.Suspended() == nil, job.State == record.JobEnding, job.State.Over():
		return job.State
	case ledger.Outstanding > 0:
		return Suspending
	}
	return Suspended
}

// TaskView is a task as users see it.
type TaskView struct {
	Index      int       `json:"index" doc:"Index in the job"`
	Name       string    `json:"name" doc:"Name of the task"`
	State      string    `json:"state" doc:"waiting, queued, admitted, launching, running, succeeded, failed or cancelled"`
	After      []int     `json:"after,omitempty" doc:"Indexes of the tasks it waits for"`
	Offer      string    `json:"offer,omitempty" doc:"Where it runs, ran, or is planned to run"`
	Nodes      int       `json:"nodes" doc:"Number of machines"`
	USDPerHour float64   `json:"usdPerHour,omitempty" doc:"Price of one machine, USD per hour"`
	Hours      float64   `json:"hours,omitempty" doc:"Expected run time, hours"`
	Attempts   int       `json:"attempts" doc:"Attempts so far"`
	Progress   float64   `json:"progress,omitempty" doc:"Share of the work saved, 0 to 1"`
	Started    time.Time `json:"started,omitzero" doc:"When the last attempt started"`
	Ended      time.Time `json:"ended,omitzero" doc:"When it ended"`
	Reason     string    `json:"reason,omitempty" doc:"Why it failed"`
	KeptUntil  time.Time `json:"keptUntil,omitzero" doc:"Until when the machines of its last failed attempt are kept to be looked at"`
	Service    string    `json:"service,omitempty" doc:"The service that it is a replica of"`
	Ready      bool      `json:"ready,omitempty" doc:"Of a replica: it can be used"`
	Address    string    `json:"address,omitempty" doc:"Of a replica that is ready: where, HOST:PORT"`
	Unready    string    `json:"unready,omitempty" doc:"Of a replica that was ready: why it is not any more"`
	Waits      string    `json:"waits,omitempty" doc:"What it waits for, where that is a better price"`
	USD        float64   `json:"usd" doc:"Cost so far, USD"`
}

// JobDetail is a job with its tasks and its plans.
type JobDetail struct {
	JobView
	TaskList []TaskView        `json:"taskList" doc:"The tasks in the order of the file"`
	Services []ServiceView     `json:"services,omitempty" doc:"The services in the order of the file, with the first tasks"`
	Plans    []record.PlanHead `json:"plans" doc:"The plans, the last one in force"`
	Attempts []record.Attempt  `json:"attempts" doc:"Every attempt with what was bought and how it ended"`
	Next     int               `json:"next,omitempty" doc:"Index of the first task that is not among these, where there is one: after of the call that continues it"`

	seen sight
	plan *record.Plan // in force; nil before the first

	suspensions []record.Suspension
}

// jobsAtOnce is how many jobs are read together: their three records fit one request of a store.
const jobsAtOnce = 33

// Jobs lists up to limit jobs, the newest first, of those after the place where an earlier list ended; "" begins. next
// is the place where this one ends, "" when there are no more.
func (b *Views) Jobs(ctx context.Context, after string, limit int) (views []JobView, next string, err error) {
	lines, more, err := b.txns.Store.Query(ctx, record.PartJobs, "", store.Page{After: after, Limit: limit})
	if err != nil {
		return nil, "", err
	}
	if more {
		next = lines[len(lines)-1].Key.Sort
	}
	views = make([]JobView, 0, len(lines))
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
			job, found, err := book.Get[record.Job](u, keys[i])
			if err != nil {
				return nil, "", err
			}
			if !found {
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
func LoadJob(u *unit.Unit, id string) (record.Job, error) {
	job, found, err := book.Get[record.Job](u, record.JobKey(id))
	if !found {
		err = record.NotFound(err, "job "+id)
	}
	return job, err
}

// JobView loads what users see of a job. It fails with ErrNotFound.
func (b *Views) JobView(ctx context.Context, id string) (v JobView, err error) {
	u := b.txns.NewUnit(ctx, "api")
	job, err := LoadJob(u, id)
	if err == nil {
		v, _, err = b.viewOf(u, job)
	}
	return v, err
}

// Document is what an API made a job of; "" of other jobs. It fails with ErrNotFound.
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

// viewOf makes the view of a job, and returns its clusters while it is open.
func (b *Views) viewOf(u *unit.Unit, job record.Job) (v JobView, clusters []record.Cluster, err error) {
	v = JobView{
		ID: job.ID, Name: job.Name, Queue: job.Queue, State: job.State, Reason: job.Reason,
		Objective: string(job.Objective),
		Submitted: job.Submitted, Finished: job.Finished, Deadline: job.Deadline, BudgetUSD: job.BudgetUSD,
		Tasks: job.Tasks, SpentUSD: job.USD, PlannedUSD: job.PlannedUSD,
		OnDemandUSD: job.OnDemandUSD, Plan: job.Plan.Version, Late: job.Late, Source: job.Source, Update: job.Update,
	}
	progress, _, err := book.Get[record.Progress](u, record.ProgressKey(job.ID))
	if err != nil {
		return v, nil, err
	}
	v.Succeeded = progress.Succeeded
	if job.State.Over() {
		return v, nil, nil
	}
	ledger, _, err := book.Get[record.Ledger](u, record.LedgerKey(job.ID))
	if err != nil {
		return v, nil, err
	}
	v.SpentUSD = ledger.SpentUSD
	v.State = StateOf(job, ledger)
	if p := job.Suspended(); p != nil && v.State != job.State {
		v.Suspended = *p
	}
	if ledger.Outstanding == 0 { // no attempt holds machines
		return v, nil, nil
	}
	clusters, err = book.List[record.Cluster](u, record.JobPart(job.ID), record.ClusterPrefix, 0)
	if err != nil {
		return v, nil, err
	}
	for _, cl := range clusters {
		v.SpentUSD += cl.Accrued(u.Now)
	}
	return v, clusters, nil
}

// taskViews makes the views of the tasks from one index to below another, of which the records are given.
func taskViews(job record.Job, spec *dag.Job, plan *record.Plan, tasks []record.Task, attempts []record.Attempt, from,
	to int) []TaskView {
	views := make([]TaskView, to-from)
	g := spec.Graph()
	for i := from; i < to; i++ {
		v := TaskView{Index: i, Name: spec.Tasks[i].Name, State: "waiting", Nodes: spec.Tasks[i].Nodes}
		for _, p := range g.Parents(i) {
			v.After = append(v.After, int(p))
		}
		if plan != nil {
			if c := plan.Of(i); c != nil {
				v.Offer, v.USDPerHour, v.Hours = c.ID, c.Offer.USDPerHour, plan.TaskHours[i]
			}
		}
		views[i-from] = v
	}
	for _, t := range tasks {
		v := &views[t.Index-from]
		v.State, v.Attempts, v.Progress = string(t.State), t.Attempt, t.Progress
		v.Started, v.Ended, v.Reason = t.StartedAt, t.EndedAt, t.Reason
	}
	for _, a := range attempts {
		v := &views[a.Task-from]
		v.USD += a.USD
		if a.Started.After(v.Started) { // of a task that was cancelled only its attempt says it
			v.Started = a.Started
		}
		if a.Number == v.Attempts && v.State != string(record.TaskQueued) {
			v.Offer, v.USDPerHour = a.OfferID, a.Offer.USDPerHour
			if a.RateUSD > 0 {
				v.USDPerHour = a.RateUSD
			}
		}
	}
	if job.State == record.JobEnding || job.State.Over() {
		for i := range views {
			if s := views[i].State; s != string(record.TaskSucceeded) && s != string(record.TaskFailed) {
				views[i].State = "cancelled"
			}
		}
	}
	return views
}

// Queues lists the queues that were configured or used.
func (b *Views) Queues(ctx context.Context) ([]record.Queue, error) {
	u := b.txns.NewUnit(ctx, "api")
	queues, err := book.List[record.Queue](u, record.PartQueues, "", 0)
	record.Months(queues, u.Now)
	return queues, err
}

// Waiting lists up to limit tasks of a queue that wait, in the order in which they will be admitted.
func (b *Views) Waiting(ctx context.Context, queue string, limit int) ([]record.Waiting, error) {
	return book.List[record.Waiting](b.txns.NewUnit(ctx, "api"), record.WaitPart(queue), "wait#", limit)
}

// Blocks lists the locations that are not tried now.
func (b *Views) Blocks(ctx context.Context) ([]record.Block, error) {
	u := b.txns.NewUnit(ctx, "api")
	all, err := book.List[record.Block](u, record.PartBlocks, "", 0)
	return slices.DeleteFunc(all, func(k record.Block) bool { return !k.Until.After(u.Now) }), err
}
