package attempt

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Buying is the input of the decisions about buying an admitted attempt.
type Buying struct {
	Job     record.Job
	task    record.Task
	Attempt apitypes.Attempt
	Cluster record.Cluster
	Exists  bool // the cluster's record exists: its intent was committed before
	Spec    *dag.Task
	job     *dag.Job // the job that Spec is a task of
	regions []string // regions that the job allows
	blocks  []apitypes.Block
	others  bool // another replica of the same service is ready; only LoadRefused loads this
	// held lists the clusters on the reserved capacity that the attempt is planned on. inUse is the amount of it that
	// they use.
	held  record.Occupancy
	inUse apitypes.Amount
}

// Reload reloads the records that may have changed since the intent of an attempt: the job and the cluster. During a
// launch, only this process writes the records of the attempt and its task. If another process ends the attempt, it
// changes the cluster.
func (st Buying) Reload(u recordcache.Reader) (now Buying, err error) {
	now = st
	job, cluster := record.JobKey(st.Job.ID), record.ClusterKey(st.Cluster.ID)
	if err := u.Preload(job, cluster); err != nil {
		return now, err
	}
	if now.Job, _, err = recordcache.Get[record.Job](u, job); err != nil {
		return now, err
	}
	now.Cluster, now.Exists, err = recordcache.Get[record.Cluster](u, cluster)
	return now, err
}

// LoadBuying loads the input of the decisions about buying an admitted attempt.
func LoadBuying(u recordcache.Reader, job string, task, attempt int) (st Buying, err error) {
	id := record.ClusterID(job, task, attempt)
	if err := u.Preload(record.JobKey(job), record.TaskKey(job, task), record.AttemptKey(job, task, attempt),
		record.ClusterKey(id)); err != nil {
		return st, err
	}
	var found bool
	if st.Job, found, err = recordcache.Get[record.Job](u, record.JobKey(job)); err != nil || !found {
		return st, record.OrSkip(err)
	}
	if st.task, found, err = recordcache.Get[record.Task](u, record.TaskKey(job, task)); err != nil || !found {
		return st, record.OrSkip(err)
	}
	if st.Attempt, found, err = recordcache.Get[apitypes.Attempt](
		u,
		record.AttemptKey(job, task, attempt),
	); err != nil ||
		!found {
		return st, record.OrSkip(err)
	}
	if st.Cluster, st.Exists, err = recordcache.Get[record.Cluster](u, record.ClusterKey(id)); err != nil {
		return st, err
	}
	if st.Exists {
		st.Cluster.UpdateAttempt(&st.Attempt)
	}
	by := st.Job
	by.Spec = st.Job.SpecFor(st.Attempt.Plan)
	spec, err := u.Spec(by)
	if st.Exists {
		spec, err = SpecOf(u, st.Job, st.Cluster)
	}
	if err != nil {
		return st, err
	}
	st.Spec, st.job, st.regions = &spec.Tasks[task], spec, spec.Regions
	if st.blocks, err = recordcache.List[apitypes.Block](u, record.PartBlocks, "", 0); err != nil {
		return st, err
	}
	return st, st.loadHeld(u)
}

// QuotaBlockedUntil returns the last end of a block for lack of quota. It counts blocks of all offers, and is zero if
// there is none.
func (st *Buying) QuotaBlockedUntil() (until time.Time) {
	for _, k := range st.blocks {
		if k.Kind == string(cloud.Quota) && k.Until.After(until) {
			until = k.Until
		}
	}
	return until
}

// loadHeld loads the clusters on the reserved capacity that the attempt is planned on.
func (st *Buying) loadHeld(u recordcache.Reader) error {
	name, reserved := record.HeldBy(st.Attempt.Offer)
	if !reserved {
		return nil
	}
	held, _, err := recordcache.Get[record.Occupancy](u, record.HeldKey(name))
	if err != nil {
		return err
	}
	there, err := recordcache.Holders(u, held)
	if err != nil {
		return err
	}
	held.ID = name
	st.held, st.inUse = held.Now(there)
	return nil
}

