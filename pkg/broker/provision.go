package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// provision buys capacity for admitted tasks and frees what is no longer needed (paper, section
// Provisioner).
func (b *Broker) provision(ctx context.Context, e events.Event) error {
	switch data := e.Data.(type) {
	case events.TaskAdmitted:
		return b.buy(ctx, e.ID, data)
	case events.TaskSucceeded:
		return b.release(ctx, e.ID, data.Cluster)
	case events.TaskFailed:
		if data.Cluster == "" {
			return nil // it never had one
		}
		return b.release(ctx, e.ID, data.Cluster)
	case events.ClusterLost:
		return b.release(ctx, e.ID, data.Cluster)
	case events.ClusterRelease:
		return b.release(ctx, e.ID, data.Cluster)
	case events.DAGEnding:
		return b.releaseJob(ctx, e.ID, data)
	default:
		return unexpected(events.FnProvision, e.Data)
	}
}

// buying is what one admitted attempt is decided on.
type buying struct {
	job     Job
	task    Task
	attempt Attempt
	cluster Cluster
	exists  bool // the cluster: intended before
	spec    *dag.Task
	blocks  []Block
}

// buy commits the intent, asks the cloud, and commits the outcome. A crash between is made good by the event's
// redelivery, or by reconcile: the cluster's name makes a second launch the same launch.
func (b *Broker) buy(ctx context.Context, cause string, e events.TaskAdmitted) error {
	var st buying
	go1 := false
	err := b.transact(ctx, events.FnProvision, cause+"/intent", false, func(u *unit) error {
		var err error
		if st, err = b.loadBuying(u, e.Job, e.Task, e.Attempt); err != nil {
			return err
		}
		var d Decision
		d, go1 = decideIntent(&st, u.now)
		if err := u.apply(d); err != nil || go1 || st.attempt.Outcome == "" || st.attempt.Offer.Cloud != PoolCloud {
			return err
		}
		return b.unassign(u, st.attempt.Offer.Region, ClusterID(e.Job, e.Task, e.Attempt), st.attempt.Hosts)
	})
	if err != nil || !go1 {
		return err
	}
	if st.cluster.Tries >= b.cfg.LaunchTries { // given up, but for a crash
		return b.refused(ctx, cause, e, errors.New(st.cluster.Reason))
	}
	spec, err := b.launchSpec(st)
	if err != nil {
		return err
	}
	machines, launchErr := b.launch(ctx, spec)
	if launchErr != nil && ctx.Err() != nil {
		return launchErr // we were stopped, not the cloud
	}
	return b.bought(ctx, cause, e, machines, launchErr)
}

// launch asks the offer's cloud for a cluster.
func (b *Broker) launch(ctx context.Context, spec cloud.LaunchSpec) ([]cloud.Machine, error) {
	c, ok := b.Clouds[spec.Offer.Cloud]
	if !ok {
		return nil, cloud.Errorf(spec.Offer.Cloud, cloud.Auth, "NoCredentials", "no credentials for this cloud are configured")
	}
	return c.Launch(ctx, spec)
}

func (b *Broker) loadBuying(u *unit, job string, task, attempt int) (st buying, err error) {
	id := ClusterID(job, task, attempt)
	if err := u.preload(jobKey(job), taskKey(job, task), attemptKey(job, task, attempt), clusterKey(id)); err != nil {
		return st, err
	}
	var found bool
	if st.job, found, err = get[Job](u, jobKey(job)); err != nil || !found {
		return st, orSkip(err)
	}
	if st.task, found, err = get[Task](u, taskKey(job, task)); err != nil || !found {
		return st, orSkip(err)
	}
	if st.attempt, found, err = get[Attempt](u, attemptKey(job, task, attempt)); err != nil || !found {
		return st, orSkip(err)
	}
	if st.cluster, st.exists, err = get[Cluster](u, clusterKey(id)); err != nil {
		return st, err
	}
	if st.exists {
		st.cluster.tell(&st.attempt)
	}
	spec, err := u.spec(st.job)
	if err != nil {
		return st, err
	}
	st.spec = &spec.Tasks[task]
	if st.blocks, err = list[Block](u, partBlocks, "", 0); err != nil {
		return st, err
	}
	return st, nil
}

