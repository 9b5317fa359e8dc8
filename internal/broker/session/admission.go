package session

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/bid"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// side is the data that all waiting tasks of one job share: the job and its ledger. So money that is reserved for one
// task is visible to the others.
type side struct {
	job    record.Job
	ledger record.Ledger
	spec   *dag.Job // set if the job has a plan, like plan
	plan   *record.Plan
	// groups are the job's rules that spread or pack machines. ruled states whether placement rules apply to any of
	// its tasks.
	groups []dag.PlacementGroup
	ruled  bool
	crew   *crew         // the job's workers; nil until a task needs them
	crews  map[int][]int // the worker tasks of the plan, by share group
	graph  *dag.Graph    // nil if no task depends on another, or if it is not needed yet
	ranks  map[int]int64 // ranks of tasks, see rank
}

// admission is a session's data about one waiting task. Every decision on the task is based on it.
type admission struct {
	*side
	queue   *apitypes.Queue
	waiting apitypes.Waiting
	task    record.Task
	name    string
	nodes   int
	with    *together // the tasks that are admitted together with it: its gang, or only the task
	blocked bool      // the planned location must not be tried now
	// for a task that joins a gang: the gang's cluster, which must run; nil if it does not run
	lead         *record.Key
	activeMember *record.Key  // for a task that restarts alone: another active task of its gang; nil if there is none
	pool         *pooled      // the pool machines that the task gets; nil if machines are bought
	awaits       bool         // the task waits for room that is being made in a pool
	clash        *clash       // the placement rule that the planned location violates, or nil
	price        *bid.Waiting // the better price for which the task may wait, or nil
	unneeded     bool         // the task is a worker that no task needs any more
}

// vcpu returns the number of vCPUs of all machines of the task, which are bought together or not at all. It is 0 for
// a task that shares machines, because its worker holds them.
func (a *admission) vcpu() float64 {
	if a.shares() {
		return 0
	}
	return a.plan.Of(a.waiting.Task).VCPU * float64(a.nodes)
}

// slots returns the number of running tasks of its queue as which the task counts. It is 0 if the task shares
// machines, because its worker counts as one. Otherwise a queue that is full of workers would have no room for the
// tasks for which they were bought.
func (a *admission) slots() int {
	if a.shares() {
		return 0
	}
	return 1
}

// lacksWorker reports whether the task shares machines and has no place on a worker.
func (a *admission) lacksWorker() bool { return a.pool == nil && a.shares() }

// holds returns the amounts that the task would hold in addition to vCPUs.
func (a *admission) holds() apitypes.Amounts {
	if a.shares() {
		return nil
	}
	return a.plan.Of(a.waiting.Task).Holds(a.nodes)
}

// needs returns the amounts that the task would hold of all resources that queues can limit, vCPUs included.
func (a *admission) needs() apitypes.Amounts {
	return a.holds().Plus(apitypes.Amounts{apitypes.VCPUs: a.vcpu()})
}

// usd returns the task's expected cost at its planned location, in USD.
func (a *admission) usd() float64 { return a.plan.TaskUSD[a.waiting.Task] }

// key returns the ID of the task as job/index.
func (a *admission) key() string { return a.job.ID + "/" + strconv.Itoa(a.waiting.Task) }

// unit returns the ID of the scheduler's job to which the task belongs: its job, its gang, or the task itself if it
// joins a gang.
func (a *admission) unit() string {
	if a.task.Gang != "" || a.task.Joins != "" {
		return a.claim()
	}
	return a.job.ID
}

// sideOf loads the data that the waiting tasks of a job share, once for each session.
func (s *Session) sideOf(id string) (of *side, err error) {
	if of := s.jobs[id]; of != nil {
		return of, nil
	}
	of = &side{}
	var lacks error
	of.job, _, err = recordcache.Get[record.Job](s.u, record.JobKey(id))
	of.ledger, _, lacks = recordcache.Get[record.Ledger](s.u, record.LedgerKey(id))
	if err = cmp.Or(err, lacks); err == nil {
		s.jobs[id] = of
	}
	return of, err
}