// hold adds the cluster to those that use reserved capacity, in the transaction of its intent. It returns false if
// that capacity has no room for the cluster.
func (st *Buying) hold(d *record.Decision) bool {
	o := st.Attempt.Offer
	if o.Reservation == "" {
		return true
	}
	has, takes := o.Room(st.Attempt.Nodes)
	if !st.inUse.Plus(takes).Within(has) {
		return false
	}
	st.held.Clusters[record.ClusterID(st.Job.ID, st.task.Index, st.Attempt.Number)] = st.Attempt.Nodes
	d.Put(record.HeldKey(st.held.ID), st.held)
	return true
}

// DecideIntent records that a cluster will be bought. proceed is false if the attempt or its job has ended, if its
// location has been blocked since it was planned, or if the reserved money does not last until reconcile's first
// check.
func DecideIntent(st *Buying, cfg config.Config, now time.Time) (d record.Decision, proceed bool) {
	if st.Attempt.Outcome != "" || st.task.Attempt != st.Attempt.Number {
		return d, false // a late second delivery
	}
	if st.Exists {
		return st.continueLaunch()
	}
	if st.task.State != record.TaskAdmitted {
		return d, false
	}
	if st.ending() {
		return decideUnbought(st, apitypes.OutcomeCancelled, "the job is ending", now), false
	}
	if s := st.Job.Suspended(); s != nil {
		return decideHeldUp(st, *s, now), false
	}
	for _, k := range st.blocks {
		if record.Covers(k, st.Attempt.Offer, now) {
			return decideBlocked(st, k.Reason, now), false
		}
	}
	if !st.hold(&d) {
		reason := fullReason(st.Attempt.Offer)
		d := decideBlocked(st, reason, now)
		// The reserved capacity is blocked for a short time. Otherwise two gangs that each got a part of it would
		// break up again and again.
		d.Block(blockFor(st.Attempt.Offer, cloud.Transient, errors.New(reason), cfg, st.blocks, now))
		return d, false
	}
	st.Cluster = intended(st.Job, st.Attempt, cfg, st.regions, now)
	if st.Spec != nil && st.Spec.Service != nil {
		st.Cluster.Spec = st.Job.SpecFor(st.Attempt.Plan).Version
	}
	if st.Attempt.Offer.Spot {
		st.Cluster.Market, st.Cluster.SurchargeUSD = record.MarketID(st.Attempt.OfferID), st.Attempt.SurchargeUSD
	}
	if most := st.Cluster.Ceiling() * float64(st.Attempt.Nodes); (st.Job.BudgetUSD > 0 || st.Attempt.Monthly) &&
		most > 0 {
		lease := record.Duration(st.Attempt.ReservedUSD / most)
		if lease < cfg.Overhead/4 {
			reason := overBudgetReason(st.task.Index, st.Job)
			d := decideUnbought(st, apitypes.OutcomeBudget, reason, now)
			d.Emit(events.TaskFailed{
				Job: st.Job.ID, Task: st.task.Index, Attempt: st.Attempt.Number, ExitCode: -1, Final: true,
				Message: reason,
			})
			return d, false
		}
		st.Cluster.LeaseUntil = now.Add(lease)
	}
	st.task.State = record.TaskLaunching
	st.task.Place = record.PlaceOf(st.Attempt)
	d.Put(record.ClusterKey(st.Cluster.ID), st.Cluster)
	d.Put(record.TaskKey(st.Job.ID, st.task.Index), st.task)
	return d, true
}

// intended returns the cluster of an admitted attempt before its launch.
func intended(job record.Job, made apitypes.Attempt, cfg config.Config, regions []string,
	now time.Time) record.Cluster {
	cl := record.Cluster{
		ID: record.ClusterID(job.ID, made.Task, made.Number), Job: job.ID, Task: made.Task, Attempt: made.Number,
		Queue: job.Queue, State: record.ClusterLaunching, Offer: made.Offer, MaxUSD: made.MaxUSD, VCPU: made.VCPU,
		Hosts: made.Hosts, ReservedUSD: made.ReservedUSD, Nodes: make([]record.Node, made.Nodes), Intended: now,
		Since: now,
	}
	if url, _, _ := cfg.Stores.For(record.PlaceOf(made), regions); url != cfg.StoreURL {
		cl.Store = url
	}
	return cl
}

