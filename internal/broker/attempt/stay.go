package attempt

import (
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// worthTable has the value of an hour on spot for a task.
type worthTable = bidding.Worth

// DecideWatched charges a spot machine at the current price. If the bids require it, the task leaves the machine.
func DecideWatched(r recordcache.Reader, cfg config.Config, l Losing, now time.Time) (d record.Decision, err error) {
	market, err := MarketOf(r, l.Attempt)
	if err != nil {
		return d, err
	}
	repriced := l.Cluster.Reprice(market, l.Attempt.SurchargeUSD, now)
	if l.Job.State == apitypes.JobRunning {
		if d, err = DecideStay(r, cfg, l, 0, now); err != nil || len(d.Writes) > 0 {
			return d, err
		}
	}
	if repriced {
		d.Put(record.ClusterKey(l.Cluster.ID), l.Cluster)
	}
	return d, nil
}

// DecideStay makes a task leave a spot machine if the bids require it. margin is added to the time that the task
// needs.
func DecideStay(r recordcache.Reader, cfg config.Config, l Losing, margin time.Duration,
	now time.Time) (d record.Decision, err error) {
	if l.Cluster.State != record.ClusterUp || l.Cluster.Outcome != "" || l.Task.State != record.TaskRunning ||
		l.Task.Attempt != l.Cluster.Attempt || l.Job.Bids.IsZero() {
		return d, nil
	}
	st := staying{Losing: l, tick: cfg.TickEvery + margin, restart: cfg.Restart}
	bids, err := r.Bids(l.Job)
	if err != nil {
		return d, err
	}
	st.bids = *bids
	spec, err := r.Spec(l.Job)
	if err != nil {
		return d, err
	}
	st.spec = &spec.Tasks[l.Cluster.Task]
	market, err := MarketOf(r, l.Attempt)
	if err != nil {
		return d, err
	}
	st.usd = market.USD
	if err := st.loadOthers(r, spec); err != nil {
		return d, err
	}
	why, reason := st.leave(now)
	if why == "" {
		return d, nil
	}
	return DecideLeave(l.Cluster, why, reason, cfg.Overhead, now), nil
}

// minStaysInStarts is the minimum time on a machine before its price may make the task leave, as a multiple of the
// time of a start. Without it, frequent price changes would make a task move all the time.
const minStaysInStarts = 2

// staying is the input of the decision to keep or leave a spot machine.
type staying struct {
	Losing
	spec *dag.Task
	bids record.Bids
	usd  float64 // current price of the market in USD per hour; 0 if unknown
	// tick is the time until the next check. restart is the time of a start elsewhere.
	tick, restart time.Duration
	// others are the gang's tasks that restart when this task's machine is preempted.
	others []member
}

// member is a task of a gang with its spec.
type member struct {
	Losing
	spec *dag.Task
}

// loadOthers loads the tasks that restart if the machine is preempted: the whole gang, unless the task's role
// restarts alone.
func (st *staying) loadOthers(r recordcache.Reader, spec *dag.Job) error {
	alone := slices.ContainsFunc(st.spec.On, func(on dag.Reaction) bool {
		return on.Event == dag.PodEvicted && on.Action == dag.RestartRole
	})
	if st.Task.Gang == "" || alone || len(st.bids.FinishBy) == 0 {
		return nil
	}
	members, err := GangOf(r, st.Job, st.Cluster.Task)
	for _, m := range members {
		if m.Task.Index != st.Cluster.Task && m.Bought {
			st.others = append(st.others, member{m.Losing, &spec.Tasks[m.Task.Index]})
		}
	}
	return err
}

// need compares the time until a task's deadline with the run times that the task may still need.
type need struct {
	left    time.Duration // time to its deadline
	dated   bool          // left is set
	whole   time.Duration // run time of the whole task on its current offer
	work    time.Duration // run time of the remaining work
	unsaved time.Duration // remaining run time if the machine disappears at once
	after   time.Duration // remaining run time if the task saves its work and leaves
}

// needs calculates the need of a task whose attempt runs.
func (st *staying) needs(l Losing, spec *dag.Task, now time.Time) (n need) {
	o := l.Cluster.Offer
	n.whole = record.TimeOn(spec, o)
	n.unsaved = time.Duration(float64(n.whole) * (1 - l.Task.Progress))
	doing := l.Attempt.Resumed
	if n.whole > 0 && !l.Attempt.Started.IsZero() {
		doing += now.Sub(l.Attempt.Started).Seconds() / n.whole.Seconds()
	}
	n.work = min(time.Duration(float64(n.whole)*(1-min(doing, 1))), n.unsaved)
	if n.after = n.work; !spec.Resumes() {
		n.after = n.whole
	}
	if i := l.Cluster.Task; i < len(st.bids.FinishBy) {
		n.left, n.dated = st.bids.FinishBy[i].Sub(now), true
	}
	return n
}

// deadline reports whether the task must leave because of its deadline. tooLate is true if even on-demand would be
// too late: then staying is the fastest.
func (n need) deadline(restart, tick time.Duration) (leave, tooLate bool) {
	return n.dated && n.left-tick < n.unsaved+restart, n.dated && n.left < n.after+restart
}

// leave decides whether to leave the machine. It returns the rule, or "" to stay, and the reason as text.
//
// The deadline rule assumes that the machine is preempted without notice just before the next check. The work that is
// unsaved now would then have to be repeated on an on-demand machine, which must first start. If that would take too
// long, the task leaves now, while it can save its work. The price rule uses the table that the function bid wrote.
func (st *staying) leave(now time.Time) (why record.Leaving, reason string) {
	usd, most := st.usd+st.Attempt.SurchargeUSD, st.Cluster.MaxUSD
	if limit := MaxUSDPerHour(st.spec, st.Cluster.Offer); limit > 0 && usd > limit+record.CentsEps {
		return record.LeaveForPrice,
			fmt.Sprintf("spot costs %.4f USD/h now, above its maxUSDPerHour of %.4f", usd, limit)
	}
	if st.Job.BudgetUSD > 0 && most > 0 && usd > most+record.CentsEps {
		return record.LeaveForPrice, fmt.Sprintf("spot costs %.4f USD/h now, and the budget allows %.4f", st.usd, most)
	}
	if !record.OnDemandAllowed(st.spec) {
		return "", ""
	}
	own := st.needs(st.Losing, st.spec, now)
	leaves, tooLate := own.deadline(st.restart, st.tick)
	needs := own
	for _, m := range st.others {
		n := st.needs(m.Losing, m.spec, now)
		leave, late := n.deadline(st.restart, st.tick)
		if tooLate = tooLate || late; leave && (!leaves || n.left-n.unsaved < needs.left-needs.unsaved) {
			leaves, needs = true, n
		}
	}
	if tooLate {
		return "", ""
	}
	if leaves {
		return record.LeaveForDeadline, fmt.Sprintf("%s of work remains and %s to do it in: if the spot machine were "+
			"preempted before the next check, not even on-demand would be in time",
			readable.Rounded(needs.work), readable.Rounded(needs.left))
	}
	table := st.table()
	if table == nil || !st.spec.Resumes() || now.Sub(st.Attempt.Started) < minStaysInStarts*st.restart {
		return "", ""
	}
	left := own.left
	if !own.dated {
		left = time.Duration(float64(own.whole) * record.UndatedStretch)
	}
	if worth := table.MaxUSD(record.Hours(own.work), record.Hours(left)); st.usd > worth+1e-9 {
		return record.LeaveForPrice,
			fmt.Sprintf("spot costs %.4f USD/h now and is worth at most %.4f with %s of work remaining: on-demand is "+
				"cheaper to the end",
				st.usd, worth, readable.Rounded(own.work))
	}
	return "", ""
}

// IsUnconstrained reports whether only the cloud can make a task leave its spot machine. This is so if the task has
// no deadline, no budget, no maxUSDPerHour, and no price at which it could resume elsewhere.
func IsUnconstrained(job record.Job, bids *record.Bids, task *dag.Task, index int) bool {
	st := staying{bids: *bids}
	st.Cluster.Task = index
	limited := slices.ContainsFunc(task.Resources, func(r dag.Resources) bool { return r.MaxUSDPerHour > 0 })
	return job.BudgetUSD == 0 && len(bids.FinishBy) == 0 && !limited &&
		(st.table() == nil || !task.Resumes())
}

func (st *staying) table() *worthTable {
	i := st.Cluster.Task
	if i >= len(st.bids.Table) || st.bids.Table[i] < 0 {
		return nil
	}
	return st.bids.Tables[st.bids.Table[i]]
}

// DecideTooLate checks the tasks that a decision announces. If the parents of a task planned on spot have left too
// little time, the task waits for a plan on demand.
func DecideTooLate(r recordcache.Reader, cfg config.Config, job record.Job, spec *dag.Job, d *record.Decision,
	now time.Time) error {
	if job.Deadline.IsZero() || job.Plan.IsZero() || job.Bids.IsZero() {
		return nil
	}
	plan, err := r.Plan(job)
	if err != nil {
		return err
	}
	bids, err := r.Bids(job)
	if err != nil {
		return err
	}
	first := ""
	for _, e := range slices.Clone(d.Emits) {
		ready, ok := e.(events.TaskReady)
		if !ok || !tooLate(spec, plan, bids, ready.Task, cfg, now) {
			continue
		}
		task, _, err := recordcache.Get[record.Task](r, record.TaskKey(job.ID, ready.Task))
		if err != nil {
			return err
		}
		if task.Try >= ready.Try {
			continue // a member of a chunk that has run already: schedule ignores this announcement
		}
		task.Job, task.Index, task.OnDemand = job.ID, ready.Task, true
		task.State, task.MinPlan = record.TaskQueued, max(job.Plan.Version+1, task.MinPlan)
		if task.ReadyAt.IsZero() {
			task.ReadyAt = now
		}
		d.Put(record.TaskKey(job.ID, ready.Task), task)
		if first == "" {
			first = spec.Tasks[ready.Task].Name
		}
	}
	if first != "" {
		d.Hold(record.JobKey(job.ID)) // the requested plan must be newer than the current one
		d.Replan(job, fmt.Sprintf("task %s can start only now: too late for spot if its machine were preempted", first))
	}
	return nil
}

// tooLate reports whether a task planned on spot would be late if it started now and its machine were preempted at
// the worst moment, but would be in time on demand.
func tooLate(spec *dag.Job, plan *record.Plan, bids *record.Bids, i int, cfg config.Config, now time.Time) bool {
	c, t := plan.Of(i), &spec.Tasks[i]
	if c == nil || !c.Offer.Spot || i >= len(bids.FinishBy) || !record.OnDemandAllowed(t) {
		return false
	}
	work := record.TimeOn(t, c.Offer)
	left := bids.FinishBy[i].Sub(now)
	return left < work+cfg.TickEvery+cfg.Restart && left >= work
}