// decideIntent records that a cluster is about to be bought. proceed is false when the attempt is over, or its
// job is, or its location has been blocked since it was planned.
func decideIntent(st *buying, now time.Time) (d Decision, proceed bool) {
	if st.attempt.Outcome != "" || st.task.Attempt != st.attempt.Number {
		return d, false // told twice, long after
	}
	if st.exists {
		return d, st.cluster.State == ClusterLaunching
	}
	if st.task.State != TaskAdmitted {
		return d, false
	}
	if st.job.State == JobEnding || st.job.State.Over() {
		return decideUnbought(st, OutcomeCancelled, "the job is ending", now), false
	}
	for _, k := range st.blocks {
		if k.Covers(st.attempt.Offer, now) {
			d := decideUnbought(st, OutcomeBlocked, k.Reason, now)
			d.requeue(st.job, st.task, st.job.Plan.Version+1)
			d.replan(st.job, k.Reason)
			return d, false
		}
	}
	st.cluster = Cluster{
		ID: ClusterID(st.job.ID, st.task.Index, st.attempt.Number), Job: st.job.ID, Task: st.task.Index,
		Attempt: st.attempt.Number, Queue: st.job.Queue, State: ClusterLaunching, Offer: st.attempt.Offer,
		MaxUSD: st.attempt.MaxUSD, VCPU: st.attempt.VCPU, Hosts: st.attempt.Hosts, ReservedUSD: st.attempt.ReservedUSD,
		Nodes: make([]Node, st.attempt.Nodes), Intended: now, Since: now,
	}
	if most := st.cluster.ceiling() * float64(st.attempt.Nodes); st.job.BudgetUSD > 0 && most > 0 {
		st.cluster.LeaseUntil = now.Add(duration(st.attempt.ReservedUSD / most))
	}
	st.task.State = TaskLaunching
	st.task.Place = st.attempt.place()
	d.put(clusterKey(st.cluster.ID), st.cluster)
	d.put(taskKey(st.job.ID, st.task.Index), st.task)
	return d, true
}

// decideUnbought ends an attempt that never asked a cloud, and gives back what it held.
func decideUnbought(st *buying, outcome Outcome, reason string, now time.Time) (d Decision) {
	st.attempt.Outcome, st.attempt.Reason, st.attempt.Ended = outcome, reason, now
	d.put(attemptKey(st.job.ID, st.task.Index, st.attempt.Number), st.attempt)
	d.put(taskKey(st.job.ID, st.task.Index), st.task) // as it is: an intent decided elsewhere, which writes only this, is then void
	d.emit(freed(st.job.Queue, st.attempt))
	return d
}

// freed tells what an ended attempt gives back.
func freed(queue string, a Attempt) events.CapacityFreed {
	return events.CapacityFreed{
		Queue: queue, Job: a.Job, Task: a.Task, Attempt: a.Number,
		VCPU: a.VCPU, USD: a.USD, ReservedUSD: a.ReservedUSD,
	}
}

// requeue puts a task back in its queue, to be admitted under a plan of at least a version. The others of its gang are told.
func (d *Decision) requeue(job Job, task Task, minPlan int) {
	d.wait(job, task, minPlan)
	if job.State != JobEnding && !job.State.Over() {
		d.broken(task)
	}
}

// wait puts a task back in its queue.
func (d *Decision) wait(job Job, task Task, minPlan int) {
	if job.State == JobEnding || job.State.Over() {
		return
	}
	task.State, task.MinPlan = TaskQueued, max(minPlan, task.MinPlan)
	d.put(taskKey(job.ID, task.Index), task)
	d.enqueue(job, task)
}

// replan asks for a better plan than the one in force, unless the job is over.
func (d *Decision) replan(job Job, reason string) {
	if job.State != JobEnding && !job.State.Over() {
		d.emit(events.DAGReplan{Job: job.ID, Plan: job.Plan.Version, Reason: reason})
	}
}

// launchSpec asks for the machines of an intended cluster, each with a token of its own.
func (b *Broker) launchSpec(st buying) (cloud.LaunchSpec, error) {
	spec := cloud.LaunchSpec{
		Cluster: st.cluster.ID, Offer: st.cluster.Offer, Nodes: len(st.cluster.Nodes),
		MaxUSDPerHour: max(st.cluster.MaxUSD-st.attempt.SurchargeUSD, 0), DiskGiB: st.spec.DiskGiB(),
		Bootstrap: cloud.Bootstrap{Endpoint: b.cfg.Endpoint},
		Labels: map[string]string{
			"job": st.job.ID, "task": st.spec.Name, "queue": st.job.Queue,
			"attempt": fmt.Sprint(st.attempt.Number),
		},
	}
	for _, r := range st.spec.Resources {
		if r.Image != "" {
			spec.Image = r.Image
		}
	}
	// The times are the intent's, so that a repeated launch is the same to the letter.
	expires := st.cluster.Intended.Add(b.cfg.TokenFor + 2*st.spec.Time.For(st.cluster.Offer.InstanceType, st.cluster.Offer.Accelerator, st.cluster.Offer.AccelCount))
	for rank := range st.cluster.Nodes {
		token, err := b.Tokens(wire.Claims{Job: st.job.ID, Cluster: st.cluster.ID, Rank: rank, Expires: expires})
		if err != nil {
			return spec, fmt.Errorf("broker: token for %s: %w", st.cluster.ID, err)
		}
		spec.Bootstrap.Tokens = append(spec.Bootstrap.Tokens, token)
	}
	return spec, nil
}

