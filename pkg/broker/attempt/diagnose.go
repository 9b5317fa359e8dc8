package attempt

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Inventory is what clouds said they run for us.
type Inventory struct {
	// Asked is when they were: whoever acts on it may have waited for a store for minutes since.
	Asked time.Time
	// Of are their machines by cluster, by cloud; none of one that did not answer.
	Of map[string]map[string][]cloud.Machine
}

// remedy is what reconcile does about a cluster.
type remedy int

// What reconcile does about a cluster.
const (
	RemedyNone    remedy = iota
	remedyLaunch         // its launch was left half done: provision goes on with it
	remedyRelease        // its release was, or its attempt is over: provision goes on with it
	RemedyLost           // its machines are gone or silent
	remedyTaken          // it was doomed and its time is over
	RemedyRun            // it is up and was never told to run
	RemedyLease          // what was set aside for it is nearly used up
)

// Diagnose finds what is wrong with a cluster.
func Diagnose(cl record.Cluster, cfg record.Config, machines Inventory, now time.Time) remedy {
	age := now.Sub(cl.Since)
	switch {
	case cl.State == record.ClusterReleasing:
		return pick(age > cfg.StuckFor || due(cl, cfg, now) && age > cfg.Overhead/4, remedyRelease)
	case cl.Kept(now):
		if due(cl, cfg, now) {
			return RemedyLease
		}
		// Machines are kept all together, as they are paid for.
		return pick(gone(cl, cfg, machines, now) || silent(cl, cfg.SilentFor, cfg.SilentFor, now), remedyRelease)
	case cl.Outcome != "":
		return pick(age > cfg.StuckFor || due(cl, cfg, now) && age > cfg.Overhead/4, remedyRelease)
	case due(cl, cfg, now): // whatever state it is in, it costs
		return RemedyLease
	case cl.State == record.ClusterLaunching:
		return pick(age > cfg.StuckFor, remedyLaunch)
	case gone(cl, cfg, machines, now):
		return RemedyLost
	case cl.State == record.ClusterDoomed:
		return pick(now.After(cl.Until.Add(cfg.StuckFor)), remedyTaken)
	case cl.State == record.ClusterBooting:
		return pick(age > cfg.BootWithin, RemedyLost)
	case cl.Command == "":
		return pick(age > cfg.StuckFor, RemedyRun)
	case silent(cl, cfg.SilentFor, max(cfg.SilentFor, cfg.BootWithin), now):
		return RemedyLost
	default:
		return RemedyNone
	}
}

// due says that what was set aside for a cluster is nearly used up: what is left is for the next look at it, a quarter
// of the overhead later at most, and for its release.
func due(cl record.Cluster, cfg record.Config, now time.Time) bool {
	return !cl.LeaseUntil.IsZero() && now.After(cl.LeaseUntil.Add(-cfg.Overhead/2))
}

func pick(is bool, r remedy) remedy {
	if is {
		return r
	}
	return RemedyNone
}

// gone says that the cloud no longer runs all machines of a cluster. A cloud that did not answer says nothing, and
// one that was asked soon after the launch may not have listed it yet.
func gone(cl record.Cluster, cfg record.Config, machines Inventory, now time.Time) bool {
	known, ok := machines.Of[cl.Offer.Cloud]
	lag := cmp.Or(cfg.ListLag, cfg.StuckFor)
	if cl.Assigned() { // which lists what is in the records, and what is lost as lost
		lag = min(lag, cfg.Pool.LostAfter)
		if !silent(cl, cfg.Pool.LostAfter, cfg.Pool.LostAfter, now) {
			return false // its agents have been heard of, since the list was made perhaps
		}
	}
	if !ok || machines.Asked.Sub(cl.Launched) < lag {
		return false
	}
	return len(known[cl.ID]) < len(cl.Nodes)
}

// untaken says of a cluster that was lost while it ran that no cloud took it: its machines are on demand, or ran when
// their cloud was asked, though an agent of them was silent by then. Those of a pool may have been switched off.
func untaken(cl record.Cluster, cfg record.Config, machines Inventory) bool {
	if cl.Assigned() || cl.Command == "" {
		return false
	}
	return !cl.Offer.Spot || len(machines.Of[cl.Offer.Cloud][cl.ID]) >= len(cl.Nodes) &&
		silent(cl, cfg.SilentFor, max(cfg.SilentFor, cfg.BootWithin), machines.Asked)
}

// silent says that a node has not been heard of for longer than a limit, since it was told to run. One that has said
// nothing at all since then is given longer: when the word reached it is not known, as the commit that told it may
// itself have taken minutes.
func silent(cl record.Cluster, limit, first time.Duration, now time.Time) bool {
	for _, n := range cl.Nodes {
		if !n.Done && now.Sub(n.Seen) > limit && (n.Seen.After(cl.Since) || now.Sub(cl.Since) > first) {
			return true
		}
	}
	return false
}