// quietMost is the maximum expected run time of a task on a worker that sends no report of its start, for each
// member of its chunk. It is also the time for which such a task may be silent.
const quietMost = time.Minute

// DecideOnWorker starts an attempt on a worker of its job, in the transaction that admits it. Nothing has to be
// bought: the assignment takes the place of the launch. expected is the expected run time of the task and the other
// members of its chunk on that worker.
func DecideOnWorker(job record.Job, task *record.Task, made apitypes.Attempt, cfg config.Config, regions []string,
	expected time.Duration, now time.Time) (d record.Decision) {
	cl := intended(job, made, cfg, regions, now)
	cl.Chunk = task.Chunk
	cl.Quiet = cfg.Pace.Polls && cfg.Pace.Tail > 0 && expected <= quietMost*time.Duration(1+cl.Chunk)
	cl.State, cl.Launched, cl.Nodes[0].Machine = record.ClusterBooting, now, made.Hosts[0]
	task.State, task.Place = record.TaskLaunching, record.PlaceOf(made)
	d.Put(record.ClusterKey(cl.ID), cl)
	d.Hold(record.JobKey(job.ID)) // so that this decision and one that ends or suspends the job cannot miss each other
	return d
}

// continueLaunch reports whether an earlier launch continues. It does not continue if the job is ending: machines
// that the earlier try may have bought are then ended.
func (st *Buying) continueLaunch() (d record.Decision, proceed bool) {
	launching := st.Cluster.State == record.ClusterLaunching
	if launching && st.ending() {
		d.Emit(events.ClusterRelease{Cluster: st.Cluster.ID, Job: st.Job.ID, Reason: "the job is ending"})
		return d, false
	}
	return d, launching
}

func (st *Buying) ending() bool { return st.Job.State == apitypes.JobEnding || st.Job.State.Finished() }

// fullReason returns the text of the reason that reserved capacity has no room.
func fullReason(o apitypes.Offer) string {
	if !o.Takes.IsZero() {
		return fmt.Sprintf("too much of the commitment %s is in use, of %s", o.Reservation, o.Has)
	}
	return fmt.Sprintf("all %d machines of the reservation %s are in use", o.Reserved, o.Reservation)
}

// decideBlocked ends an attempt whose location is not available now. Its task is planned again.
func decideBlocked(st *Buying, reason string, now time.Time) record.Decision {
	d := decideUnbought(st, apitypes.OutcomeBlocked, reason, now)
	d.Requeue(st.Job, st.task, st.Job.Plan.Version+1)
	d.Replan(st.Job, reason)
	return d
}

// decideUnbought ends an attempt before its cloud was called. Its quota and budget are released.
func decideUnbought(st *Buying, outcome apitypes.Outcome, reason string, now time.Time) (d record.Decision) {
	st.Attempt.Outcome, st.Attempt.Reason, st.Attempt.Ended = outcome, reason, now
	d.Put(record.AttemptKey(st.Job.ID, st.task.Index, st.Attempt.Number), st.Attempt)
	// The task is written unchanged. A concurrent intent, which writes only the task, then conflicts.
	d.Put(record.TaskKey(st.Job.ID, st.task.Index), st.task)
	d.Emit(freed(st.Job.Queue, st.Attempt))
	return d
}

// freed returns the event that releases the quota and budget of an ended attempt.
func freed(queue string, a apitypes.Attempt) events.CapacityFreed {
	return events.CapacityFreed{
		Queue: queue, Job: a.Job, Task: a.Task, Attempt: a.Number,
		VCPU: a.VCPU, USD: a.USD, ReservedUSD: a.ReservedUSD,
	}
}

