package broker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// JobView is a job as users see it: the API's and the command line's JSON.
type JobView struct {
	ID          string    `json:"id" doc:"Job ID"`
	Name        string    `json:"name" doc:"Name its author gave it"`
	Queue       string    `json:"queue" doc:"Queue it runs in"`
	State       JobState  `json:"state" doc:"planning, waiting, running, ending, succeeded, failed or cancelled"`
	Reason      string    `json:"reason,omitempty" doc:"Why it failed, or what it waits for"`
	Objective   string    `json:"objective" doc:"cost or makespan"`
	Submitted   time.Time `json:"submitted" doc:"When it was submitted"`
	Finished    time.Time `json:"finished,omitzero" doc:"When it ended"`
	Deadline    time.Time `json:"deadline,omitzero" doc:"When it has to be done"`
	BudgetUSD   float64   `json:"budgetUSD,omitempty" doc:"The most it may cost, USD"`
	Tasks       int       `json:"tasks" doc:"Number of tasks"`
	Succeeded   int       `json:"succeeded" doc:"Tasks that are done"`
	SpentUSD    float64   `json:"spentUSD" doc:"Cost so far, machines that run now included, USD"`
	PlannedUSD  float64   `json:"plannedUSD" doc:"Expected cost by the first plan, USD"`
	OnDemandUSD float64   `json:"onDemandUSD" doc:"The same work on demand at its cheapest, with the data it moves, USD"`
	Plan        int       `json:"plan" doc:"Version of the plan in force, 0 before the first"`
	Late        bool      `json:"late,omitempty" doc:"The deadline cannot be or was not kept"`
	Source      string    `json:"source,omitempty" doc:"Where it came from"`
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
	Waits      string    `json:"waits,omitempty" doc:"What it waits for, where that is a better price"`
	USD        float64   `json:"usd" doc:"Cost so far, USD"`
}

// JobDetail is a job with its tasks and its plans.
type JobDetail struct {
	JobView
	TaskList []TaskView `json:"taskList" doc:"The tasks in the order of the file"`
	Plans    []PlanHead `json:"plans" doc:"The plans, the last one in force"`
	Attempts []Attempt  `json:"attempts" doc:"Every attempt with what was bought and how it ended"`
	Next     int        `json:"next,omitempty" doc:"Index of the first task that is not among these, where there is one: after of the call that continues it"`

	seen sight
}

// jobsAtOnce is how many jobs are read together: their three records fit one request of a store.
const jobsAtOnce = 33

