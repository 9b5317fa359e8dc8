package view

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// JobMachines lists the machines that the broker has bought for a job. With ended, it also lists those that are gone.
// It fails with ErrNotFound.
func (b *Views) JobMachines(ctx context.Context, id string, ended bool) (out apitypes.MachineList, err error) {
	u := b.txns.NewUnit(ctx, "api")
	job, err := LoadJob(u, id)
	if err != nil {
		return out, err
	}
	n, machines, err := b.machinesOf(u, job, usageAttempts)
	out.Now, out.Partial, out.Machines = u.Now, n >= usageAttempts, alive(machines, ended)
	return out, err
}

// alive returns the machines that are not gone, or with ended all of them.
func alive(machines []apitypes.WorkerView, ended bool) []apitypes.WorkerView {
	out := []apitypes.WorkerView{}
	for _, m := range machines {
		if ended || m.State != apitypes.MachineGone {
			out = append(out, m)
		}
	}
	return out
}

// Machines lists the machines that the broker has bought for the newest jobs. With ended, it also lists those that
// are gone.
func (b *Views) Machines(ctx context.Context, ended bool) (out apitypes.MachineList, err error) {
	u := b.txns.NewUnit(ctx, "api")
	out.Now, out.Machines = u.Now, []apitypes.WorkerView{}
	lines, more, err := b.txns.Store.Query(ctx, record.PartJobs, "", store.Page{Limit: usageJobs})
	if err != nil {
		return out, err
	}
	left := usageAttempts
	for _, line := range lines {
		_, id, _ := strings.Cut(line.Key.Sort, "#")
		job, found, err := recordcache.Get[record.Job](u, record.JobKey(id))
		if err != nil {
			return out, err
		}
		if !found || job.State.Finished() && !ended {
			continue
		}
		if left <= 0 {
			more = true
			break
		}
		n, machines, err := b.machinesOf(u, job, left)
		if err != nil {
			return out, err
		}
		left -= n
		out.Machines = append(out.Machines, alive(machines, ended)...)
	}
	out.Partial = more || left <= 0
	return out, nil
}

// machinesOf returns the views of the machines of one job, in the order in which they were bought. It reads at most
// limit attempts, and returns the number that it has read.
func (b *Views) machinesOf(u *txn.Unit, job record.Job, limit int) (n int, out []apitypes.WorkerView, err error) {
	spec, err := u.Spec(job)
	if err != nil {
		return 0, nil, err
	}
	attempts, err := recordcache.List[apitypes.Attempt](u, record.JobPart(job.ID), "attempt#", limit)
	if err != nil {
		return 0, nil, err
	}
	clusters, err := recordcache.List[record.Cluster](u, record.JobPart(job.ID), record.ClusterPrefix, 0)
	if err != nil {
		return 0, nil, err
	}
	out = newFloor(job, spec, attempts, clusters, u.Now).machines()
	for i := range out {
		out[i].Simulated = b.simulated(job)
	}
	return len(attempts), out, nil
}

// jobMachines has the records of one job from which the views of its machines are made: those of its machines, and of
// the tasks on them.
type jobMachines struct {
	job      record.Job
	spec     *dag.Job
	attempts []apitypes.Attempt
	clusters map[string]*record.Cluster
	on       map[string][]*apitypes.Attempt // attempts of tasks that share machines, by worker
	now      time.Time
}

func newFloor(job record.Job, spec *dag.Job, attempts []apitypes.Attempt, clusters []record.Cluster,
	now time.Time) *jobMachines {
	f := &jobMachines{job: job, spec: spec, attempts: attempts, clusters: map[string]*record.Cluster{},
		on: map[string][]*apitypes.Attempt{}, now: now}
	for i := range clusters {
		f.clusters[clusters[i].ID] = &clusters[i]
	}
	for i := range attempts {
		a := &attempts[i]
		if cl := f.clusters[record.ClusterID(job.ID, a.Task, a.Number)]; cl != nil {
			cl.UpdateAttempt(a)
		}
		if worker, shared := a.Shares(); shared {
			f.on[worker] = append(f.on[worker], a)
		}
	}
	return f
}