// DecideBought records the machines of a launched cluster.
func DecideBought(st Buying, machines []cloud.Machine, market record.MarketRecord, now time.Time) (d record.Decision) {
	st.Cluster.State, st.Cluster.Since, st.Cluster.Launched, st.Cluster.Reason = record.ClusterBooting, now, now, ""
	st.Cluster.Refused, st.Cluster.Made = "", 0
	for _, m := range machines {
		if m.Rank >= 0 && m.Rank < len(st.Cluster.Nodes) {
			st.Cluster.Nodes[m.Rank].Machine, st.Cluster.Account = m.ID, m.Account
		}
		if !m.Launched.IsZero() && m.Launched.Before(st.Cluster.Launched) && !m.Launched.Before(st.Cluster.Intended) {
			st.Cluster.Launched = m.Launched
		}
	}
	st.Cluster.Reprice(market, st.Attempt.SurchargeUSD, now)
	if st.Job.State == apitypes.JobEnding || st.Job.State.Finished() {
		// The job's end may have listed the job's clusters before this one was recorded as bought.
		d.Emit(events.ClusterRelease{Cluster: st.Cluster.ID, Job: st.Job.ID, Reason: "the job is ending"})
	} else if st.Job.Suspended() != nil {
		d.Emit(events.DAGSuspended{Job: st.Job.ID, Queue: st.Job.Queue}) // the same for a suspension of the job
	}
	if slices.IndexFunc(st.Cluster.Nodes, func(n record.Node) bool { return n.Address == "" }) < 0 {
		d.BringUp(st.Job, st.task, &st.Cluster, now) // the hellos of the agents came before the cloud's answer
	}
	d.Put(record.ClusterKey(st.Cluster.ID), st.Cluster)
	return d
}

// MayHaveMachines reports whether a cluster may have machines although no launch was answered.
func MayHaveMachines(cl record.Cluster, refused error) bool {
	return cl.Tries > 0 || cloud.MayHaveMachines(refused)
}

// DecideFailed records a failed launch, which may have made machines. again is true if the launch must be tried
// again. refusal is the reason if the launch is given up.
func DecideFailed(st Buying, cfg config.Config, failure error) (d record.Decision, again bool, refusal error) {
	cl, kind, late := &st.Cluster, cloud.KindOf(failure), cloud.Late(failure)
	over := cl.Outcome != "" // another process has ended the attempt, and releases the cluster
	switch {
	case over && late == 0:
		return d, false, nil
	case !over && (cl.Tries >= cfg.LaunchTries || cl.Tries > 0 && kind == cloud.Invalid):
		// The launch was given up before, by this or another process. The name is refused because the cluster was
		// terminated since.
		return d, false, Refusal(*cl)
	case !cloud.MayHaveMachines(failure):
		return d, false, failure
	}
	if late > 0 { // machines that are billed
		cl.Launched, cl.Made = cl.Intended, min(late, len(cl.Nodes))
	}
	if !over {
		cl.Refused, cl.Reason, cl.Tries, refusal = kind, failure.Error(), cl.Tries+1, failure
		if kind != cloud.Transient && kind != cloud.Throttled { // the same request would be refused again
			cl.Tries = max(cl.Tries, cfg.LaunchTries)
		}
		again = cl.Tries < cfg.LaunchTries
	}
	d.Put(record.ClusterKey(cl.ID), *cl)
	return d, again, refusal
}

// Refusal returns the failure that made the broker give up the launch of a cluster.
func Refusal(cl record.Cluster) error {
	return refusal{text: cl.Reason, kind: &cloud.Error{Kind: cmp.Or(cl.Refused, cloud.Transient)}}
}

// refusal is a recorded failure, with its original text and kind.
type refusal struct {
	text string
	kind *cloud.Error
}

func (r refusal) Error() string { return r.text }
func (r refusal) Unwrap() error { return r.kind }

