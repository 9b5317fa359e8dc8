package broker

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A task waits for a better price where its spot market is dear just now and its deadline leaves the time. Its bids say which tasks may, and what an hour is
// to cost for them to begin; a session leaves them in their queue as long as it costs more; and tick has a session look when that changes, or time runs out.

// Begin is when a task begins that may wait for a better price.
type Begin struct {
	Task int `json:"task"`
	// Market is the spot market that it waits for, and Spot whether it is planned there; else it is planned on demand.
	Market string `json:"market"`
	Spot   bool   `json:"spot,omitempty"`
	// By is when it begins at the latest, and FinishBy when it has to be done for what follows it to be as free as it is.
	By       time.Time `json:"by"`
	FinishBy time.Time `json:"finishBy"`
	// MostUSD is what the other way costs, USD per hour and machine: whatever costs more is not worth beginning for.
	MostUSD float64 `json:"mostUSD"`
	// Table is the one that it goes by, of Bids.Begins.
	Table int `json:"table"`
}

// What has to be known of a market before anything waits for it. With twenty changes the rate at which a high price ends is known within a quarter; a day
// holds the rhythm that most markets have.
const (
	waitChanges = 20
	waitHours   = 24
)

// waitLooks is how many looks there must be time for before a task begins at the latest, for waiting to be worth the while.
const waitLooks = 2

// waitMost bounds the tasks of a job that wait: each session looks at all that do, and at nothing that is far behind them.
const waitMost = 128

// waits finds the tasks that may wait, with their tables.
func (in *bidInput) waits(ctx context.Context) (begins []Begin, tables []*bidding.Begin, err error) {
	if in.job.Deadline.IsZero() || in.job.Objective != dag.MinimizeCost || in.plan.Late {
		return nil, nil, nil
	}
	times := sync.OnceValues(in.beginBy)
	made := beginTables{at: map[string]int{}}
	for i := range in.plan.Choice {
		if len(begins) == waitMost {
			break
		}
		l, ok := in.mayWait(i)
		if !ok {
			continue
		}
		by, finishBy := times()
		l.Left = hours(finishBy[i].Sub(in.now))
		if !in.now.Add(waitLooks * in.tick).Before(by[i]) {
			continue
		}
		var task Task
		if at, ok := taskAt(in.tasks, i); ok {
			task = in.tasks[at]
		}
		if task.OnDemand || task.State != "" && task.State != TaskQueued {
			continue
		}
		c := in.plan.Of(i)
		at, err := made.of(ctx, c.ID, l)
		if err != nil {
			return nil, nil, fmt.Errorf("broker: when task %s begins: %w", in.spec.Tasks[i].Name, err)
		}
		// Of one that could begin now it is known whether it waits. What begins later is asked then, and what has waited when it begins: on what is
		// cheaper by then.
		now := (task.State == TaskQueued || len(in.spec.Graph().Parents(i)) == 0) && task.WaitSince.IsZero()
		if at >= 0 && (!now || made.waits(at, l, task.Progress)) {
			begins = append(begins, Begin{Task: i, Market: marketID(c.ID), Spot: c.Offer.Spot, By: by[i], FinishBy: finishBy[i], MostUSD: l.OnDemandUSD, Table: at})
		}
	}
	if len(begins) == 0 {
		return nil, nil, nil
	}
	return begins, made.tables, nil
}

// beginTables are tables that tasks alike share.
type beginTables struct {
	tables []*bidding.Begin
	at     map[string]int
}

// of is the index of a task's table, −1 where it never waits by it or there are too many.
func (b *beginTables) of(ctx context.Context, candidate string, l bidding.Live) (int, error) {
	key := fmt.Sprintf("%s %.3g %.2g %.2g", candidate, l.Work, l.Left, l.Restart)
	at, known := b.at[key]
	if !known {
		if len(b.tables) == tablesMost {
			return -1, nil
		}
		t, err := bidding.NewBegin(ctx, l)
		if err != nil {
			return -1, err
		}
		at = len(b.tables)
		b.at[key], b.tables = at, append(b.tables, t)
	}
	if !b.tables[at].Any() {
		return -1, nil
	}
	return at, nil
}

// waits says whether a task that could begin now waits by its table.
func (b *beginTables) waits(at int, l bidding.Live, progress float64) bool {
	_, wait := b.tables[at].Waits(l.USD, l.Work*(1-progress), l.Left)
	return wait
}

