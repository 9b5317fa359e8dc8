package bid

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Minimum observations of a market before a task waits for a better price there. After twenty changes, the rate at
// which a high price ends is known to within a quarter. A day covers the rhythm of most markets.
const (
	waitChanges = 20
	waitHours   = 24
)

// minWaitTicks is the minimum number of further price checks before the task's latest start. With fewer, waiting is
// not worthwhile.
const minWaitTicks = 2

// maxWaiting is the maximum number of tasks of a job that wait for a better price. Each session checks all of them,
// and looks at only a limited number of tasks in the queue.
const maxWaiting = 128

// Waits returns the tasks that may wait for a better price, with their tables.
func (in *Input) Waits(ctx context.Context) (begins []record.Begin, tables []*bidding.Begin, err error) {
	if in.Job.Deadline.IsZero() || in.Job.Objective != dag.MinimizeCost || in.Plan.Late {
		return nil, nil, nil
	}
	times, graph := sync.OnceValues(in.BeginBy), sync.OnceValue(in.Spec.Graph)
	var made sharedTables[*bidding.Begin]
	for i := range in.Plan.Choice {
		if len(begins) == maxWaiting {
			break
		}
		l, ok := in.mayWait(i)
		if !ok {
			continue
		}
		by, finishBy := times()
		l.Left = record.Hours(finishBy[i].Sub(in.Now))
		if !in.Now.Add(minWaitTicks * in.Tick).Before(by[i]) {
			continue
		}
		var task record.Task
		if at, ok := record.TaskAt(in.Tasks, i); ok {
			task = in.Tasks[at]
		}
		if task.OnDemand || task.State != "" && task.State != record.TaskQueued {
			continue
		}
		c := in.Plan.Of(i)
		key := fmt.Sprintf("%s %.3g %.2g %.2g", c.ID, l.Work, l.Left, l.Restart)
		at, err := made.indexOf(key, func() (*bidding.Begin, error) { return bidding.NewBegin(ctx, l) })
		if err != nil {
			return nil, nil, fmt.Errorf("broker: when task %s begins: %w", in.Spec.Tasks[i].Name, err)
		}
		// The decision to wait for a lower price is made when the task can start, at the prices of that time. That is
		// now for a task that could start now, later for a task that is not ready yet, and the start itself for a
		// task that has waited.
		now := (task.State == record.TaskQueued || len(graph().Parents(i)) == 0) && task.WaitSince.IsZero()
		if at < 0 || !made.made[at].Any() {
			continue
		}
		if _, waits := made.made[at].Waits(l.USD, l.Work*(1-task.Progress), l.Left); waits || !now {
			begins = append(begins, record.Begin{Task: i, Market: record.MarketID(c.ID), Spot: c.Offer.Spot, By: by[i],
				FinishBy: finishBy[i], MostUSD: l.OnDemandUSD, Table: int(at)})
		}
	}
	if len(begins) == 0 {
		return nil, nil, nil
	}
	return begins, made.made, nil
}

// mayWait reports whether a task may wait at all. It returns the input of the task's table without the remaining
// time. A task on demand may wait for the spot market of its machine.
func (in *Input) mayWait(i int) (l bidding.LiveTask, ok bool) {
	t, c := &in.Spec.Tasks[i], in.Plan.Of(i)
	if c == nil || in.Plan.IsShared(i) || t.Gang != "" || t.Joins != "" || !record.OnDemandAllowed(t) ||
		!record.SpotAllowed(t) {
		return l, false
	}
	m := &in.Markets[in.Plan.Choice[i]]
	if changes, watched := m.Prices.Seen(); changes < waitChanges || watched < waitHours || m.USD <= 0 {
		return l, false
	}
	if l, ok = in.liveInput(i, nil); ok && !c.Offer.Spot {
		l.LossesPerHour = (float64(m.Preemptions) + lossesPrior) / (m.Hours + lossesPriorHours) * float64(
			record.NodesOn(t, c))
	}
	return l, ok
}

// The prior of the rate at which spot machines are preempted, if the plan states none: once in 40 hours, with the
// weight of a day of observations.
const lossesPrior, lossesPriorHours = 0.6, 24

