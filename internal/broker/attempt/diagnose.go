package attempt

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Inventory lists the machines of this deployment that the clouds report.
type Inventory struct {
	// Asked is the time at which the clouds were asked. It may be minutes ago, if the caller then had to wait for a
	// store.
	Asked time.Time
	// Of has the reported machines, by cloud and cluster. A cloud that did not answer is missing.
	Of map[string]map[string][]cloud.Machine
	// Faults has the reasons why machines could not start because of settings of the account, by cloud and cluster.
	Faults map[string]map[string]string
}

// Fault returns the reason why machines of a cluster could not start because of settings of the account, or "".
func (in Inventory) Fault(cl record.Cluster) string { return in.Faults[cl.Offer.Cloud][cl.ID] }

// remedy is the reaction of reconcile to the state of a cluster.
type remedy int

// The reactions of reconcile to the state of a cluster.
const (
	RemedyNone    remedy = iota
	remedyLaunch         // its launch was not finished: provision continues it
	remedyRelease        // its release was not finished, or its attempt has ended: provision continues the release
	RemedyLost           // its machines have ended or do not answer
	remedyTaken          // it was doomed, and that time has passed
	RemedyRun            // it is up and was never commanded to run
	RemedyLease          // its reserved money is nearly used up
)

// Diagnose checks a cluster. It returns the remedy for the first fault that it finds.
func Diagnose(cl record.Cluster, cfg config.Config, machines Inventory, now time.Time) remedy {
	age := now.Sub(cl.Since)
	switch {
	case cl.State == record.ClusterReleasing:
		return when(age > cfg.StuckFor || leaseDue(cl, cfg, now) && age > cfg.Overhead/4, remedyRelease)
	case cl.Kept(now):
		if leaseDue(cl, cfg, now) {
			return RemedyLease
		}
		// All machines of a kept cluster are kept or released together, because they are paid for together.
		return when(gone(cl, cfg, machines, now) || silent(cl, cfg.SilentFor, cfg.SilentFor, now), remedyRelease)
	case cl.Outcome != "":
		return when(age > cfg.StuckFor || leaseDue(cl, cfg, now) && age > cfg.Overhead/4, remedyRelease)
	case leaseDue(cl, cfg, now): // a cluster costs money in any state
		return RemedyLease
	case cl.State == record.ClusterLaunching:
		return when(age > cfg.StuckFor, remedyLaunch)
	case gone(cl, cfg, machines, now):
		return RemedyLost
	case cl.State == record.ClusterDoomed:
		return when(now.After(cl.Until.Add(cfg.StuckFor)), remedyTaken)
	case cl.State == record.ClusterBooting:
		return when(age > cfg.BootLimit(cl.Offer), RemedyLost)
	case cl.Command == "":
		return when(age > cfg.StuckFor, RemedyRun)
	case cl.Offer.Service != "": // a service has no agent that could be silent
		return RemedyNone
	case silent(cl, cfg.SilentFor, max(cfg.SilentFor, cfg.BootLimit(cl.Offer)), now):
		return RemedyLost
	default:
		return RemedyNone
	}
}

// leaseDue reports whether the money reserved for a cluster is nearly used up. The rest must last until the next
// check, at most a quarter of the overhead later, and pay for the release.
func leaseDue(cl record.Cluster, cfg config.Config, now time.Time) bool {
	return !cl.LeaseUntil.IsZero() && now.After(cl.LeaseUntil.Add(-cfg.Overhead/2))
}

func when(is bool, r remedy) remedy {
	if is {
		return r
	}
	return RemedyNone
}

// gone reports whether some machines of a cluster no longer run, by the cloud's list. A cloud that did not answer
// proves nothing. A list that was made soon after the launch may not have the machines yet.
func gone(cl record.Cluster, cfg config.Config, machines Inventory, now time.Time) bool {
	if cl.Offer.Service != "" { // package service watches it
		return false
	}
	known, ok := machines.Of[cl.Offer.Cloud]
	lag := cmp.Or(cfg.ListLag, cfg.StuckFor)
	if cl.Assigned() { // a pool lists the recorded machines, and omits lost ones
		lag = min(lag, cfg.Pool.LostAfter)
		if !silent(cl, cfg.Pool.LostAfter, cfg.Pool.LostAfter, now) {
			return false // its agents have called, perhaps after the list was made
		}
	}
	if !ok || machines.Asked.Sub(cl.Launched) < lag {
		return false
	}
	return len(known[cl.ID]) < len(cl.Nodes)
}

// notPreempted reports whether a cluster that was lost while it ran was not taken by its cloud. It was not taken if
// its machines are on demand, or if the cloud still listed them when an agent was already silent. Machines of a pool
// may have been switched off.
func notPreempted(cl record.Cluster, cfg config.Config, machines Inventory) bool {
	if cl.Assigned() || cl.Command == "" {
		return false
	}
	return !cl.Offer.Spot || len(machines.Of[cl.Offer.Cloud][cl.ID]) >= len(cl.Nodes) &&
		silent(cl, cfg.SilentFor, max(cfg.SilentFor, cfg.BootLimit(cl.Offer)), machines.Asked)
}

