package session

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/bid"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// side is a job's side of its waiting tasks, which they share: what is set aside for one of them the others see.
type side struct {
	job    record.Job
	ledger record.Ledger
	spec   *dag.Job // of a job that has a plan, as plan
	plan   *record.Plan
	// groups are its rules that spread or pack machines; ruled says of which tasks rules know.
	groups []dag.PlacementGroup
	ruled  bool
}

// admission is a session's view of one waiting task: all that becomes of it depends on this.
type admission struct {
	*side
	queue   *apitypes.Queue
	waiting apitypes.Waiting
	task    record.Task
	name    string
	nodes   int
	with    *together    // that it is a member of
	blocked bool         // the planned location is not to be tried now
	lead    *record.Key  // of one that joins a gang, the cluster that has to run for it; nil while none does
	beside  *record.Key  // of one that begins anew alone, another of its gang that holds something; nil where none does
	pool    *pooled      // where it is placed instead; nil where it is to be bought
	awaits  bool         // room in a pool that is being made for it
	clash   *clash       // rule of placement that keeps it from where it is planned; nil where none does
	price   *bid.Waiting // better price that it may wait for; nil for none
}

// vcpu is what the task would hold on all its machines: they are bought together or not at all.
func (a *admission) vcpu() float64 { return a.plan.Of(a.waiting.Task).VCPU * float64(a.nodes) }

// holds is what it would hold beside vCPUs.
func (a *admission) holds() apitypes.Amounts { return a.plan.Of(a.waiting.Task).Holds(a.nodes) }

// needs is what it would hold of all that is bounded.
func (a *admission) needs() apitypes.Amounts {
	return a.holds().Plus(apitypes.Amounts{apitypes.VCPUs: a.vcpu()})
}

// usd is what the task is expected to cost where it is planned.
func (a *admission) usd() float64 { return a.plan.TaskUSD[a.waiting.Task] }

// key names the task.
func (a *admission) key() string { return a.job.ID + "/" + strconv.Itoa(a.waiting.Task) }

// unit names what an admission is a member of, as the scheduler is told: its job, its gang, or itself where it joins
// one.
func (a *admission) unit() string {
	if a.task.Gang != "" || a.task.Joins != "" {
		return a.claim()
	}
	return a.job.ID
}

// sideOf loads a job's side, once.
func (s *Session) sideOf(id string) (of *side, err error) {
	if of := s.jobs[id]; of != nil {
		return of, nil
	}
	of = &side{}
	var lacks error
	of.job, _, err = book.Get[record.Job](s.u, record.JobKey(id))
	of.ledger, _, lacks = book.Get[record.Ledger](s.u, record.LedgerKey(id))
	if err = cmp.Or(err, lacks); err == nil {
		s.jobs[id] = of
	}
	return of, err
}

// planned says whether a job runs by a plan, and completes what is known of it.
func (s *Session) planned(of *side) (ok bool, err error) {
	if of.job.State != apitypes.JobRunning || of.job.Plan.IsZero() {
		return false, nil
	}
	spec, err := s.u.Spec(of.job)
	if err != nil {
		return false, err
	}
	if of.spec != spec { // it has as many tasks as this is asked for
		of.spec, of.ruled = spec, record.IsPlaced(spec)
		if of.ruled {
			of.groups = spec.Groups()
		}
	}
	of.plan, err = s.u.Plan(of.job)
	return err == nil, err
}

// passes says of a waiting task that what its job lacks keeps it, so that nothing need be read of the task itself:
// however many tasks of a job wait for a plan or for its budget, those behind them are looked at.
func (s *Session) passes(w apitypes.Waiting) (bool, error) {
	of, err := s.sideOf(w.Job)
	switch {
	case err != nil:
		return false, err
	case of.job.State == apitypes.JobPlanning || of.job.State == apitypes.JobWaiting:
		return true, nil
	case of.job.State != apitypes.JobRunning:
		return false, nil // it is over: the entry goes
	case of.job.Suspended() != nil || of.job.Plan.IsZero() || of.outdated(w):
		return true, nil
	}
	if _, err = s.planned(of); err != nil {
		return false, err
	}
	afford := of.affordable(of.plan.TaskUSD[w.Task])
	if afford == verdictAdmit && s.short(of.job.Queue, s.plannedCosts(of, w.Task)) != nil &&
		s.over(of.job.Queue, s.plannedCosts(of, w.Task)) == nil {
		return true, nil
	}
	if !s.replanned[w.Job] || afford != verdictAdmit {
		return afford == verdictSkip || s.replanned[w.Job], nil
	}
	// Another plan is asked for already. What lacks nothing of the one in force goes on under it: it may have waited
	// for longer than those behind it.
	choice := of.plan.Of(w.Task)
	if choice == nil {
		return true, nil
	}
	err = s.loadBlocks()
	return err == nil && s.blocked(choice), err
}

