package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// lateShare is how much later than planned the tasks of a group may end because a worker ends as planned, as a share of
// the plan's time. A job with a deadline may not be late.
const lateShare = 0.05

// Until returns when a worker task is planned to end.
func (p *Plan) Until(worker int) time.Time {
	return p.Due(worker).Add(Duration(p.TaskHours[worker]))
}

// Drained are the worker tasks of a group that take no more tasks: their planned time is over, and the workers that are
// planned for longer can do the rest in their time. Otherwise all workers would share the rest, and all be idle in part
// while the last tasks run. part has the job's workers. The work that is left, and what a worker can still do, are
// compared in planned USD, so workers of several offers can be added up.
func (p *Plan) Drained(spec *dag.Job, progress Progress, part *Partition, group int, now time.Time) (tasks []int) {
	var over, others []int
	for i := spec.Work(); i < len(spec.Tasks) && i < len(p.TaskHours); i++ {
		switch {
		case spec.Tasks[i].Worker.Group != group || p.Of(i) == nil:
		case now.Before(p.Until(i)):
			others = append(others, i)
		default:
			over = append(over, i)
		}
	}
	if len(over) == 0 || len(others) == 0 {
		return nil
	}
	late, left := Duration(p.Hours*lateShare), p.left(spec, progress, part, group)
	if spec.Deadline > 0 {
		late = 0
	}
	for _, worker := range over {
		usd := 0.0
		for _, i := range others {
			if other := p.Of(i); other.replaces(p.Of(worker)) {
				usd += max(p.Until(i).Add(late).Sub(p.upAt(i, part, now)).Hours(), 0) * other.Offer.USDPerHour
			}
		}
		if left <= usd {
			tasks = append(tasks, worker)
		}
	}
	return tasks
}

// upAt returns from when a worker task can work on the rest: at once, when it is bought and has booted, or never, if it
// should have joined and has not: it was lost.
func (p *Plan) upAt(worker int, part *Partition, now time.Time) time.Time {
	if part.works(worker) {
		return now
	}
	up := p.Due(worker).Add(Duration(p.Of(worker).Offer.BootSeconds / secondsPerHour))
	switch {
	case up.Add(bootGrace).Before(now):
		return p.Until(worker).Add(neverUp)
	case up.Before(now):
		return now
	}
	return up
}

// neverUp is later than anything that is planned.
const neverUp = 100 * 365 * 24 * time.Hour

// bootGrace is how much longer than planned a worker may take until it has joined.
const bootGrace = 2 * time.Minute

const secondsPerHour = 3600

// replaces reports whether each task that fits on a machine of y fits on one of x.
func (x *Planned) replaces(y *Planned) bool {
	return x.VCPU >= y.VCPU && x.MemoryGiB >= y.MemoryGiB && x.Offer.Accelerator == y.Offer.Accelerator &&
		x.Offer.AccelCount >= y.Offer.AccelCount
}

// works reports whether a worker task has a worker that takes tasks.
func (p *Partition) works(task int) bool {
	for i := range p.Machines {
		if m := &p.Machines[i]; m.IsWorker() && m.Worker.Task == task && !m.Draining && !m.Leaving {
			return true
		}
	}
	return false
}

// left is the planned cost of the tasks of a group that have not ended. Those that run are half done on average.
func (p *Plan) left(spec *dag.Job, progress Progress, part *Partition, group int) (usd float64) {
	for i, phase := range progress.Phases {
		if IsOpen(phase) && spec.Tasks[i].ShareGroup == group+1 && i < len(p.TaskUSD) {
			usd += p.TaskUSD[i]
		}
	}
	for i := range part.Machines {
		m := &part.Machines[i]
		if !m.IsWorker() || m.Worker.Group != group {
			continue
		}
		for k := range m.Uses {
			if task, _, ok := ClusterAttempt(m.Uses[k].Cluster); ok && task < len(p.TaskUSD) {
				usd -= p.TaskUSD[task] / 2
			}
		}
	}
	return usd
}
