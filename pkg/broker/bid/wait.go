package bid

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/bidding"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// What has to be known of a market before anything waits for it. With twenty changes the rate at which a high price
// ends is known within a quarter; a day holds the rhythm that most markets have.
const (
	waitChanges = 20
	waitHours   = 24
)

// waitLooks is how many looks there must be time for before a task begins at the latest, for waiting to be worth the
// while.
const waitLooks = 2

// waitMost bounds the tasks of a job that wait: each session looks at all that do, and at nothing that is far behind
// them.
const waitMost = 128

// Waits finds the tasks that may wait, with their tables.
func (in *Input) Waits(ctx context.Context) (begins []record.Begin, tables []*bidding.Begin, err error) {
	if in.Job.Deadline.IsZero() || in.Job.Objective != dag.MinimizeCost || in.Plan.Late {
		return nil, nil, nil
	}
	times, graph := sync.OnceValues(in.BeginBy), sync.OnceValue(in.Spec.Graph)
	var made shared[*bidding.Begin]
	for i := range in.Plan.Choice {
		if len(begins) == waitMost {
			break
		}
		l, ok := in.mayWait(i)
		if !ok {
			continue
		}
		by, finishBy := times()
		l.Left = record.Hours(finishBy[i].Sub(in.Now))
		if !in.Now.Add(waitLooks * in.Tick).Before(by[i]) {
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
		at, err := made.of(key, func() (*bidding.Begin, error) { return bidding.NewBegin(ctx, l) })
		if err != nil {
			return nil, nil, fmt.Errorf("broker: when task %s begins: %w", in.Spec.Tasks[i].Name, err)
		}
		// Of one that could begin now it is known whether it waits. What begins later is asked then, and what has
		// waited when it begins: on what is cheaper by then.
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

// mayWait says whether a task may wait at all, and what its table is made of but for the time left. One on demand may
// wait for the spot market of its machine.
func (in *Input) mayWait(i int) (l bidding.Live, ok bool) {
	t, c := &in.Spec.Tasks[i], in.Plan.Of(i)
	if c == nil || t.Gang != "" || t.Joins != "" || !record.OnDemandAllowed(t) || !record.SpotAllowed(t) {
		return l, false
	}
	m := &in.Markets[in.Plan.Choice[i]]
	if changes, watched := m.Prices.Seen(); changes < waitChanges || watched < waitHours || m.USD <= 0 {
		return l, false
	}
	if l, ok = in.live(i, nil); ok && !c.Offer.Spot {
		l.LossesPerHour = (float64(m.Preemptions) + lossesPrior) / (m.Hours + lossesPriorHours) * float64(
			max(t.Nodes, 1))
	}
	return l, ok
}

// How often a spot machine is taken of which the plan says nothing: what was seen, beside five in two hundred hours.
const lossesPrior, lossesPriorHours = 5, 200

// BeginBy says when each task begins at the latest so that it, and all that follow it, can still run as they are
// planned even if every spot machine is taken at the worst moment; and by when it has to be done for that.
func (in *Input) BeginBy() (by, finishBy []time.Time) { return in.backward(in.needs) }

// needs is the time that a task is given: its work, a start, a look at prices that comes too late, and what the loss of
// a spot machine costs.
func (in *Input) needs(i int) time.Duration {
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

// Waiting is what a session has to know of a task that may wait.
type Waiting struct {
	record.Begin
	Worth *bidding.Begin
	USD   float64 // what the market costs now, USD per hour
	Work  float64 // hours
	Tick  time.Duration
	// others is how many tasks of the job may wait, this one included.
	Others int
}

// Wait says whether to wait now, and for which price, USD per hour.
func (w *Waiting) Wait(now time.Time) (beginUSD float64, wait bool) {
	beginUSD, wait = w.Worth.Waits(w.USD, w.Work, record.Hours(w.FinishBy.Sub(now)))
	if !math.IsInf(beginUSD, 1) {
		beginUSD = min(beginUSD, w.MostUSD)
	}
	return beginUSD, wait && now.Add(w.Tick).Before(w.By)
}

// Waits says whether to wait now.
func (w *Waiting) Waits(now time.Time) bool {
	_, wait := w.Wait(now)
	return wait
}

// Tell says what is waited for as people are told.
func (w *Waiting) Tell(now time.Time) string {
	usd, _ := w.Wait(now)
	by := w.By.UTC().Format("15:04 UTC")
	if w.By.Sub(now) >= 24*time.Hour {
		by = w.By.UTC().Format("2006-01-02 15:04 UTC")
	}
	return fmt.Sprintf("waits for a better price: %.4g USD/h now in %s, worth %.3g; begins by %s at the latest", w.USD,
		w.Market, usd, by)
}

// LoadWaiting loads what a task waits for, nil where it does not.
func LoadWaiting(u book.Reader, cfg record.Config, job record.Job, task record.Task) (*Waiting, error) {
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
	m, _, err := book.Get[record.MarketRecord](u, record.MarketKey(w.Market))
	if err != nil || c == nil || m.USD <= 0 {
		return nil, err
	}
	whole := spec.Tasks[task.Index].Time.For(c.Offer.InstanceType, c.Offer.Accelerator, c.Offer.AccelCount)
	w.Worth, w.USD, w.Work = bids.Begins[w.Table], m.USD, record.Hours(whole)*(1-task.Progress)
	return w, nil
}

// Why is the reason of a plan that judgePrice asks for.
func (w *Waiting) Why() string {
	if w.Spot {
		return fmt.Sprintf("%s costs %.4g USD/h, and there is no time left to wait for a better price", w.Market, w.USD)
	}
	return fmt.Sprintf("spot has come down to %.4g USD/h in %s", w.USD, w.Market)
}
