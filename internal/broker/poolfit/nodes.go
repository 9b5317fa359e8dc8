package poolfit

import (
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// The resources of a session over machines, with the names of binpack's settings. Amounts are in millionths, and GPUs
// in devices.
const (
	NodeCPU = iota
	NodeMemory
	NodeTasks
	NodeGPU
)

// micro is the resolution of amounts. Held amounts are rounded up and capacities down, with a tolerance for rounding
// errors in sums (slack).
const (
	micro = 1_000_000
	slack = 1e-3 // of a millionth
)

// NodeUnits returns the vector of one unit of each resource.
func NodeUnits() scheduler.Vector { return scheduler.Vector{micro, micro, micro, scheduler.Whole} }

// Has returns a capacity, with room for a number of tasks, as a vector. It rounds down.
func Has(c apitypes.Capacity, tasks int) scheduler.Vector {
	return scheduler.Vector{
		NodeCPU:    int64(math.Floor((c.CPUs + record.CapacityEps) * micro)),
		NodeMemory: int64(math.Floor((c.MemoryGiB + record.CapacityEps) * micro)),
		NodeTasks:  int64(tasks) * micro,
	}
}

// Needs returns the capacity that a number of tasks holds as a vector. It rounds up, with a tolerance for rounding
// errors in sums.
func Needs(c apitypes.Capacity, tasks int) scheduler.Vector {
	return scheduler.Vector{
		NodeCPU:    int64(math.Ceil(c.CPUs*micro - slack)),
		NodeMemory: int64(math.Ceil(c.MemoryGiB*micro - slack)),
		NodeTasks:  int64(tasks) * micro,
	}
}

// Held returns one scheduler task that represents all tasks on a machine. It returns false if nothing runs there.
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
	if count != len(devices) { // the devices in use are not known for all tasks, so the scheduler chooses
		devices = nil
	}
	spec := &scheduler.Spec{Request: Needs(m.Used(), len(m.Uses)), Devices: min(count, int(m.Capacity.Accelerators))}
	return scheduler.Task{State: scheduler.Running, Spec: spec, OnDevices: devices}, true
}

// Levels returns the topology labels that at least one machine has. The label of the largest areas comes first.
func Levels(machines []*record.PoolMachine) (levels [][]string) {
	for _, names := range record.TopologyLabels() {
		if slices.ContainsFunc(machines, func(m *record.PoolMachine) bool { return m.At(names) != "" }) {
			levels = append(levels, names)
		}
	}
	return levels
}

// LocationOf returns the location of a machine at each level. A machine without a label counts as apart from all
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