// DecideRefused ends an attempt that the cloud has refused. Its location is blocked, and its task waits for a new
// plan.
func DecideRefused(st Buying, cfg config.Config, cause error, now time.Time) (d record.Decision) {
	kind := cloud.KindOf(cause)
	st.Attempt.Outcome, st.Attempt.Reason, st.Attempt.Ended = apitypes.OutcomeRefused, cause.Error(), now
	st.Attempt.MaxUSD = st.Cluster.MaxUSD
	st.Attempt.ReservedUSD = st.Cluster.ReservedUSD
	if MayHaveMachines(st.Cluster, cause) {
		_, st.Attempt.USD = booked(st.Cluster, now)
	}
	d.Put(record.AttemptKey(st.Job.ID, st.task.Index, st.Attempt.Number), st.Attempt)
	d.Del(record.ClusterKey(st.Cluster.ID))
	told := freed(st.Job.Queue, st.Attempt)
	if st.Attempt.Offer.Spot && kind == cloud.Capacity {
		told.Spot, told.Outcome = record.MarketID(st.Attempt.OfferID), string(apitypes.OutcomeRefused)
	}
	d.Emit(told)
	// A pool has taken its machines back. The plan's other machines can still be used.
	if st.Attempt.Assigned() {
		d.Requeue(st.Job, st.task, st.Job.Plan.Version)
		return d
	}
	if kind == cloud.Invalid && st.Spec.Service != nil {
		d.Add(st.replicaRefused(cause.Error(), now))
		return d
	}
	if kind == cloud.Invalid {
		st.task.State, st.task.Reason, st.task.EndedAt = record.TaskFailed, cause.Error(), now
		d.Put(record.TaskKey(st.Job.ID, st.task.Index), st.task)
		d.Emit(events.TaskFailed{
			Job: st.Job.ID, Task: st.task.Index, Attempt: st.Attempt.Number, ExitCode: -1, Final: true,
			Message: cause.Error(),
		})
		return d
	}
	d.Block(blockFor(st.Attempt.Offer, kind, cause, cfg, st.blocks, now))
	d.Requeue(st.Job, st.task, st.Job.Plan.Version+1)
	d.Replan(st.Job, cause.Error())
	return d
}

// blockFor returns the block after a failure: the locations to avoid, and the end of the block. A capacity failure
// blocks the zone, type and market (for a service: the region, type and market). A quota failure blocks all locations
// that share the quota; if the failure does not name them, these are the region, family and market. An auth failure
// blocks the cloud. Any other failure blocks the zone and type for a short time. A failure may name another scope.
func blockFor(o apitypes.Offer, kind cloud.Kind, cause error, cfg config.Config, known []apitypes.Block,
	now time.Time) apitypes.Block {
	b := apitypes.Block{Cloud: o.Cloud, Service: o.Service, Kind: string(kind), Reason: cause.Error(), At: now}
	var e *cloud.Error
	if !errors.As(cause, &e) {
		e = &cloud.Error{}
	}
	switch {
	case kind == cloud.Auth:
	case e.Scope == cloud.ScopeRegion:
		b.Region = o.Region
	case e.Scope == cloud.ScopeType:
		b.InstanceType = o.InstanceType
	case kind == cloud.Quota:
		b.Region, b.Market = quotas.Extent(e.Class, o)
		b.Family = cmp.Or(e.Class, record.Family(o.InstanceType))
	default:
		b.Region, b.Zone, b.InstanceType, b.Market = o.Region, o.Zone, o.InstanceType, string(record.Market(o))
		b.Reservation = o.Reservation
		if o.Service != "" {
			b.Zone = "" // the service has chosen the zone, and would choose again
		}
	}
	span := cfg.BlockFor[kind]
	span = max(cmp.Or(e.RetryAfterFull, span), e.RetryAfter)
	if kind == cloud.Auth && e.Code == cloud.CodeNoCredentials {
		b.Count = record.MaxBlockDoublings // waiting does not help: see record.IsTemporary
	}
	for _, k := range known {
		if record.BlockKey(k) != record.BlockKey(b) {
			continue
		}
		switch {
		// this launch was tried before the block, so it does not count as one more failure in a row
		case now.Before(k.Until):
			b.Count = max(b.Count, k.Count)
			if until := now.Add(span << min(b.Count, record.MaxBlockDoublings)); !until.After(k.Until) {
				if k.Kind == string(cloud.Capacity) {
					k.Kind = b.Kind // a failure of this kind also blocks reserved capacity there
				}
				return k // keep the longer block
			}
			if b.Kind == string(cloud.Capacity) && k.Kind != string(cloud.Capacity) {
				b.Kind = k.Kind // keep the block of reserved capacity there
			}
		case now.Sub(k.Until) < 2*span:
			b.Count = max(b.Count, k.Count+1)
		}
	}
	b.Until = now.Add(span << min(b.Count, record.MaxBlockDoublings))
	return b
}
