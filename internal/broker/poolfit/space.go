package poolfit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// Space is the list of resources in a placement problem: vCPUs, memory, the number of tasks, each accelerator by
// name, and one resource for each class of machines. Machines of a class have none of their class resource, and tasks
// that do not suit the class request some of it.
type Space struct {
	accelerators []string // in lower case
	classes      []record.MachineClass
}

// Machine adds the resources of a machine.
func (s *Space) Machine(m *record.PoolMachine) {
	if !slices.Contains(s.classes, m.Class()) {
		s.classes = append(s.classes, m.Class())
	}
	s.Accelerator(m.Capacity.Accelerator)
}

// Accelerator adds an accelerator by name.
func (s *Space) Accelerator(name string) {
	if name = strings.ToLower(name); name != "" && !slices.Contains(s.accelerators, name) {
		s.accelerators = append(s.accelerators, name)
	}
}

// Resources returns the resources. It is called when all machines and tasks have been added.
func (s *Space) Resources() []placement.Resource {
	out := []placement.Resource{{Name: "cpus", Points: 1}, {Name: "memory", Points: 1}, {Name: "tasks", Points: 1}}
	for _, name := range s.accelerators {
		out = append(out, placement.Resource{Name: name, Points: 1})
	}
	for i := range s.classes {
		out = append(out, placement.Resource{Name: fmt.Sprintf("class%d", i), Points: 1})
	}
	return out
}

// Free returns a machine's free amount of each resource.
func (s *Space) Free(m *record.PoolMachine) []int64 {
	free := m.Free()
	free.CPUs += record.CapacityEps
	free.MemoryGiB += record.CapacityEps
	return s.vector(free, record.MaxUses-len(m.Uses), func(class record.MachineClass) int64 {
		if class == m.Class() {
			return 0
		}
		return placement.Unit
	})
}

// Demand returns the amount of each resource that a task requests if it holds the given capacity and suits the given
// classes.
func (s *Space) Demand(hold apitypes.Capacity, may map[record.MachineClass]float64) []int64 {
	return s.vector(hold, 1, func(class record.MachineClass) int64 {
		if _, suits := may[class]; suits {
			return 0
		}
		return 1
	})
}

// vector converts a capacity and a number of tasks to amounts of each resource, in parts of placement's unit, rounded
// down. of returns the amount of a class resource.
func (s *Space) vector(c apitypes.Capacity, tasks int, of func(record.MachineClass) int64) []int64 {
	parts := func(x float64) int64 { return int64(max(0, min(x, placement.MaxValue)) * placement.Unit) }
	v := []int64{parts(c.CPUs), parts(c.MemoryGiB), parts(float64(tasks))}
	for _, name := range s.accelerators {
		has := 0.0
		if strings.EqualFold(name, c.Accelerator) {
			has = c.Accelerators
		}
		v = append(v, parts(has))
	}
	for _, class := range s.classes {
		v = append(v, of(class))
	}
	return v
}

// gibPerCPU is the default memory for each vCPU, in GiB. It is that of the clouds' machines with the least memory.
const gibPerCPU = 2

// HoldOf returns the part of a machine that a task holds, which is its request. The default for vCPUs is the number
// of the planned offer, and for memory gibPerCPU for each vCPU. A default is at most the task's share of any of the
// machines.
func HoldOf(r *dag.Resources, classes map[record.MachineClass]*record.PoolMachine, planned float64) apitypes.Capacity {
	hold := apitypes.Capacity{CPUs: r.CPUs.Min, MemoryGiB: r.Memory.Min, Accelerator: r.Accelerator,
		Accelerators: record.Accelerators(r)}
	part := func(m *record.PoolMachine) float64 {
		if hold.Accelerators > 0 {
			return hold.Accelerators / m.Capacity.Accelerators
		}
		return 1
	}
	if hold.CPUs == 0 {
		hold.CPUs = planned
		for _, m := range classes {
			hold.CPUs = min(hold.CPUs, m.Capacity.CPUs*part(m))
		}
	}
	if hold.MemoryGiB == 0 {
		hold.MemoryGiB = hold.CPUs * gibPerCPU
		for _, m := range classes {
			hold.MemoryGiB = min(hold.MemoryGiB,
				m.Capacity.MemoryGiB*m.Share(apitypes.Capacity{CPUs: hold.CPUs, Accelerators: hold.Accelerators}))
		}
	}
	return hold
}

// Priorities numbers priorities from 0 on, as pkg/placement needs them.
func Priorities(of []int) map[int]int {
	ranks := map[int]int{}
	for rank, priority := range slices.Compact(slices.Sorted(slices.Values(of))) {
		ranks[priority] = rank
	}
	return ranks
}

// Followers returns the number of tasks after a task on the longest path to the end of the job. Each needs time for a
// start.
func Followers(spec *dag.Job, task int) int {
	g, longest := spec.Graph(), make([]int, len(spec.Tasks))
	for _, i := range slices.Backward(spec.Order()) {
		for _, c := range g.Children(i) {
			longest[i] = max(longest[i], longest[c]+1)
		}
	}
	return longest[task]
}

// SpotOf returns the location of a machine of a pool. Machines without a zone label are in one zone of their pool.
func SpotOf(p *record.Pool, m *record.PoolMachine) record.Spot {
	levels := record.TopologyLabels()
	at := record.Spot{Region: p.Place, Zone: m.At(levels[0]), Rack: m.At(levels[1]),
		Machine: apitypes.PoolCloud + "/" + p.Name + "/" + m.ID, Count: 1}
	if at.Region == "" {
		at.Region = apitypes.PoolCloud + ":" + p.Name
	}
	if at.Zone == "" {
		at.Zone = apitypes.PoolCloud + "/" + p.Name
	}
	return at
}