func (f *jobMachines) machines() (out []apitypes.WorkerView) {
	for i := range f.attempts {
		a := &f.attempts[i]
		if a.Assigned() || a.Launched.IsZero() && !a.Ended.IsZero() {
			continue
		}
		m := f.machine(a)
		for rank := range max(a.Nodes, 1) {
			each := m
			if a.Nodes > 1 {
				each.ID = fmt.Sprintf("%s#%d", m.ID, rank)
			}
			out = append(out, each)
		}
	}
	slices.SortStableFunc(out, func(x, y apitypes.WorkerView) int { return x.Since.Compare(y.Since) })
	return out
}

// machine makes the view of one machine of an attempt.
func (f *jobMachines) machine(a *apitypes.Attempt) apitypes.WorkerView {
	id := record.ClusterID(f.job.ID, a.Task, a.Number)
	cl := f.clusters[id]
	m := apitypes.WorkerView{ID: id, Job: f.job.ID, Task: f.spec.Tasks[a.Task].Name, Offer: a.OfferID,
		State: stateOfMachine(a, cl), Since: a.Launched, Up: a.Up, USD: a.USD}
	if m.Since.IsZero() {
		m.Since = a.Admitted
	}
	end := f.now
	if m.State == apitypes.MachineGone {
		m.Until, end = a.Ended, a.Ended
	}
	if cl != nil {
		m.USD = cl.Accrued(f.now)
	}
	m.USD /= float64(max(a.Nodes, 1))
	m.Tasks = 1
	held := overlap(a.Started, a.Ended, m.Since, end)
	if f.spec.Tasks[a.Task].Worker != nil {
		m.Worker = record.WorkerName(a.Task, a.Number)
		on := f.on[m.Worker]
		m.Tasks, held = len(on), 0
		for _, t := range on {
			cpus, _ := f.spec.Tasks[t.Task].Hold()
			held += time.Duration(float64(overlap(t.Launched, t.Ended, m.Since, end)) * cpus / max(a.VCPU, cpus))
		}
	}
	billed := m.Since
	if !record.BillsStart(a.Offer.Service) && !a.Started.IsZero() {
		billed = a.Started
	}
	if life := end.Sub(billed); life > 0 && !a.Launched.IsZero() {
		boot := min(life, overlap(billed, a.Up, billed, end))
		if a.Up.IsZero() {
			boot = life
		}
		m.Utilisation = min(float64(held)/float64(life), 1)
		m.BootUSD = m.USD * float64(boot) / float64(life)
		m.IdleUSD = max(m.USD*(1-m.Utilisation)-m.BootUSD, 0)
	}
	return m
}

// overlap returns the part of a time span that is between two times. If ended is zero, the span continues. If began
// is zero, there is no span.
func overlap(began, ended, from, to time.Time) time.Duration {
	if began.IsZero() {
		return 0
	}
	if ended.IsZero() {
		ended = to
	}
	return max(earlier(ended, to).Sub(later(began, from)), 0)
}

// stateOfMachine returns the state of the machines of an attempt. cl is nil if its cluster has no record.
func stateOfMachine(a *apitypes.Attempt, cl *record.Cluster) apitypes.MachineState {
	switch {
	case cl == nil && (!a.Ended.IsZero() || a.Outcome != ""):
		return apitypes.MachineGone
	case cl == nil:
		return apitypes.MachineAdmitted
	case cl.State == record.ClusterReleasing || cl.Outcome != "":
		return apitypes.MachineEnding
	case cl.State == record.ClusterDoomed:
		return apitypes.MachineDraining
	case cl.State == record.ClusterUp:
		return apitypes.MachineUp
	default:
		return apitypes.MachineBooting
	}
}
