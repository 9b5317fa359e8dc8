package broker

import (
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Leaving is why the broker leaves a machine that nobody takes.
type Leaving string

// The reasons to leave.
const (
	LeaveForPrice    Leaving = "price"    // on-demand is expected to cost less to the end
	LeaveForDeadline Leaving = "deadline" // were it taken now, not even on-demand would be in time after the next look
	LeaveForOthers   Leaving = "others"   // what it holds of a quota is another's
)

// taken is how an attempt ends on a doomed cluster.
func (cl *Cluster) taken() Outcome {
	if cl.Leaving != "" {
		return OutcomeMoved
	}
	return OutcomePreempted
}

// leaveMost bounds the machines that one transaction leaves.
const leaveMost = 15

// watchJob looks at a job with the prices of now: it asks for a plan where the one in force is worse, and reprices and
// leaves its spot machines, as many at once as one transaction holds. It notes the job's queue where a task in it has
// waited for a better price and does not any more.
func (b *Broker) watchJob(
	u *unit, cause string, w *walked, changed map[string]events.MarketChange, wake map[string]bool,
) (done int, err error) {
	if w.job.State.Over() {
		return 0, nil
	}
	id := w.job.ID
	if len(changed) > 0 && w.job.State == JobRunning {
		done++
		if err := b.lookAtPlan(u.ctx, cause, id, changed); err != nil {
			return done, err
		}
	}
	if awake, err := b.awake(u, w.job); err != nil {
		return done, err
	} else if awake {
		wake[w.job.Queue] = true
	}
	if w.ledger.Outstanding == 0 {
		return done, nil // it holds no machine
	}
	clusters, err := list[Cluster](u, jobPart(id), clusterPrefix, 0)
	if err != nil {
		return done, err
	}
	clusters = slices.DeleteFunc(clusters, func(cl Cluster) bool { return !cl.Offer.Spot })
	for part := range slices.Chunk(clusters, leaveMost) {
		done++
		err := b.transact(u.ctx, events.FnTick, cause+"/spot/"+id, false, func(u *unit) error {
			return b.watch(u, part)
		})
		if err != nil {
			return done, err
		}
	}
	return done + 1, nil
}

// watch reprices and leaves some of a job's spot machines.
func (b *Broker) watch(u *unit, part []Cluster) error {
	keys := []store.Key{jobKey(part[0].Job)}
	for _, cl := range part {
		keys = append(keys, clusterKey(cl.ID), taskKey(cl.Job, cl.Task), attemptKey(cl.Job, cl.Task, cl.Attempt))
	}
	if err := u.preload(keys...); err != nil {
		return err
	}
	for _, cl := range part {
		l, found, err := loadLosing(u, cl.ID)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		d, err := decideWatched(u, b.cfg, l, u.now)
		if err != nil {
			return err
		}
		if err := u.apply(d); err != nil {
			return err
		}
	}
	return nil
}

// decideWatched charges a spot machine by the price of now, and leaves it where the bids say so.
func decideWatched(r reader, cfg Config, l losing, now time.Time) (d Decision, err error) {
	market, err := marketOf(r, l.attempt)
	if err != nil {
		return d, err
	}
	repriced := l.cl.reprice(market, l.attempt.SurchargeUSD, now)
	if l.job.State == JobRunning {
		if d, err = decideStay(r, cfg, l, 0, now); err != nil || len(d.Writes) > 0 {
			return d, err
		}
	}
	if repriced {
		d.put(clusterKey(l.cl.ID), l.cl)
	}
	return d, nil
}

// advised reacts to a cloud's advice to leave: a machine at risk is left where its loss would leave too little time, with the time
// of another start to spare.
func (b *Broker) advised(u *unit, l losing) error {
	d, err := decideStay(u, b.cfg, l, b.cfg.Restart, u.now)
	if err != nil {
		return err
	}
	return u.apply(d)
}

// decideStay leaves a spot machine where the bids say so. margin is time to keep beyond what is needed.
func decideStay(r reader, cfg Config, l losing, margin time.Duration, now time.Time) (d Decision, err error) {
	if l.cl.State != ClusterUp || l.cl.Outcome != "" || l.task.State != TaskRunning || l.task.Attempt != l.cl.Attempt || l.job.Bids.IsZero() {
		return d, nil
	}
	st := staying{losing: l, tick: cfg.TickEvery + margin, restart: cfg.Restart}
	bids, err := r.bids(l.job)
	if err != nil {
		return d, err
	}
	st.bids = *bids
	spec, err := r.spec(l.job)
	if err != nil {
		return d, err
	}
	st.spec = &spec.Tasks[l.cl.Task]
	market, err := marketOf(r, l.attempt)
	if err != nil {
		return d, err
	}
	st.usd = market.USD
	why, reason := st.leave(now)
	if why == "" {
		return d, nil
	}
	return decideLeave(l.cl, why, reason, cfg.Overhead, now), nil
}

// settledStarts is how many starts' time a machine is kept before its price may drive the task away, so that prices that change all the
// time do not have it move all the time.
const settledStarts = 2

// staying is what is decided on whether a spot machine is kept.
type staying struct {
	losing
	spec *dag.Task
	bids Bids
	usd  float64 // what the market costs now, USD per hour; 0 where nobody has said
	// tick is until the next look; restart what a start elsewhere takes.
	tick, restart time.Duration
}

// leave says whether to leave the machine, and why in words.
//
// The deadline's rule looks a tick ahead: if the machine were taken without a word just before the next look, the work that
// is not saved by now would have to be done again, on demand and after a start. Where there would be too little time for that the machine is left
// now, while what is not saved can still be saved. The price's rule asks the table that bid wrote.
func (st *staying) leave(now time.Time) (why Leaving, reason string) {
	if most := st.cl.MaxUSD; st.job.BudgetUSD > 0 && most > 0 && st.usd+st.attempt.SurchargeUSD > most+centsEps {
		return LeaveForPrice, fmt.Sprintf("spot costs %.4f USD/h now, and the budget allows %.4f", st.usd, most)
	}
	if !onDemandAllowed(st.spec) {
		return "", ""
	}
	o := st.cl.Offer
	whole := st.spec.Time.For(o.InstanceType, o.Accelerator, o.AccelCount)
	unsaved := time.Duration(float64(whole) * (1 - st.task.Progress))
	doing := st.attempt.Resumed
	if whole > 0 && !st.attempt.Started.IsZero() {
		doing += now.Sub(st.attempt.Started).Seconds() / whole.Seconds()
	}
	work := min(time.Duration(float64(whole)*(1-min(doing, 1))), unsaved)
	resumes := st.spec.StandIn() || st.spec.Checkpoint != nil
	after := work // what is left to do after leaving
	if !resumes {
		after = whole
	}
	left, dated := st.left(now)
	if dated && left < after+st.restart {
		return "", "" // it is too late for on-demand: staying is the fastest that is left
	}
	if dated && left-st.tick < unsaved+st.restart {
		return LeaveForDeadline, fmt.Sprintf("%s of work left and %s to do it in: were the spot machine taken before the next look, not even on-demand would be in time",
			rounded(work), rounded(left))
	}
	table := st.table()
	if table == nil || st.usd <= 0 || !resumes || now.Sub(st.attempt.Started) < settledStarts*st.restart {
		return "", ""
	}
	if !dated {
		left = time.Duration(float64(whole) * undatedStretch)
	}
	if worth := table.MaxUSD(hours(work), hours(left)); st.usd > worth+1e-9 {
		return LeaveForPrice, fmt.Sprintf("spot costs %.4f USD/h now and is worth %.4f at most with %s of work left: on-demand is cheaper to the end",
			st.usd, worth, rounded(work))
	}
	return "", ""
}

// left is the time until the task has to be done; dated is false where nothing says when.
func (st *staying) left(now time.Time) (left time.Duration, dated bool) {
	if i := st.cl.Task; i < len(st.bids.FinishBy) {
		return st.bids.FinishBy[i].Sub(now), true
	}
	return 0, false
}

func (st *staying) table() *worthTable {
	i := st.cl.Task
	if i >= len(st.bids.Table) || st.bids.Table[i] < 0 {
		return nil
	}
	return st.bids.Tables[st.bids.Table[i]]
}

// onDemandAllowed says whether the author lets a task run on demand.
func onDemandAllowed(t *dag.Task) bool {
	return len(t.Resources) == 0 || slices.ContainsFunc(t.Resources, func(r dag.Resources) bool { return r.Market != dag.MarketSpot })
}

// decideLeave has the agents of a cluster save what they have and stop; then the task is planned anew.
func decideLeave(cl Cluster, why Leaving, reason string, within time.Duration, now time.Time) (d Decision) {
	cl.State, cl.Since, cl.Until = ClusterDoomed, now, now.Add(within)
	cl.Leaving, cl.Reason = why, reason
	cl.Seq++
	cl.Command = string(wire.SaveNow)
	d.put(clusterKey(cl.ID), cl)
	return d
}

// decideTooLate looks at the tasks that a decision announces: those planned on spot for which those before them have left too
// little time are told to wait for a plan on demand.
func decideTooLate(r reader, cfg Config, job Job, spec *dag.Job, d *Decision, now time.Time) error {
	if job.Deadline.IsZero() || job.Plan.IsZero() || job.Bids.IsZero() {
		return nil
	}
	plan, err := r.plan(job)
	if err != nil {
		return err
	}
	bids, err := r.bids(job)
	if err != nil {
		return err
	}
	first := ""
	for _, e := range slices.Clone(d.Emits) {
		ready, ok := e.(events.TaskReady)
		if !ok || !tooLate(spec, plan, bids, ready.Task, cfg, now) {
			continue
		}
		task, _, err := get[Task](r, taskKey(job.ID, ready.Task))
		if err != nil {
			return err
		}
		task.Job, task.Index, task.OnDemand = job.ID, ready.Task, true
		task.State, task.MinPlan = TaskQueued, max(job.Plan.Version+1, task.MinPlan)
		if task.ReadyAt.IsZero() {
			task.ReadyAt = now
		}
		d.put(taskKey(job.ID, ready.Task), task)
		if first == "" {
			first = spec.Tasks[ready.Task].Name
		}
	}
	if first != "" {
		d.replan(job, fmt.Sprintf("task %s can begin only now: too late for spot, were its machine taken", first))
	}
	return nil
}

// tooLate says of a task planned on spot that, begun now, it would be late if its machine were taken at the worst moment, and
// would not be on demand.
func tooLate(spec *dag.Job, plan *Plan, bids *Bids, i int, cfg Config, now time.Time) bool {
	c, t := plan.Of(i), &spec.Tasks[i]
	if c == nil || !c.Offer.Spot || i >= len(bids.FinishBy) || !onDemandAllowed(t) {
		return false
	}
	work := t.Time.For(c.Offer.InstanceType, c.Offer.Accelerator, c.Offer.AccelCount)
	left := bids.FinishBy[i].Sub(now)
	return left < work+cfg.TickEvery+cfg.Restart && left >= work
}