// Jobs lists up to limit jobs, the newest first, of those after the place where an earlier list ended; "" begins. next is the place where this one
// ends, "" when there are no more.
func (b *Broker) Jobs(ctx context.Context, after string, limit int) (views []JobView, next string, err error) {
	lines, more, err := b.store.Query(ctx, partJobs, "", store.Page{After: after, Limit: limit})
	if err != nil {
		return nil, "", err
	}
	if more {
		next = lines[len(lines)-1].Key.Sort
	}
	views = make([]JobView, 0, len(lines))
	for some := range slices.Chunk(lines, jobsAtOnce) {
		u := b.newUnit(ctx, "api")
		var keys []store.Key
		for _, line := range some {
			_, id, _ := strings.Cut(line.Key.Sort, "#")
			keys = append(keys, jobKey(id), progressKey(id), ledgerKey(id))
		}
		if err := u.preload(keys...); err != nil {
			return nil, "", err
		}
		for i := 0; i < len(keys); i += 3 {
			job, found, err := get[Job](u, keys[i])
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

// JobView loads what users see of a job. It fails with ErrNotFound.
func (b *Broker) JobView(ctx context.Context, id string) (JobView, error) {
	u := b.newUnit(ctx, "api")
	job, found, err := get[Job](u, jobKey(id))
	if err != nil {
		return JobView{}, err
	}
	if !found {
		return JobView{}, fmt.Errorf("job %s: %w", id, ErrNotFound)
	}
	v, _, err := b.viewOf(u, job)
	return v, err
}

// viewOf makes the view of a job, and returns its clusters while it is open.
func (b *Broker) viewOf(u *unit, job Job) (v JobView, clusters []Cluster, err error) {
	v = JobView{
		ID: job.ID, Name: job.Name, Queue: job.Queue, State: job.State, Reason: job.Reason, Objective: string(job.Objective),
		Submitted: job.Submitted, Finished: job.Finished, Deadline: job.Deadline, BudgetUSD: job.BudgetUSD,
		Tasks: job.Tasks, SpentUSD: job.USD, PlannedUSD: job.PlannedUSD,
		OnDemandUSD: job.OnDemandUSD, Plan: job.Plan.Version, Late: job.Late, Source: job.Source,
	}
	progress, _, err := get[Progress](u, progressKey(job.ID))
	if err != nil {
		return v, nil, err
	}
	v.Succeeded = progress.Succeeded
	if job.State.Over() {
		return v, nil, nil
	}
	ledger, _, err := get[Ledger](u, ledgerKey(job.ID))
	if err != nil {
		return v, nil, err
	}
	v.SpentUSD = ledger.SpentUSD
	if ledger.Outstanding == 0 { // no attempt holds machines
		return v, nil, nil
	}
	clusters, err = list[Cluster](u, jobPart(job.ID), clusterPrefix, 0)
	if err != nil {
		return v, nil, err
	}
	for _, cl := range clusters {
		v.SpentUSD += cl.accrued(u.now)
	}
	return v, clusters, nil
}

// accrued is what a cluster has cost so far, USD.
func (c Cluster) accrued(now time.Time) float64 {
	if c.Launched.IsZero() {
		return 0
	}
	return c.charged(now)
}

// tellTasks completes tasks, in the order of their keys, by what clusters have seen of them.
func tellTasks(clusters []Cluster, tasks []Task) {
	for i := range clusters {
		if j, ok := taskAt(tasks, clusters[i].Task); ok {
			clusters[i].tellTask(&tasks[j])
		}
	}
}

// taskAt finds a task by its index in the job.
func taskAt(tasks []Task, index int) (at int, ok bool) {
	return slices.BinarySearchFunc(tasks, index, func(t Task, index int) int { return cmp.Compare(t.Index, index) })
}

// taskViews makes the views of the tasks from one index to below another, of which the records are given.
func taskViews(job Job, spec *dag.Job, plan *Plan, tasks []Task, attempts []Attempt, from, to int) []TaskView {
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
		if a.Number == v.Attempts && v.State != string(TaskQueued) {
			v.Offer, v.USDPerHour = a.OfferID, a.Offer.USDPerHour
			if a.RateUSD > 0 {
				v.USDPerHour = a.RateUSD
			}
		}
	}
	if job.State == JobEnding || job.State.Over() {
		for i := range views {
			if s := views[i].State; s != string(TaskSucceeded) && s != string(TaskFailed) {
				views[i].State = "cancelled"
			}
		}
	}
	return views
}

// Queues lists the queues that were configured or used.
func (b *Broker) Queues(ctx context.Context) ([]Queue, error) {
	return list[Queue](b.newUnit(ctx, "api"), partQueues, "", 0)
}

// SetQueue creates a queue or changes its settings; what is in use stays as it is. It fails with ErrQueue.
func (b *Broker) SetQueue(ctx context.Context, name string, s QueueSettings) error {
	return b.transact(ctx, "api", "queue/"+name+"/"+b.now().Format(time.RFC3339Nano), false, func(u *unit) error {
		d, err := decideSetQueue(u, b.cfg, name, s)
		if err != nil {
			return err
		}
		return u.apply(d)
	})
}

// Waiting lists up to limit tasks of a queue that wait, in the order in which they will be admitted.
func (b *Broker) Waiting(ctx context.Context, queue string, limit int) ([]Waiting, error) {
	return list[Waiting](b.newUnit(ctx, "api"), waitPart(queue), "wait#", limit)
}

// Blocks lists the locations that are not tried now.
func (b *Broker) Blocks(ctx context.Context) ([]Block, error) {
	u := b.newUnit(ctx, "api")
	all, err := list[Block](u, partBlocks, "", 0)
	return slices.DeleteFunc(all, func(k Block) bool { return !k.Until.After(u.now) }), err
}