// planned reports whether the job runs and has a plan. If so it loads the job's spec, rules and plan.
func (s *Session) planned(of *side) (ok bool, err error) {
	if of.job.State != apitypes.JobRunning || of.job.Plan.IsZero() {
		return false, nil
	}
	spec, err := s.u.Spec(of.job)
	if err != nil {
		return false, err
	}
	if of.spec != spec { // once for each job, not for each of its tasks
		of.spec, of.ruled = spec, record.IsPlaced(spec)
		if of.ruled {
			of.groups = spec.Groups()
		}
	}
	of.plan, err = s.u.Plan(of.job)
	return err == nil, err
}

// passes reports whether a waiting task can be skipped without a read of its own records, because its job has no plan
// or no money. So many waiting tasks of such a job do not hide the tasks behind them.
func (s *Session) passes(w apitypes.Waiting) (bool, error) {
	of, err := s.sideOf(w.Job)
	switch {
	case err != nil:
		return false, err
	case of.job.State == apitypes.JobPlanning || of.job.State == apitypes.JobWaiting:
		return true, nil
	case of.job.State != apitypes.JobRunning:
		return false, nil // the job has finished: the entry is removed
	case of.job.Suspended() != nil || of.job.Plan.IsZero() || of.outdated(w):
		return true, nil
	}
	if _, err = s.planned(of); err != nil {
		return false, err
	}
	if of.shares(w.Task) {
		return s.passesShared(of, w)
	}
	afford := of.affordable(of.plan.TaskUSD[w.Task])
	if afford == verdictAdmit && s.shortPurse(of.job.Queue, s.plannedCosts(of, w.Task)) != nil &&
		s.overPurse(of.job.Queue, s.plannedCosts(of, w.Task)) == nil {
		return true, nil
	}
	if !s.replanned[w.Job] || afford != verdictAdmit {
		return afford == verdictSkip || s.replanned[w.Job], nil
	}
	// A new plan was already requested. A task that the current plan can still serve continues under it, because it
	// may have waited longer than the tasks behind it.
	choice := of.plan.Of(w.Task)
	if choice == nil {
		return true, nil
	}
	err = s.loadBlocks()
	return err == nil && s.blocked(choice), err
}

// outdated reports whether the current plan is too old for a waiting task.
func (of *side) outdated(w apitypes.Waiting) bool {
	return of.job.Plan.Version < max(w.MinPlan, of.job.MinPlan)
}

// since returns the time from which the task counts as waiting.
func (a *admission) since() time.Time { return a.job.WaitsSince(a.waiting) }

// facts loads everything that a decision on a waiting task needs.
func (s *Session) facts(q *apitypes.Queue, w apitypes.Waiting) (a *admission, err error) {
	a = &admission{queue: q, waiting: w}
	if a.side, err = s.sideOf(w.Job); err != nil {
		return nil, err
	}
	a.task, _, err = recordcache.Get[record.Task](s.u, record.TaskKey(w.Job, w.Task))
	if err = cmp.Or(err, s.loadBlocks()); err != nil {
		return nil, err
	}
	if ok, err := s.planned(a.side); err != nil || !ok {
		return a, err
	}
	a.name, a.nodes = a.spec.Tasks[w.Task].Name, a.spec.Tasks[w.Task].Nodes
	if a.shares() { // its worker has the place of the plan, the price and the bid
		return a, nil
	}
	if a.isWorker() {
		needed, err := s.needed(a.side, a.spec.Tasks[w.Task].Worker.Group)
		if err != nil {
			return nil, err
		}
		a.unneeded = !needed || a.plan.Of(w.Task) == nil // a later plan may use fewer workers
	}
	if choice := a.plan.Of(w.Task); choice != nil {
		a.blocked, a.nodes = s.blocked(choice), record.NodesOn(&a.spec.Tasks[w.Task], choice)
		if choice.Offer.Service != "" { // a service has its own machines
			a.nodes = 1
		}
	}
	if a.task.Joins != "" {
		if a.lead, err = s.leadOf(a); err != nil {
			return nil, err
		}
	}
	if a.task.Alone {
		if a.activeMember, err = s.activeMemberOf(a); err != nil {
			return nil, err
		}
	}
	if a.clash, err = s.clashPlanned(a); err != nil {
		return nil, err
	}
	a.price, err = s.priceOf(a)
	return a, err
}