// mayWait says whether a task may wait at all, and what its table is made of but for the time left. One on demand may wait for the spot market of its
// machine.
func (in *bidInput) mayWait(i int) (l bidding.Live, ok bool) {
	t, c := &in.spec.Tasks[i], in.plan.Of(i)
	if c == nil || t.Gang != "" || !onDemandAllowed(t) || !spotAllowed(t) {
		return l, false
	}
	m := &in.markets[in.plan.Choice[i]]
	if changes, watched := m.Prices.Seen(); changes < waitChanges || watched < waitHours || m.USD <= 0 {
		return l, false
	}
	if l, ok = in.live(i, nil); ok && !c.Offer.Spot {
		l.LossesPerHour = (float64(m.Preemptions) + lossesPrior) / (m.Hours + lossesPriorHours) * float64(max(t.Nodes, 1))
	}
	return l, ok
}

// How often a spot machine is taken of which the plan says nothing: what was seen, beside five in two hundred hours.
const lossesPrior, lossesPriorHours = 5, 200

// spotAllowed says whether the author lets a task run on spot machines.
func spotAllowed(t *dag.Task) bool {
	return len(t.Resources) == 0 || slices.ContainsFunc(t.Resources, func(r dag.Resources) bool { return r.Market != dag.MarketOnDemand })
}

// beginBy walks the DAG from its sinks: when each task begins at the latest so that it, and all that follow it, can still run as they are planned even if every spot
// machine is taken at the worst moment; and by when it has to be done for that.
func (in *bidInput) beginBy() (by, finishBy []time.Time) {
	n := len(in.plan.Choice)
	by, finishBy = make([]time.Time, n), make([]time.Time, n)
	g, order := in.spec.Graph(), in.spec.Order()
	for k := n - 1; k >= 0; k-- {
		i := order[k]
		finishBy[i] = in.job.Deadline
		for _, c := range g.Children(i) {
			if by[c].Before(finishBy[i]) {
				finishBy[i] = by[c]
			}
		}
		by[i] = finishBy[i].Add(-in.needs(i))
	}
	return by, finishBy
}

// needs is the time that a task is given: its work, a start, a look at prices that comes too late, and what the loss of a spot machine costs.
func (in *bidInput) needs(i int) time.Duration {
	t, work := &in.spec.Tasks[i], duration(in.plan.TaskHours[i])
	if in.plan.Of(i) == nil {
		return work
	}
	lost := work
	if every := checkpointEvery(t); every > 0 {
		lost = min(lost, every)
	}
	return work + in.restart + in.tick + max(lost, in.tick) + in.restart
}

// checkpointEvery is how often a task saves its work, 0 for never.
func checkpointEvery(t *dag.Task) time.Duration {
	switch {
	case t.Checkpoint != nil && t.Checkpoint.Every > 0:
		return t.Checkpoint.Every
	case t.StandIn():
		return time.Minute
	}
	return 0
}

// waitingFor is what a session has to know of a task that may wait.
type waitingFor struct {
	Begin
	table *bidding.Begin
	usd   float64 // what the market costs now, USD per hour
	work  float64 // hours
	tick  time.Duration
	// others is how many tasks of the job may wait, this one included.
	others int
}

// wait says whether to wait now, and for which price, USD per hour.
func (w *waitingFor) wait(now time.Time) (beginUSD float64, wait bool) {
	beginUSD, wait = w.table.Waits(w.usd, w.work, hours(w.FinishBy.Sub(now)))
	if !math.IsInf(beginUSD, 1) {
		beginUSD = min(beginUSD, w.MostUSD)
	}
	return beginUSD, wait && now.Add(w.tick).Before(w.By)
}

// tell says what is waited for as people are told.
func (w *waitingFor) tell(now time.Time) string {
	usd, _ := w.wait(now)
	by := w.By.UTC().Format("15:04 UTC")
	if w.By.Sub(now) >= 24*time.Hour {
		by = w.By.UTC().Format("2006-01-02 15:04 UTC")
	}
	return fmt.Sprintf("waits for a better price: %.4g USD/h now in %s, worth %.3g; begins by %s at the latest", w.usd, w.Market, usd, by)
}

// loadWaitingFor loads what a task waits for, nil where it does not.
func loadWaitingFor(u reader, cfg Config, job Job, task Task) (*waitingFor, error) {
	if !job.Waits || task.OnDemand || task.State != TaskQueued {
		return nil, nil
	}
	bids, err := u.bids(job)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(bids.Begin, func(x Begin) bool { return x.Task == task.Index })
	if at < 0 {
		return nil, nil
	}
	spec, err := u.spec(job)
	if err != nil {
		return nil, err
	}
	plan, err := u.plan(job)
	if err != nil {
		return nil, err
	}
	w := &waitingFor{Begin: bids.Begin[at], tick: cfg.TickEvery, others: len(bids.Begin)}
	c := plan.Of(task.Index)
	m, _, err := get[MarketRecord](u, marketKey(w.Market))
	if err != nil || c == nil || m.USD <= 0 {
		return nil, err
	}
	whole := spec.Tasks[task.Index].Time.For(c.Offer.InstanceType, c.Offer.Accelerator, c.Offer.AccelCount)
	w.table, w.usd, w.work = bids.Begins[w.Table], m.USD, hours(whole)*(1-task.Progress)
	return w, nil
}