// DecideRemedy does what a diagnosis asks for.
func DecideRemedy(r remedy, l Losing, cfg record.Config, machines Inventory, now time.Time) (d record.Decision) {
	switch r {
	case remedyLaunch:
		l.Cluster.Since = now // not again before it has had its time
		d.Put(record.ClusterKey(l.Cluster.ID), l.Cluster)
		d.Emit(events.TaskAdmitted{Job: l.Cluster.Job, Task: l.Cluster.Task, Attempt: l.Cluster.Attempt})
	case remedyRelease:
		if l.Cluster.Kept(now) {
			return DecideLetGo(l.Cluster, "its machines, which were kept, are gone or silent", now)
		}
		l.Cluster.Since = now
		d.Put(record.ClusterKey(l.Cluster.ID), l.Cluster)
		d.Emit(events.ClusterRelease{Cluster: l.Cluster.ID, Job: l.Cluster.Job, Reason: "its release was overdue"})
	case RemedyLost:
		const reason = "its machines are gone or silent"
		if untaken(l.Cluster, cfg, machines) {
			return DecideSilent(l, reason, now)
		}
		return DecideLost(l, apitypes.OutcomeLost, reason, now)
	case remedyTaken:
		return DecideLost(l, l.Cluster.Taken(), l.Cluster.Reason, now)
	case RemedyNone, RemedyLease, RemedyRun:
	}
	return d
}

// needsMore says that an attempt would cost more than its job may, or its queue in this month.
func needsMore(task int, job record.Job) string {
	if job.BudgetUSD <= 0 {
		return fmt.Sprintf("task %d needs more than what is left of the month's budget of queue %s", task, job.Queue)
	}
	return fmt.Sprintf("task %d needs more than what is left of the budget of %s USD", task,
		record.TellUSD(job.BudgetUSD))
}

// leftOf is what an attempt may still have set aside, of the job's budget and of those of the month, and the words for
// where there is too little.
func leftOf(l Losing, ledger record.Ledger, purses []record.Purse) (left float64, reason string) {
	left, reason = math.Inf(1), needsMore(l.Cluster.Task, l.Job)
	if l.Job.BudgetUSD > 0 {
		left = l.Job.BudgetUSD - ledger.SpentUSD - ledger.ReservedUSD
	}
	for _, p := range purses {
		if p.LeftUSD() < left {
			left, reason = p.LeftUSD(), "it needs more than was set aside for it: "+p.Tell()
		}
	}
	return left, reason
}

// DecideLease sets more of the budget aside for an attempt that takes longer than expected, or stops it before it
// would overspend. purses are the month's budgets that it is set aside of as well; the caller books there what more is.
func DecideLease(l Losing, ledger record.Ledger, purses []record.Purse, cfg record.Config,
	now time.Time) (d record.Decision, more float64) {
	rate := l.Cluster.Ceiling() * float64(len(l.Cluster.Nodes))
	if rate <= 0 {
		l.Cluster.LeaseUntil = time.Time{}
		d.Put(record.ClusterKey(l.Cluster.ID), l.Cluster)
		return d, 0
	}
	// It was set aside at the most that it could cost: what it has cost less lasts longer.
	until := l.Cluster.Covered(cfg.TickEvery, now)
	left, reason := leftOf(l, ledger, purses)
	// One that is looked at long after its lease has ended is not extended into what is past.
	from := l.Cluster.LeaseUntil
	if now.After(from) {
		from = now
	}
	if until.Sub(from) < cfg.Overhead/4 {
		more = max(min(left, rate*record.Hours(from.Add(cfg.Overhead).Sub(until))), 0)
		until = until.Add(record.Duration(more / rate))
	}
	if until.Sub(from) >= cfg.Overhead/4 {
		l.Cluster.LeaseUntil = until
		l.Cluster.ReservedUSD += more
		d.Put(record.ClusterKey(l.Cluster.ID), l.Cluster)
		if more > 0 {
			ledger.ReservedUSD += more
			d.Put(record.LedgerKey(l.Job.ID), ledger)
		}
		return d, more
	}
	if l.Cluster.Kept(now) {
		return DecideLetGo(l.Cluster, reason, now), 0
	}
	if l.Task.Service != "" && !l.current() { // another takes its place: that one has the money
		return DecideLost(l, apitypes.OutcomeBudget, reason, now), 0
	}
	l.Cluster.Seq++
	l.Cluster.Command = string(wire.Stop)
	return l.last(apitypes.OutcomeBudget, reason, reason, now), 0
}