// outdated says of a waiting task that it may not go on under the plan in force.
func (of *side) outdated(w apitypes.Waiting) bool {
	return of.job.Plan.Version < max(w.MinPlan, of.job.MinPlan)
}

// since is from when on a task counts as waiting.
func (a *admission) since() time.Time { return a.job.WaitsSince(a.waiting) }

// facts loads what is to be known of a waiting task.
func (s *Session) facts(q *apitypes.Queue, w apitypes.Waiting) (a *admission, err error) {
	a = &admission{queue: q, waiting: w}
	if a.side, err = s.sideOf(w.Job); err != nil {
		return nil, err
	}
	a.task, _, err = book.Get[record.Task](s.u, record.TaskKey(w.Job, w.Task))
	if err = cmp.Or(err, s.loadBlocks()); err != nil {
		return nil, err
	}
	if ok, err := s.planned(a.side); err != nil || !ok {
		return a, err
	}
	a.name, a.nodes = a.spec.Tasks[w.Task].Name, a.spec.Tasks[w.Task].Nodes
	if choice := a.plan.Of(w.Task); choice != nil {
		a.blocked = s.blocked(choice)
	}
	if a.task.Joins != "" {
		if a.lead, err = s.leadOf(a); err != nil {
			return nil, err
		}
	}
	if a.task.Alone {
		if a.beside, err = s.besideOf(a); err != nil {
			return nil, err
		}
	}
	if a.clash, err = s.clashPlanned(a); err != nil {
		return nil, err
	}
	a.price, err = s.priceOf(a)
	return a, err
}

// loadBlocks loads where nothing is to be tried now, once.
func (s *Session) loadBlocks() (err error) {
	if s.blocks == nil {
		s.blocks, err = book.List[apitypes.Block](s.u, record.PartBlocks, "", 0)
	}
	return err
}

// blocked says whether the location that a plan chose is not to be tried now.
func (s *Session) blocked(p *record.Planned) bool {
	return slices.ContainsFunc(s.blocks, func(k apitypes.Block) bool { return record.Covers(k, p.Offer, s.u.Now) })
}

// verdict says what becomes of a waiting task.
type verdict int

const (
	verdictAdmit  verdict = iota // if the session lets it
	verdictSkip                  // not now, for a reason of its own
	verdictWait                  // not at the price of now
	verdictDrop                  // its job is over
	verdictReplan                // its plan is no good
	verdictNever                 // more than its queue, or one above it, allows at all
)

// judge decides on one waiting task as far as that does not depend on others.
func (s *Session) judge(a *admission) verdict {
	switch {
	case a.job.State == apitypes.JobEnding || a.job.State.Over() || a.task.State != record.TaskQueued:
		return verdictDrop
	case a.job.State != apitypes.JobRunning || a.plan == nil || a.outdated(a.waiting):
		return verdictSkip
	case a.job.Suspended() != nil || s.closed(a.queue) != nil:
		return verdictSkip
	case a.task.Joins != "" && a.lead == nil || s.u.Now.Before(a.task.NotBefore):
		return verdictSkip
	case a.plan.Of(a.waiting.Task) == nil || a.blocked:
		return verdictReplan
	case a.clash != nil:
		return a.clash.verdict(a.plan, s.u.Now)
	}
	if s.tooMuch(a) != nil {
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

// affordable says whether the job's budget has so much left.
func (of *side) affordable(usd float64) verdict {
	switch {
	case of.job.BudgetUSD <= 0 || usd <= of.left()+record.CentsEps:
		return verdictAdmit
	case of.ledger.Outstanding > 0:
		return verdictSkip // what others do not use comes back
	}
	return verdictReplan
}

// left is what the budget has neither spent nor set aside.
func (of *side) left() float64 { return of.job.BudgetUSD - of.ledger.SpentUSD - of.ledger.ReservedUSD }

// reserveSlack is how much longer than expected an attempt may take on what is set aside for it.
const reserveSlack = 1.25

// reserve is what to set aside for an attempt: its expected run time with some slack and the broker's overhead, at the
// most that an hour may cost, as far as the budgets go. A job without a budget, in a queue without one for the month,
// sets nothing aside.
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
	want := usd * float64(a.nodes) * s.lasting(hours)
	if a.job.BudgetUSD > 0 {
		want = min(want, a.left())
	}
	share := s.shareOf(a)
	for _, p := range purses {
		want = min(want, p.LeftUSD()*share)
	}
	return max(want, 0)
}
