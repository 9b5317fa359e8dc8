package record

import "github.com/tradewind-broker/tradewind/pkg/dag"

// Fleet is the set of machines of one offer and market that tasks of a group share.
type Fleet struct {
	// Group is the index of the group in dag.Job.ShareGroups.
	Group int `json:"group"`
	// Offer is an index into Plan.Offers.
	Offer int32 `json:"offer"`
	// Machines is the number of machines, running ones included, and Tasks the number of tasks planned on them.
	Machines int `json:"machines"`
	Tasks    int `json:"tasks"`
	// USD is the sum of the expected cost of the machines, and Hours of their billed time, from now on. Both include
	// boots and billing minimums.
	USD   float64 `json:"usd"`
	Hours float64 `json:"hours"`
	// Utilisation is the share of the billed time, from 0 to 1, in which tasks hold the vCPUs or the memory,
	// whichever is more.
	Utilisation float64 `json:"utilisation"`
}

// IsShared reports whether a task is planned on a shared machine, which is the choice of a worker task.
func (p *Plan) IsShared(task int) bool { return task >= 0 && task < len(p.On) && p.On[task] >= 0 }

// OwnUSD returns the expected cost of a task's machines, in USD. It is 0 for a task on a shared machine, because its
// worker task has the cost. So a sum over all tasks counts each dollar once.
func (p *Plan) OwnUSD(task int) float64 {
	if p.IsShared(task) {
		return 0
	}
	return p.TaskUSD[task]
}

// Slots returns, for each array, the number of its members that fit on the planned workers of its share group at a
// time, at least one. It is 0 for an array whose members do not share machines, or whose group has no workers in the
// plan.
func (p *Plan) Slots(spec *dag.Job, arrays []Array) []int {
	out := make([]int, len(arrays))
	for k, a := range arrays {
		t := &spec.Tasks[a.First]
		if t.ShareGroup == 0 {
			continue
		}
		cpus, gib := t.Hold()
		for i := spec.Work(); i < len(spec.Tasks); i++ {
			if c := p.Of(i); c != nil && spec.Tasks[i].Worker.Group == t.ShareGroup-1 {
				fits := min((c.VCPU+CapacityEps)/cpus, (c.MemoryGiB+CapacityEps)/gib, MaxUses)
				out[k] += max(int(fits), 1)
			}
		}
	}
	return out
}