// BeginBy returns the latest start of each task. A task that starts by then, and all tasks that follow it, can run as
// planned even if every spot machine is preempted at the worst moment. finishBy is the time by which each task must
// finish for that.
func (in *Input) BeginBy() (by, finishBy []time.Time) { return in.backward(in.timeNeeded) }

// timeNeeded returns the time that is planned for a task: its work, a start, a price check that comes too late, and
// the loss of a spot machine.
func (in *Input) timeNeeded(i int) time.Duration {
	t, work := &in.Spec.Tasks[i], record.Duration(in.Plan.TaskHours[i])
	if in.Plan.Of(i) == nil {
		return work
	}
	lost := work
	if every := checkpointEvery(t); every > 0 {
		lost = min(lost, every)
	}
	return work + in.Restart + in.Tick + max(lost, in.Tick) + in.Restart
}

// checkpointEvery returns the interval at which a task saves its work, or 0 if it does not.
func checkpointEvery(t *dag.Task) time.Duration {
	switch {
	case t.Checkpoint != nil && t.Checkpoint.Every > 0:
		return t.Checkpoint.Every
	case t.StandIn():
		return time.Minute
	}
	return 0
}

// Waiting is the data about a waiting task that a session needs.
type Waiting struct {
	record.Begin
	Worth *bidding.Begin
	USD   float64 // the current price of the market, USD per hour
	Work  float64 // hours
	Tick  time.Duration
	// Others is the number of tasks of the job that may wait, including this one.
	Others int
}

// Wait reports whether the task waits now. beginUSD is the price in USD per hour at which it starts.
func (w *Waiting) Wait(now time.Time) (beginUSD float64, wait bool) {
	beginUSD, wait = w.Worth.Waits(w.USD, w.Work, record.Hours(w.FinishBy.Sub(now)))
	if !math.IsInf(beginUSD, 1) {
		beginUSD = min(beginUSD, w.MostUSD)
	}
	return beginUSD, wait && now.Add(w.Tick).Before(w.By)
}

// Waits reports whether to wait now.
func (w *Waiting) Waits(now time.Time) bool {
	_, wait := w.Wait(now)
	return wait
}

// Describe returns a text for users about the condition for which the task waits.
func (w *Waiting) Describe(now time.Time) string {
	usd, _ := w.Wait(now)
	by := w.By.UTC().Format("15:04 UTC")
	if w.By.Sub(now) >= 24*time.Hour {
		by = w.By.UTC().Format("2006-01-02 15:04 UTC")
	}
	return fmt.Sprintf("waits for a better price: %.4g USD/h now in %s, worth %.3g; begins by %s at the latest", w.USD,
		w.Market, usd, by)
}

// LoadWaiting returns the market and the conditions for which a task waits, or nil if it does not wait.
func LoadWaiting(u recordcache.Reader, cfg config.Config, job record.Job, task record.Task) (*Waiting, error) {
	if !job.Waits || task.OnDemand || task.State != record.TaskQueued {
		return nil, nil
	}
	bids, err := u.Bids(job)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(bids.Begin, func(x record.Begin) bool { return x.Task == task.Index })
	if at < 0 {
		return nil, nil
	}
	spec, err := u.Spec(job)
	if err != nil {
		return nil, err
	}
	plan, err := u.Plan(job)
	if err != nil {
		return nil, err
	}
	w := &Waiting{Begin: bids.Begin[at], Tick: cfg.TickEvery, Others: len(bids.Begin)}
	c := plan.Of(task.Index)
	m, _, err := recordcache.Get[record.MarketRecord](u, record.MarketKey(w.Market))
	if err != nil || c == nil || m.USD <= 0 {
		return nil, err
	}
	whole := record.TimeOn(&spec.Tasks[task.Index], c.Offer)
	w.Worth, w.USD, w.Work = bids.Begins[w.Table], m.USD, record.Hours(whole)*(1-task.Progress)
	return w, nil
}

// ReplanReason returns the reason for the new plan that judgePrice requests.
func (w *Waiting) ReplanReason() string {
	if w.Spot {
		return fmt.Sprintf("%s costs %.4g USD/h, and there is no time left to wait for a better price", w.Market, w.USD)
	}
	return fmt.Sprintf("spot has come down to %.4g USD/h in %s", w.USD, w.Market)
}
