package life

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Opening is when a job that no place is left for has one again, because blocks end. The zero value is of a job that
// would have none even then.
type Opening struct {
	At    time.Time
	Block apitypes.Block // the last that has to end, of a place that is planned with then
}

// Opens says when the blocks that stand in the way of a job have ended, if nothing else does. It plans the job as if
// they had, so that what is waited for is a plan that keeps the budget, and the deadline from there on.
func Opens(in record.PlanInput, plan func(record.PlanInput) (*record.Plan, error)) (Opening, error) {
	ends := blockEnds(in.Blocks)
	if len(ends) == 0 {
		return Opening{}, nil
	}
	var failed error
	plans := map[time.Time]*record.Plan{}
	feasible := func(until time.Time, hours float64) bool {
		if failed != nil {
			return true // the search is over
		}
		made, err := plan(afterBlocks(in, until, hours))
		plans[until], failed = made, err
		return err == nil && made.Status != record.PlanInfeasible
	}
	// The later, the more places are free, but for the time that passes meanwhile, which counts only with a deadline.
	n := sort.Search(len(ends), func(i int) bool { return feasible(ends[i].Until, 0) })
	for ; n < len(ends); n++ {
		at := ends[n].Until
		if in.DeadlineHours == nil || feasible(at, record.Hours(at.Sub(in.Now))) {
			return Opening{at, lastBlock(in, plans[at], ends[n])}, failed
		}
	}
	return Opening{}, failed
}

// lastBlock is the one that ends last of those that a plan has to wait for.
func lastBlock(in record.PlanInput, plan *record.Plan, otherwise apitypes.Block) (last apitypes.Block) {
	if plan == nil {
		return otherwise
	}
	for _, b := range in.Blocks {
		covers := func(p record.Planned) bool { return record.Covers(b, p.Offer, in.Now) }
		if passes(cloud.Kind(b.Kind)) && b.Until.After(last.Until) && slices.ContainsFunc(plan.Offers, covers) {
			last = b
		}
	}
	return cmp.Or(last, otherwise)
}

// passes says whether what has blocked a place goes by without anybody doing something about it: rights that are
// missing do not.
func passes(k cloud.Kind) bool { return k != cloud.Auth && k != cloud.Invalid }

// blockEnds are those that pass, one of each end, in the order of their ends.
func blockEnds(blocks []apitypes.Block) []apitypes.Block {
	ends := slices.DeleteFunc(slices.Clone(blocks), func(b apitypes.Block) bool { return !passes(cloud.Kind(b.Kind)) })
	slices.SortStableFunc(ends, func(x, y apitypes.Block) int { return x.Until.Compare(y.Until) })
	return slices.CompactFunc(ends, func(x, y apitypes.Block) bool { return x.Until.Equal(y.Until) })
}

// afterBlocks is what a plan depends on when those blocks that pass have ended that do so until a time, and hours of
// the deadline have passed.
func afterBlocks(in record.PlanInput, until time.Time, hours float64) record.PlanInput {
	in.Blocks = slices.DeleteFunc(slices.Clone(in.Blocks), func(b apitypes.Block) bool {
		return passes(cloud.Kind(b.Kind)) && !b.Until.After(until)
	})
	if in.DeadlineHours != nil && hours > 0 {
		left := math.Max(*in.DeadlineHours-hours, 0)
		in.DeadlineHours = &left
	}
	return in
}

// Stuck is a job for which there is no plan now.
type Stuck struct {
	Message string // of the planner, why
	Opens   Opening
	Blocks  []apitypes.Block
	Began   time.Time // when something of it last got machines, or began to run
	Serves  bool      // a replica of a service of it is ready, which goes on meanwhile
	Now     time.Time
}

// DecideInfeasible fails a job that no place is left for, or has it wait, as its author chose: for blocks that end
// where those are all that stands in the way, for anything, or not at all. One whose service can be used waits.
func DecideInfeasible(job record.Job, on Stuck, cfg record.Config) (d record.Decision) {
	now, reason := on.Now, "no feasible plan: "+on.Message
	if job.Infeasible != dag.Wait && on.Opens.At.IsZero() && !on.Serves {
		return decideEnding(job, apitypes.JobFailed, reason)
	}
	if since := job.StuckSince; since.IsZero() || on.Began.After(since) || job.Resumed().After(since) {
		job.StuckSince = now
	}
	at, ends := now.Add(cfg.RetryEvery), patienceEnds(job, cfg)
	if ends.IsZero() || on.Serves {
		ends = at
	} else if !now.Before(ends) {
		return decideEnding(job, apitypes.JobFailed,
			fmt.Sprintf("%s; it has waited for %s, which is its patience", reason,
				record.Rounded(now.Sub(job.StuckSince))))
	}
	for _, t := range []time.Time{ends, firstEnd(on.Blocks, now)} {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	if !on.Opens.At.IsZero() {
		k := on.Opens.Block
		reason = fmt.Sprintf("for %s, blocked until %s (%s); until then there is %s", record.WhereBlocked(k),
			on.Opens.At.UTC().Format(time.RFC3339), k.Reason, reason)
	}
	job.State, job.RetryAt, job.Reason = apitypes.JobWaiting, at, reason
	d.PutJob(job)
	return d
}

// patienceEnds is until when a job waits for a place, zero for one that does so without end.
func patienceEnds(job record.Job, cfg record.Config) time.Time {
	switch {
	case job.Patience > 0:
		return job.StuckSince.Add(job.Patience)
	case job.Infeasible == dag.Wait:
		return time.Time{}
	}
	ends := job.StuckSince.Add(cfg.Patience)
	if job.Deadline.After(ends) {
		return job.Deadline
	}
	return ends
}

// firstEnd is when the first of some blocks ends, zero where there is none.
func firstEnd(blocks []apitypes.Block, now time.Time) (first time.Time) {
	for _, b := range blocks {
		if b.Until.After(now) && (first.IsZero() || b.Until.Before(first)) {
			first = b.Until
		}
	}
	return first
}