// errAgain asks for the event to be delivered again after the queue's back-off.
var errAgain = errors.New("broker: to be tried again")

// bought commits the outcome of a launch. The last failure is counted before what may have been bought all the same is
// terminated, because afterwards the cluster's name cannot be launched any more.
func (b *Broker) bought(ctx context.Context, cause string, e events.TaskAdmitted, machines []cloud.Machine, launchErr error) error {
	var refusal error
	again := false
	err := b.transact(ctx, events.FnProvision, cause, false, func(u *unit) error {
		st, err := b.loadBuying(u, e.Job, e.Task, e.Attempt)
		if err != nil {
			return err
		}
		again, refusal = false, nil
		if !st.exists || st.cluster.State != ClusterLaunching || launchErr != nil && st.cluster.Outcome != "" {
			return errSkip // released or finished by another
		}
		if launchErr == nil && st.cluster.Tries >= b.cfg.LaunchTries {
			refusal = errors.New(st.cluster.Reason) // given up by another, who takes back what was bought
			return errSkip
		}
		if launchErr == nil {
			market, err := marketOf(u, st.attempt)
			if err != nil {
				return err
			}
			return u.apply(decideBought(st, machines, market, u.now))
		}
		kind := cloud.KindOf(launchErr)
		if st.cluster.Tries >= b.cfg.LaunchTries || st.cluster.Tries > 0 && kind == cloud.Invalid {
			// Given up before, by us or by another: the name is refused because it was terminated since.
			refusal = errors.New(st.cluster.Reason)
			return errSkip
		}
		refusal = launchErr
		if kind != cloud.Transient && kind != cloud.Throttled {
			return errSkip
		}
		st.cluster.Tries++
		st.cluster.Reason = launchErr.Error()
		again = st.cluster.Tries < b.cfg.LaunchTries
		var d Decision
		d.put(clusterKey(st.cluster.ID), st.cluster)
		return u.apply(d)
	})
	switch {
	case err != nil:
		return err
	case again:
		return fmt.Errorf("%w: launch of %s: %w", errAgain, ClusterID(e.Job, e.Task, e.Attempt), launchErr)
	case refusal != nil:
		return b.refused(ctx, cause, e, refusal)
	}
	return nil
}

// decideBought records the machines of a launched cluster.
func decideBought(st buying, machines []cloud.Machine, market MarketRecord, now time.Time) (d Decision) {
	st.cluster.State, st.cluster.Since, st.cluster.Launched, st.cluster.Reason = ClusterBooting, now, now, ""
	for _, m := range machines {
		if m.Rank >= 0 && m.Rank < len(st.cluster.Nodes) {
			st.cluster.Nodes[m.Rank].Machine = m.ID
		}
		if !m.Launched.IsZero() && m.Launched.Before(st.cluster.Launched) && !m.Launched.Before(st.cluster.Intended) {
			st.cluster.Launched = m.Launched
		}
	}
	st.cluster.reprice(market, st.attempt.SurchargeUSD, now)
	if st.job.State == JobEnding || st.job.State.Over() {
		// The end of the job may have looked for its clusters before this one was known to be bought.
		d.emit(events.ClusterRelease{Cluster: st.cluster.ID, Job: st.job.ID, Reason: "the job is ending"})
	}
	if slices.IndexFunc(st.cluster.Nodes, func(n Node) bool { return n.Address == "" }) < 0 {
		d.bringUp(st.job, st.task, &st.cluster, now) // they dialled home before the cloud had answered
	}
	d.put(clusterKey(st.cluster.ID), st.cluster)
	return d
}

// refused ends an attempt that the cloud did not launch: what may have been bought all the same is terminated first, then the
// location is blocked and the rest of the job planned anew.
func (b *Broker) refused(ctx context.Context, cause string, e events.TaskAdmitted, launchErr error) error {
	id := ClusterID(e.Job, e.Task, e.Attempt)
	kind := cloud.KindOf(launchErr)
	// A cloud that takes no calls does not hold up failover: reconcile finds what it may have launched.
	if err := b.terminate(ctx, id, kind); err != nil && kind != cloud.Auth && cloud.KindOf(err) != cloud.Auth {
		return fmt.Errorf("%w: terminate %s after %w: %w", errAgain, id, launchErr, err)
	}
	return b.transact(ctx, events.FnProvision, cause+"/refused", false, func(u *unit) error {
		st, err := b.loadBuying(u, e.Job, e.Task, e.Attempt)
		if err != nil {
			return err
		}
		if !st.exists || st.cluster.State != ClusterLaunching || st.cluster.Outcome != "" {
			return errSkip
		}
		return u.apply(decideRefused(st, b.cfg, kind, launchErr, u.now))
	})
}