// judgePrice says whether a task that may wait does. One that has waited is planned anew where its plan is not for the price of now: on demand when the
// price has come down, on spot when it has not.
func (s *scheduling) judgePrice(a admission) verdict {
	usd, wait := a.price.wait(s.u.now)
	if wait {
		return verdictWait
	}
	chosen := !math.IsInf(usd, 1) // else there is no time left to be choosy
	cheap := chosen && a.price.usd <= usd*(1+1e-6)
	if a.price.Spot && !cheap && (chosen || !a.task.WaitSince.IsZero()) || !a.price.Spot && cheap {
		return verdictReplan
	}
	return verdictAdmit
}

// why is the reason of a plan that judgePrice asks for.
func (w *waitingFor) why() string {
	if w.Spot {
		return fmt.Sprintf("%s costs %.4g USD/h, and there is no time left to wait for a better price", w.Market, w.usd)
	}
	return fmt.Sprintf("spot has come down to %.4g USD/h in %s", w.usd, w.Market)
}

// waits leaves a task in its queue for a better price, and writes down since when.
func (s *scheduling) waits(a admission) (d Decision) {
	if a.task.WaitSince.IsZero() {
		a.task.WaitSince, a.task.WaitUSD = s.u.now, a.price.usd
		d.put(taskKey(a.job.ID, a.waiting.Task), a.task)
	}
	return d
}

// priceOf is what a task may wait for; nil where a pool would take it.
func (s *scheduling) priceOf(a admission) (*waitingFor, error) {
	price, err := loadWaitingFor(s.u, s.cfg, a.job, a.task)
	if err != nil || price == nil {
		return nil, err
	}
	pools, err := s.seen()
	if err != nil {
		return nil, err
	}
	for i := range pools {
		if w, err := s.want(&pools[i], a); err != nil || w != nil {
			return nil, err
		}
	}
	return price, nil
}

// awake says whether a task of a job that waited for a better price is not to wait any more.
func (b *Broker) awake(u *unit, job Job) (bool, error) {
	if !job.Waits {
		return false, nil
	}
	bids, err := u.bids(job)
	if err != nil {
		return false, err
	}
	for _, x := range bids.Begin {
		task, found, err := get[Task](u, taskKey(job.ID, x.Task))
		if err != nil {
			return false, err
		}
		if !found || task.WaitSince.IsZero() {
			continue
		}
		w, err := loadWaitingFor(u, b.cfg, job, task)
		if err != nil {
			return false, err
		}
		if w == nil {
			continue
		}
		if _, wait := w.wait(u.now); !wait {
			return true, nil
		}
	}
	return false, nil
}

// WaitedFor lists the spot markets that tasks wait for, by their offers without the market: those whose prices have to be known.
func (b *Broker) WaitedFor(ctx context.Context) ([]string, error) {
	ids, err := b.activeJobs(ctx)
	if err != nil {
		return nil, err
	}
	u := b.newUnit(ctx, events.FnTick)
	known := map[string]bool{}
	for _, id := range ids {
		job, _, err := get[Job](u, jobKey(id))
		if err != nil {
			return nil, err
		}
		if !job.Waits {
			continue
		}
		bids, err := u.bids(job)
		if err != nil {
			return nil, err
		}
		for _, x := range bids.Begin {
			known[x.Market] = true
		}
	}
	return slices.Sorted(maps.Keys(known)), nil
}

// tellWaits adds what the tasks of a job wait for.
func (b *Views) tellWaits(u *unit, job Job, tasks []Task, views []TaskView) error {
	if !job.Waits || job.State != JobRunning {
		return nil
	}
	for _, t := range tasks {
		if t.WaitSince.IsZero() {
			continue
		}
		w, err := loadWaitingFor(u, b.cfg, job, t)
		if err != nil {
			return err
		}
		if w == nil {
			continue
		}
		if _, wait := w.wait(u.now); wait {
			views[t.Index-views[0].Index].Waits = w.tell(u.now)
		}
	}
	return nil
}
