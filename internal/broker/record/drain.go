package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// lateShare is the share of the plan's time by which the tasks of a group may end later because a worker ends as
// planned. A job with a deadline, or for which time counts, may not be late.
const lateShare = 0.05

// Until returns the planned end of a worker task.
func (p *Plan) Until(worker int) time.Time {
	return p.Due(worker).Add(Duration(p.TaskHours[worker]))
}

// Drained returns the worker tasks of a group that take no more tasks: their planned time is over, and the running
// workers that are planned for longer can do the rest in their time. Otherwise all workers would share the rest, and
// each would be partly idle while the last tasks run. part has the job's workers. The remaining work and the capacity
// of a worker are compared in planned USD, so workers of several offers can be added up.
//
// If the job is to be as fast as possible, or is late, Drained returns none.
func (p *Plan) Drained(spec *dag.Job, progress Progress, part *Partition, group int, now time.Time) (tasks []int) {
	if spec.Objective == dag.MinimizeMakespan || p.Late {
		return nil
	}
	var over, others []int
	for i := spec.Work(); i < len(spec.Tasks) && i < len(p.TaskHours); i++ {
		switch {
		case spec.Tasks[i].Worker.Group != group || p.Of(i) == nil:
		case !now.Before(p.Until(i)):
			over = append(over, i)
		case part.works(i):
			others = append(others, i)
		}
	}
	if len(over) == 0 || len(others) == 0 {
		return nil
	}
	late, left := Duration(p.Hours*lateShare), p.left(spec, progress, part, group)
	if spec.Deadline > 0 || spec.Objective != dag.MinimizeCost {
		late = 0
	}
	for _, worker := range over {
		usd := 0.0
		for _, i := range others {
			if other := p.Of(i); other.replaces(p.Of(worker)) {
				usd += p.Until(i).Add(late).Sub(now).Hours() * other.Offer.USDPerHour
			}
		}
		if usd > 0 && left <= usd {
			tasks = append(tasks, worker)
		}
	}
	return tasks
}

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

// left returns the planned cost of the unfinished tasks of a group. Running tasks count half, because they are half
// done on average. A task may be on a worker for a moment after it has ended.
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
			task, _, ok := ClusterAttempt(m.Uses[k].Cluster)
			if ok && task < len(p.TaskUSD) && task < len(progress.Phases) && IsOpen(progress.Phases[task]) {
				usd -= p.TaskUSD[task] / 2
			}
		}
	}
	return usd
}