// loadBlocks loads the blocked locations, once for each session.
func (s *Session) loadBlocks() (err error) {
	if s.blocks == nil {
		s.blocks, err = recordcache.List[apitypes.Block](s.u, record.PartBlocks, "", 0)
	}
	return err
}

// blocked reports whether a planned location is blocked now.
func (s *Session) blocked(p *record.Planned) bool {
	return slices.ContainsFunc(s.blocks, func(k apitypes.Block) bool { return record.Covers(k, p.Offer, s.u.Now) })
}

// verdict is the decision on a waiting task.
type verdict int

const (
	verdictAdmit    verdict = iota // admit it if the scheduler agrees
	verdictSkip                    // not now, for a reason that concerns only this task or its job
	verdictWait                    // the task waits for a better price
	verdictDrop                    // the job has finished
	verdictReplan                  // the plan cannot be used
	verdictNever                   // the task needs more than its queue, or a queue above it, allows
	verdictUnneeded                // the task is a worker, and nothing waits for it
)

// over reports whether the job of a waiting task is ending or has ended.
func (a *admission) over() bool {
	return a.job.State == apitypes.JobEnding || a.job.State.Finished() || a.ledger.Settled
}

// judge decides on one waiting task, as far as the decision does not depend on other tasks.
func (s *Session) judge(a *admission) verdict {
	switch {
	case a.over() || a.task.State != record.TaskQueued:
		return verdictDrop
	case a.job.State != apitypes.JobRunning || a.plan == nil || a.outdated(a.waiting):
		return verdictSkip
	case a.job.Suspended() != nil || s.closed(a.queue) != nil:
		return verdictSkip
	case a.task.Joins != "" && a.lead == nil || s.u.Now.Before(a.task.NotBefore):
		return verdictSkip
	case a.unneeded:
		return verdictUnneeded
	case a.plan.Of(a.waiting.Task) == nil || a.blocked:
		return verdictReplan
	case a.clash != nil:
		return a.clash.verdict(a.plan, s.u.Now)
	}
	if s.tooMuch(a) != "" {
		return verdictNever
	}
	if v := a.affordable(a.usd()); v != verdictAdmit {
		return v
	}
	if s.shortOf(a) != nil {
		return verdictSkip
	}
	if a.price == nil {
		return verdictAdmit
	}
	return s.judgePrice(a)
}

// affordable compares an amount in USD with the job's remaining budget. It returns verdictAdmit if the budget covers
// it, verdictSkip if running attempts may still return money, and verdictReplan otherwise.
func (of *side) affordable(usd float64) verdict {
	switch {
	case of.job.BudgetUSD <= 0 || usd <= of.left()+record.CentsEps:
		return verdictAdmit
	case of.ledger.Outstanding > 0:
		return verdictSkip // unused reserved money will be released
	}
	return verdictReplan
}

// left returns the part of the budget that is neither spent nor reserved, in USD.
func (of *side) left() float64 { return of.job.BudgetUSD - of.ledger.SpentUSD - of.ledger.ReservedUSD }

// reserveSlack is the factor by which an attempt may exceed its expected time before its reserved money is used up.
const reserveSlack = 1.25

// reserve returns the USD to reserve for an attempt: its expected run time with some slack plus the broker's overhead,
// at the maximum price of an hour, limited by the budgets. It returns 0 if neither the job nor its queue has a budget.
func (s *Session) reserve(a *admission, bidUSD float64) float64 {
	purses := s.purses(a.job.Queue)
	if a.job.BudgetUSD <= 0 && len(purses) == 0 {
		return 0
	}
	t := a.waiting.Task
	usd, hours := max(a.plan.Of(t).Offer.USDPerHour, bidUSD), a.plan.TaskHours[t]
	if a.pool != nil {
		usd, hours = a.pool.offer.USDPerHour, a.pool.hours
	}
	want := usd * float64(a.nodes) * s.reservedHours(hours)
	if a.job.BudgetUSD > 0 {
		want = min(want, a.left())
	}
	share := s.shareOf(a)
	for _, p := range purses {
		want = min(want, p.LeftUSD()*share)
	}
	return max(want, 0)
}
