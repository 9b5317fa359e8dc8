package jobstate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Opening is the time at which a job without a feasible plan gets one, because blocks end. The zero value means that
// it would have no plan even then.
type Opening struct {
	At    time.Time
	Block apitypes.Block // the last block that has to end; the plan then uses its location
}

// Opens returns the time at which the blocks that prevent a plan have ended, if only blocks prevent it. It plans the
// job as if they had ended. So the job waits only for a plan within its budget, and within its deadline counted from
// that time.
func Opens(in planinput.Input, plan func(planinput.Input) (*record.Plan, error)) (Opening, error) {
	ends := blockEnds(in.Blocks)
	if len(ends) == 0 {
		return Opening{}, nil
	}
	var failed error
	plans := map[time.Time]*record.Plan{}
	feasible := func(until time.Time, hours float64) bool {
		if failed != nil {
			return true // stop the search
		}
		made, err := plan(afterBlocks(in, until, hours))
		plans[until], failed = made, err
		return err == nil && made.Status != record.PlanInfeasible
	}
	// Later times have more available locations, so a binary search finds the first feasible one. The deadline gets
	// shorter with time, which is checked separately.
	n := sort.Search(len(ends), func(i int) bool { return feasible(ends[i].Until, 0) })
	for ; n < len(ends); n++ {
		at := ends[n].Until
		if in.DeadlineHours == nil || feasible(at, record.Hours(at.Sub(in.Now))) {
			return Opening{at, lastBlock(in, plans[at], ends[n])}, failed
		}
	}
	return Opening{}, failed
}

// lastBlock returns the block that ends last, of the blocks that a plan has to wait for.
func lastBlock(in planinput.Input, plan *record.Plan, otherwise apitypes.Block) (last apitypes.Block) {
	if plan == nil {
		return otherwise
	}
	for _, b := range in.Blocks {
		covers := func(p record.Planned) bool { return record.Covers(b, p.Offer, in.Now) }
		if record.IsTemporary(b) && b.Until.After(last.Until) && slices.ContainsFunc(plan.Offers, covers) {
			last = b
		}
	}
	return cmp.Or(last, otherwise)
}

// blockEnds returns the blocks that will end, one for each end, sorted by their end.
func blockEnds(blocks []apitypes.Block) []apitypes.Block {
	ends := slices.DeleteFunc(slices.Clone(blocks), func(b apitypes.Block) bool { return !record.IsTemporary(b) })
	slices.SortStableFunc(ends, func(x, y apitypes.Block) int { return x.Until.Compare(y.Until) })
	return slices.CompactFunc(ends, func(x, y apitypes.Block) bool { return x.Until.Equal(y.Until) })
}

// afterBlocks returns the planner's input at a later time: all blocks that end by until have ended, and the deadline
// is shorter by the given hours.
func afterBlocks(in planinput.Input, until time.Time, hours float64) planinput.Input {
	in.Blocks = slices.DeleteFunc(slices.Clone(in.Blocks), func(b apitypes.Block) bool {
		return record.IsTemporary(b) && !b.Until.After(until)
	})
	if in.DeadlineHours != nil && hours > 0 {
		left := math.Max(*in.DeadlineHours-hours, 0)
		in.DeadlineHours = &left
	}
	return in
}

// NoPlan describes a job that has no feasible plan now.
type NoPlan struct {
	Message string // the planner's reason
	Opens   Opening
	Blocks  []apitypes.Block
	Began   time.Time // when a task of the job last got machines or started
	Serves  bool      // a replica of one of its services is ready, and keeps running
	Now     time.Time
}

// DecideInfeasible fails a job without a feasible plan, or makes it wait, as its author chose: until blocks end if
// only blocks prevent a plan, until any change, or not at all. A job with a ready service waits.
func DecideInfeasible(job record.Job, on NoPlan, cfg config.Config) (d record.Decision) {
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
			fmt.Sprintf("%s; it has waited for %s, its maximum (patience)", reason,
				readable.Rounded(now.Sub(job.StuckSince))))
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

// patienceEnds returns the time until which a job waits for a plan. Zero means without limit.
func patienceEnds(job record.Job, cfg config.Config) time.Time {
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

// firstEnd returns the time at which the first of some blocks ends, or zero if there are none.
func firstEnd(blocks []apitypes.Block, now time.Time) (first time.Time) {
	for _, b := range blocks {
		if b.Until.After(now) && (first.IsZero() || b.Until.Before(first)) {
			first = b.Until
		}
	}
	return first
}