// unseen says that machines of a cluster may have been bought although no launch said so.
func unseen(cl Cluster, kind cloud.Kind) bool {
	return cl.Tries > 0 || kind == cloud.Transient || kind == cloud.Throttled
}

// terminate ends a cluster that may have been bought unseen.
func (b *Broker) terminate(ctx context.Context, id string, refused cloud.Kind) error {
	u := b.newUnit(ctx, events.FnProvision)
	cl, found, err := get[Cluster](u, clusterKey(id))
	if err != nil || !found || !unseen(cl, refused) && cl.Offer.Cloud != PoolCloud {
		return err
	}
	c, ok := b.Clouds[cl.Offer.Cloud]
	if !ok {
		return nil
	}
	return c.Terminate(ctx, id)
}

func decideRefused(st buying, cfg Config, kind cloud.Kind, cause error, now time.Time) (d Decision) {
	st.attempt.Outcome, st.attempt.Reason, st.attempt.Ended = OutcomeRefused, cause.Error(), now
	st.attempt.MaxUSD = st.cluster.MaxUSD
	st.attempt.ReservedUSD = st.cluster.ReservedUSD
	if unseen(st.cluster, kind) {
		_, st.attempt.USD = booked(st.cluster, cfg.MinBilled, now)
	}
	d.put(attemptKey(st.job.ID, st.task.Index, st.attempt.Number), st.attempt)
	d.del(clusterKey(st.cluster.ID))
	told := freed(st.job.Queue, st.attempt)
	if st.attempt.Offer.Spot && kind == cloud.Capacity {
		told.Spot, told.Outcome = marketID(st.attempt.OfferID), string(OutcomeRefused)
	}
	d.emit(told)
	if st.attempt.Offer.Cloud == PoolCloud { // its machines have been taken back: others, or what is planned, are as good as before
		d.requeue(st.job, st.task, st.job.Plan.Version)
		return d
	}
	if kind == cloud.Invalid {
		st.task.State, st.task.Reason, st.task.EndedAt = TaskFailed, cause.Error(), now
		d.put(taskKey(st.job.ID, st.task.Index), st.task)
		d.emit(events.TaskFailed{
			Job: st.job.ID, Task: st.task.Index, Attempt: st.attempt.Number, ExitCode: -1, Final: true, Message: cause.Error(),
		})
		return d
	}
	d.block(blockFor(st.attempt.Offer, kind, cause, cfg, st.blocks, now))
	d.requeue(st.job, st.task, st.job.Plan.Version+1)
	d.replan(st.job, cause.Error())
	return d
}

// maxBlockDoublings bounds how long a location that fails again and again is left alone.
const maxBlockDoublings = 4

// blockFor says what not to try after a failure, and until when: capacity blocks the zone, type and market; quota the region,
// family and market; auth the cloud; anything else the zone and type for a short while (DESIGN §3).
func blockFor(o cloud.Offer, kind cloud.Kind, cause error, cfg Config, known []Block, now time.Time) Block {
	b := Block{Cloud: o.Cloud, Kind: kind, Reason: cause.Error(), At: now}
	switch kind {
	case cloud.Auth:
	case cloud.Quota:
		b.Region, b.Family, b.Market = o.Region, Family(o.InstanceType), market(o)
	default:
		b.Region, b.Zone, b.InstanceType, b.Market = o.Region, o.Zone, o.InstanceType, market(o)
	}
	span := cfg.BlockFor[kind]
	var e *cloud.Error
	if errors.As(cause, &e) && e.RetryAfter > span {
		span = e.RetryAfter
	}
	for _, k := range known {
		if blockKey(k) != blockKey(b) {
			continue
		}
		switch {
		case now.Before(k.Until): // tried before it was blocked: not another failure in a row
			b.Count = k.Count
			if until := now.Add(span << min(b.Count, maxBlockDoublings)); !until.After(k.Until) {
				return k // nor a reason to forget a longer one
			}
		case now.Sub(k.Until) < 2*span:
			b.Count = k.Count + 1
		}
	}
	b.Until = now.Add(span << min(b.Count, maxBlockDoublings))
	return b
}

func (b Block) event() events.LocationBlocked {
	return events.LocationBlocked{
		Cloud: b.Cloud, Region: b.Region, Zone: b.Zone, InstanceType: b.InstanceType,
		Market: string(b.Market), Kind: string(b.Kind), Until: b.Until,
	}
}
