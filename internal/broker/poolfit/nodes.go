package poolfit

import (
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// The resources of a session over machines, with the names of binpack's settings. Amounts are in millionths, GPUs in
// devices.
const (
	NodeCPU = iota
	NodeMemory
	NodeTasks
	NodeGPU
)

// micro is the resolution of amounts. Held amounts are rounded up and capacities down, except for the imprecision of
// sums (slack).
const (
	micro = 1_000_000
	slack = 1e-3 // of a millionth
)

// NodeUnits is the vector of one unit of each resource.
func NodeUnits() scheduler.Vector { return scheduler.Vector{micro, micro, micro, scheduler.Whole} }

// Has converts a capacity, with room for a number of tasks, to a vector, rounded down.
func Has(c apitypes.Capacity, tasks int) scheduler.Vector {
	return scheduler.Vector{
		NodeCPU:    int64(math.Floor((c.CPUs + record.CapacityEps) * micro)),
		NodeMemory: int64(math.Floor((c.MemoryGiB + record.CapacityEps) * micro)),
		NodeTasks:  int64(tasks) * micro,
	}
}

// Needs converts the capacity that n tasks hold to a vector. It rounds up, except for the imprecision of sums.
func Needs(c apitypes.Capacity, tasks int) scheduler.Vector {
	return scheduler.Vector{
		NodeCPU:    int64(math.Ceil(c.CPUs*micro - slack)),
		NodeMemory: int64(math.Ceil(c.MemoryGiB*micro - slack)),
		NodeTasks:  int64(tasks) * micro,
	}
}

// Held is one scheduler task that represents everything running on a machine. It is false if nothing runs there.
func Held(m *record.PoolMachine) (scheduler.Task, bool) {
	if len(m.Uses) == 0 {
		return scheduler.Task{}, false
	}
	var devices []int
	count := 0
	for _, use := range m.Uses {
		devices = append(devices, use.Devices...)
		count += int(use.Hold.Accelerators)
	}
	if count != len(devices) { // which devices are in use is not known for all: let the scheduler choose
		devices = nil
	}
	spec := &scheduler.Spec{Request: Needs(m.Used(), len(m.Uses)), Devices: min(count, int(m.Capacity.Accelerators))}
	return scheduler.Task{State: scheduler.Running, Spec: spec, OnDevices: devices}, true
}

// Levels returns the topology labels that at least one machine has, with the label of the largest areas first.
func Levels(machines []*record.PoolMachine) (levels [][]string) {
	for _, names := range record.TopologyLabels() {
		if slices.ContainsFunc(machines, func(m *record.PoolMachine) bool { return m.At(names) != "" }) {
			levels = append(levels, names)
		}
	}
	return levels
}

// LocationOf returns the location of a machine at each level. A machine without a label counts as being apart from all
// others.
func LocationOf(m *record.PoolMachine, levels [][]string) (at []string) {
	for _, names := range levels {
		place := m.At(names)
		if place == "" {
			place = "\x00" + m.ID
		}
		at = append(at, strings.ToLower(place))
	}
	return at
}