// silent reports whether a node has not called for longer than limit since the command to run. If the node has not
// called at all since then, the longer limit first applies: the broker does not know when the command reached the
// node, and the commit of the command may have taken minutes.
func silent(cl record.Cluster, limit, first time.Duration, now time.Time) bool {
	for _, n := range cl.Nodes {
		if !n.Done && now.Sub(n.Seen) > limit && (n.Seen.After(cl.Since) || now.Sub(cl.Since) > first) {
			return true
		}
	}
	return false
}

// DecideRemedy applies a remedy.
func DecideRemedy(r remedy, l Losing, cfg config.Config, machines Inventory, now time.Time) (d record.Decision) {
	switch r {
	case remedyLaunch:
		l.Cluster.Since = now // gives provision time before this remedy is repeated
		d.Put(record.ClusterKey(l.Cluster.ID), l.Cluster)
		d.Emit(events.TaskAdmitted{Job: l.Cluster.Job, Task: l.Cluster.Task, Attempt: l.Cluster.Attempt})
	case remedyRelease:
		if l.Cluster.Kept(now) {
			return DecideReleaseKept(l.Cluster, "its kept machines have ended or do not answer", now)
		}
		l.Cluster.Since, l.Cluster.Releaser = now, "" // the new event replaces all others
		d.Put(record.ClusterKey(l.Cluster.ID), l.Cluster)
		d.Emit(events.ClusterRelease{Cluster: l.Cluster.ID, Job: l.Cluster.Job, Reason: "its release was overdue"})
	case RemedyLost:
		if fault := machines.Fault(l.Cluster); fault != "" {
			return DecideLost(l, apitypes.OutcomeLost, fault, now)
		}
		reason := lostReason(l.Cluster, cfg, machines, now)
		if notPreempted(l.Cluster, cfg, machines) {
			return DecideSilent(l, reason, now)
		}
		return DecideLost(l, apitypes.OutcomeLost, reason, now)
	case remedyTaken:
		return DecideLost(l, l.Cluster.LossOutcome(), l.Cluster.Reason, now)
	case RemedyNone, RemedyLease, RemedyRun:
	}
	return d
}

// lostReason returns the reason why a cluster is lost. If the cloud still lists its machines, the reason names those
// that never answered.
func lostReason(cl record.Cluster, cfg config.Config, machines Inventory, now time.Time) string {
	if never := cl.NeverAnswered(); never != "" && cl.State == record.ClusterBooting && !gone(cl, cfg, machines, now) {
		return never + " within " + readable.Rounded(cfg.BootLimit(cl.Offer)).String() + " of the launch"
	}
	return "its machines have ended or do not answer"
}

// overBudgetReason returns the reason for an attempt that costs more than the remaining budget of its job, or than
// the monthly budget of its queue.
func overBudgetReason(task int, job record.Job) string {
	if job.BudgetUSD <= 0 {
		return fmt.Sprintf("task %d needs more than what remains of the monthly budget of queue %s", task, job.Queue)
	}
	return fmt.Sprintf("task %d needs more than what remains of the budget of %s USD", task,
		readable.USD(job.BudgetUSD))
}

// remainingBudget returns the amount in USD that may still be reserved for an attempt, by the job's budget and the
// monthly ones. reason is the text to report if that is too little.
func remainingBudget(l Losing, ledger record.Ledger, purses []record.Purse) (left float64, reason string) {
	left, reason = math.Inf(1), overBudgetReason(l.Cluster.Task, l.Job)
	if l.Job.BudgetUSD > 0 {
		left = l.Job.BudgetUSD - ledger.SpentUSD - ledger.ReservedUSD
	}
	for _, p := range purses {
		if p.LeftUSD() < left {
			left, reason = p.LeftUSD(), "it needs more than was reserved for it: "+p.Describe()
		}
	}
	return left, reason
}

// DecideLease reserves more of the budget for an attempt that takes longer than expected, or stops the attempt before
// it overspends. purses are the monthly budgets that pay as well; the caller books more (in USD) in them.
func DecideLease(l Losing, ledger record.Ledger, purses []record.Purse, cfg config.Config,
	now time.Time) (d record.Decision, more float64) {
	rate := l.Cluster.Ceiling() * float64(len(l.Cluster.Nodes))
	if rate <= 0 {
		l.Cluster.LeaseUntil = time.Time{}
		d.Put(record.ClusterKey(l.Cluster.ID), l.Cluster)
		return d, 0
	}
	// Money is reserved at the maximum price. If the price was lower, the money lasts longer.
	until := l.Cluster.Covered(cfg.TickEvery, now)
	left, reason := remainingBudget(l, ledger, purses)
	// A lease that ended long ago is extended from now, not from its end.
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
		return DecideReleaseKept(l.Cluster, reason, now), 0
	}
	if l.Task.Service != "" && !l.ownsTask() { // another attempt replaces this one and uses the money
		return DecideLost(l, apitypes.OutcomeBudget, reason, now), 0
	}
	l.Cluster.Seq++
	l.Cluster.Command = string(wire.Stop)
	return l.finalFailure(apitypes.OutcomeBudget, reason, reason, now), 0
}
