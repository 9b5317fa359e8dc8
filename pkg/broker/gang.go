package broker

import (
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// A gang is several tasks of a job that run together or not at all. schedule admits all of it in one transaction (schedule_gang.go); each task is then
// bought like any other. What is up waits until all is, and execute tells all of it to run in one transaction. Where one does not go on, gang.broken has the
// others give back what they have, saving their work first, and wait in their queue until all can be admitted again.

const (
	// gangItems is what the admission of one task of a gang adds to a transaction: its waiting entry, task, attempt and event.
	gangItems = 4
	// gangLeaveItems is what one that gives back adds: cluster, attempt, task, waiting entry, partition of a pool, event.
	gangLeaveItems = 6
	// gangBeside is what stands beside a gang's admission in a transaction that handles one event: its marker, a settled job's hold, ledger, market and
	// event, or a task that was announced; and the gang's ledger, its budget's, and the event that goes on.
	gangBeside = 12
)

// The largest gang fits a transaction beside all queues of a tree: this does not compile where it does not.
const _ = uint(store.MaxItems - dag.MaxGang*gangItems - maxTree - gangBeside)

// LeaveGang is why a machine is left whose gang can not go on.
const LeaveGang Leaving = "gang"

// member is a task of a gang as it is now.
type member struct {
	losing
	bought bool // there is a cluster
}

// gangOf loads the tasks of a task's gang that have not succeeded, with what they hold.
func gangOf(u reader, job Job, index int) ([]member, error) {
	spec, err := u.spec(job)
	if err != nil {
		return nil, err
	}
	var keys []store.Key
	for _, i := range spec.Gang(index) {
		keys = append(keys, taskKey(job.ID, i))
	}
	if err := u.preload(keys...); err != nil {
		return nil, err
	}
	var out []member
	for _, i := range spec.Gang(index) {
		m := member{losing: losing{job: job}}
		if m.task, _, err = get[Task](u, taskKey(job.ID, i)); err != nil {
			return nil, err
		}
		if m.task.State == TaskSucceeded {
			continue
		}
		m.task.Job, m.task.Index = job.ID, i // it may not have been announced yet
		if m.task.Attempt > 0 {
			if m.cl, m.bought, err = get[Cluster](u, clusterKey(ClusterID(job.ID, i, m.task.Attempt))); err != nil {
				return nil, err
			}
			if m.attempt, _, err = get[Attempt](u, attemptKey(job.ID, i, m.task.Attempt)); err != nil {
				return nil, err
			}
			m.cl.tell(&m.attempt)
		}
		out = append(out, m)
	}
	return out, nil
}

// start tells the agents of a cluster that is up to run, once; those of a gang when all of it is up.
func (b *Broker) start(u *unit, cl Cluster) error {
	task, _, err := get[Task](u, taskKey(cl.Job, cl.Task))
	if err != nil {
		return err
	}
	if task.Gang == "" {
		return u.apply(decideRun(cl, u.now))
	}
	job, found, err := get[Job](u, jobKey(cl.Job))
	if err != nil || !found {
		return orSkip(err)
	}
	members, err := gangOf(u, job, cl.Task)
	if err != nil {
		return err
	}
	return u.apply(decideRunGang(members, u.now))
}

// decideRunGang tells all of a gang to run, or none of it. All are written: if one is lost meanwhile nothing is committed.
func decideRunGang(members []member, now time.Time) (d Decision) {
	for _, m := range members {
		if !m.bought || m.task.State != TaskLaunching || m.cl.State != ClusterUp || m.cl.Command != "" || m.cl.Outcome != "" {
			return Decision{}
		}
		run := decideRun(m.cl, now)
		d.Writes = append(d.Writes, run.Writes...)
	}
	return d
}

// broken tells that a task of a gang does not go on, so that the others give back what they have.
func (d *Decision) broken(task Task) {
	if task.Gang != "" {
		d.emit(events.GangBroken{Job: task.Job, Gang: task.Gang, Task: task.Index, Attempt: task.Attempt})
	}
}

// gangBroken has the other tasks of a gang give back what they hold. What the transaction has no room for is left to a next one.
func (b *Broker) gangBroken(u *unit, e events.GangBroken) error {
	job, found, err := get[Job](u, jobKey(e.Job))
	if err != nil || !found || job.State == JobEnding || job.State.Over() {
		return orSkip(err)
	}
	members, err := gangOf(u, job, e.Task)
	if err != nil {
		return err
	}
	for _, m := range members {
		if m.task.Index == e.Task && m.task.Attempt > e.Attempt {
			return errSkip // all have been admitted together since
		}
	}
	reason := fmt.Sprintf("a task of its gang %s could not go on", e.Gang)
	for _, m := range members {
		if m.task.Index == e.Task {
			continue
		}
		d := decideFollow(m, reason, b.cfg, u.now)
		if len(d.Writes) == 0 {
			continue
		}
		if u.items()+gangLeaveItems >= store.MaxItems {
			var d Decision
			d.emit(e)
			return u.apply(d)
		}
		if err := u.apply(d); err != nil {
			return err
		}
		if !m.bought && m.attempt.Offer.Cloud == PoolCloud {
			if err := b.unassign(u, m.attempt.Offer.Region, ClusterID(job.ID, m.task.Index, m.attempt.Number), m.attempt.Hosts); err != nil {
				return err
			}
		}
	}
	return nil
}

// decideFollow has a task of a broken gang give back what it holds: at once if it has not begun, else when it has saved its work.
func decideFollow(m member, reason string, cfg Config, now time.Time) (d Decision) {
	switch {
	case m.task.State == TaskAdmitted && !m.bought && m.attempt.Outcome == "":
		st := buying{job: m.job, task: m.task, attempt: m.attempt}
		d = decideUnbought(&st, OutcomeMoved, reason, now)
		d.wait(m.job, m.task, m.job.Plan.Version)
	case !m.bought || m.cl.Outcome != "" || m.cl.State == ClusterDoomed || m.cl.State == ClusterReleasing:
	case m.cl.Command != "":
		d = decideLeave(m.cl, LeaveGang, reason, cfg.Overhead, now)
	default:
		m.cl.Leaving = LeaveGang
		d = decideLost(m.losing, OutcomeMoved, reason, now)
	}
	return d
}
