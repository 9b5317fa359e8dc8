package broker

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// interrupt reacts to a cloud's notice: save the work now, and plan meanwhile where it goes on when that is done or the machine is gone.
func (b *Broker) interrupt(u *unit, data events.Data) error {
	if e, ok := data.(events.GangBroken); ok {
		return b.gangBroken(u, e)
	}
	e, ok := data.(events.SpotInterrupted)
	if !ok {
		return unexpected(events.FnInterrupt, data)
	}
	l, found, err := loadLosing(u, e.Cluster)
	if err != nil || !found {
		return orSkip(err)
	}
	kind := cloud.NoticeKind(e.Kind)
	var d Decision
	switch kind {
	case cloud.Interruption:
		if l.cl.stopped() { // its agents had the notice first
			d = decideLost(l, OutcomePreempted, "spot interruption", u.now)
			break
		}
		d = decideDoomed(l, e.At, u.now)
	case cloud.Taken:
		d = decideLost(l, OutcomePreempted, "spot interruption", u.now)
	case cloud.Rebalance:
		return b.advised(u, l)
	default:
		return unexpected(events.FnInterrupt, data)
	}
	return b.noticed(u, l.cl, d)
}

// noticed applies what a notice leads to, and has the market that takes the cluster left alone for a while.
func (b *Broker) noticed(u *unit, cl Cluster, d Decision) error {
	if len(d.Writes) > 0 && cl.State != ClusterDoomed {
		known, err := list[Block](u, partBlocks, "", 0)
		if err != nil {
			return err
		}
		d.block(takenBlock(cl.Offer, b.cfg, known, u.now))
	}
	return u.apply(d)
}

// saving says that the cluster will be taken, saves its work, and that it is planned where that goes on.
func (cl *Cluster) saving() bool {
	return cl.State == ClusterDoomed && cl.MinPlan > 0 && cl.Outcome == ""
}

// stopped says that every node has saved its work and stopped.
func (cl *Cluster) stopped() bool {
	return len(cl.Nodes) > 0 && !slices.ContainsFunc(cl.Nodes, func(n Node) bool { return !n.Stopped })
}

// losing is what the loss of a cluster is decided on.
type losing struct {
	job     Job
	task    Task
	attempt Attempt
	cl      Cluster
}

// loadLosing loads what the loss of a cluster is decided on.
func loadLosing(u reader, cluster string) (l losing, found bool, err error) {
	if l.cl, found, err = get[Cluster](u, clusterKey(cluster)); err != nil || !found {
		return l, found, err
	}
	if l.job, found, err = get[Job](u, jobKey(l.cl.Job)); err != nil || !found {
		return l, found, err
	}
	if l.task, found, err = get[Task](u, taskKey(l.cl.Job, l.cl.Task)); err != nil || !found {
		return l, found, err
	}
	l.attempt, found, err = get[Attempt](u, attemptKey(l.cl.Job, l.cl.Task, l.cl.Attempt))
	l.cl.tell(&l.attempt)
	l.cl.tellTask(&l.task)
	return l, found, err
}

// decideDoomed tells the agents of a cluster to save what they have before it is taken, and asks for a plan of where the task goes on. Until they have saved, or
// are gone, it stays theirs.
func decideDoomed(l losing, at, now time.Time) (d Decision) {
	cl := l.cl
	if cl.Outcome != "" || cl.State == ClusterDoomed || cl.State == ClusterReleasing {
		return d
	}
	if cl.Launched.IsZero() {
		cl.Launched = cl.Intended // the cloud knows more than its answer to the launch has told
	}
	cl.State, cl.Since = ClusterDoomed, now
	cl.Until, cl.Reason = at, "spot interruption"
	cl.Seq++
	cl.Command = string(wire.SaveNow)
	if l.job.State == JobRunning && l.task.Attempt == cl.Attempt {
		cl.MinPlan = l.job.Plan.Version + 1
		d.hold(jobKey(l.job.ID)) // it is newer than what is in force
		d.replan(l.job, cl.Reason+" in "+where(cl.Offer))
	}
	d.put(clusterKey(cl.ID), cl)
	return d
}

// decideLost ends an attempt whose machines are gone or no good: the task waits for a new plan, and the machines are
// freed for certain.
func decideLost(l losing, outcome Outcome, reason string, now time.Time) (d Decision) {
	if l.cl.Outcome != "" {
		return d
	}
	l.task.OnDemand = l.task.OnDemand || l.cl.Leaving == LeaveForDeadline
	if l.cl.Leaving == LeaveForOthers {
		l.task.YieldedTo = append(slices.Clone(l.task.YieldedTo), l.cl.For)
	}
	l.cl.Outcome, l.cl.Reason = outcome, reason
	l.attempt.Outcome, l.attempt.Reason, l.attempt.Ended = outcome, reason, now
	d.put(clusterKey(l.cl.ID), l.cl)
	d.put(attemptKey(l.cl.Job, l.cl.Task, l.cl.Attempt), l.attempt)
	d.emit(events.ClusterLost{Cluster: l.cl.ID, Job: l.cl.Job, Reason: reason})
	if l.job.State == JobEnding || l.job.State.Over() || l.task.Attempt != l.cl.Attempt {
		return d
	}
	if l.cl.Leaving == LeaveGang { // what is planned for it is as good as before
		d.wait(l.job, l.task, l.job.Plan.Version)
		return d
	}
	if minPlan := l.cl.MinPlan; minPlan > 0 && minPlan <= l.job.Plan.Version { // planned while it saved its work
		d.requeue(l.job, l.task, minPlan)
		d.emit(events.CapacityFreed{Queue: l.job.Queue})
		return d
	}
	d.requeue(l.job, l.task, l.job.Plan.Version+1)
	if l.cl.Leaving == LeaveForOthers || l.cl.Leaving == LeaveMachine {
		d.replan(l.job, reason)
		return d
	}
	if l.cl.Leaving != "" {
		d.replan(l.job, "left spot in "+where(l.cl.Offer)+": "+reason)
		return d
	}
	d.replan(l.job, reason+" in "+where(l.cl.Offer))
	return d
}

// unplanned asks again for what could not be planned until a doomed cluster's attempt was over: others may wait for it.
func (d *Decision) unplanned(job Job, cl Cluster) {
	if cl.MinPlan > job.Plan.Version {
		d.replan(job, cl.Reason)
	}
}

// where names a location as people write it.
func where(o cloud.Offer) string {
	if o.Zone != "" {
		return o.Cloud + "/" + o.Region + "/" + o.Zone
	}
	return o.Cloud + "/" + o.Region
}

// takenBlock keeps the spot market that has just taken a machine from being tried at once: it has none to spare.
func takenBlock(o cloud.Offer, cfg Config, known []Block, now time.Time) Block {
	cause := cloud.Errorf(o.Cloud, cloud.Capacity, "SpotInterruption", "spot machines are being taken in %s", where(o))
	o.Spot = true
	return blockFor(o, cloud.Capacity, cause, cfg, known, now)
}

// block adds a block and tells of it.
func (d *Decision) block(k Block) {
	d.put(blockKey(k), k)
	d.emit(k.event())
}

// market names how an offer is bought.
func market(o cloud.Offer) dag.Market {
	if o.Spot {
		return dag.MarketSpot
	}
	return dag.MarketOnDemand
}
