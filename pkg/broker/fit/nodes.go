package fit

import (
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// The resources that a session over machines counts, as binpack's settings name them. Amounts are millionths; of GPUs
// there are devices.
const (
	NodeCPU = iota
	NodeMemory
	NodeTasks
	NodeGPU
)

// micro is how finely they are counted. What is held is rounded up and what is there down, but for what is the
// imprecision of sums.
const (
	micro = 1_000_000
	slack = 1e-3 // of a millionth
)

// NodeUnits are one of each.
func NodeUnits() scheduler.Vector { return scheduler.Vector{micro, micro, micro, scheduler.Whole} }

// Has is a capacity in the units of a session over machines, rounded down, and room for so many tasks.
func Has(c apitypes.Capacity, tasks int) scheduler.Vector {
	return scheduler.Vector{
		NodeCPU:    int64(math.Floor((c.CPUs + record.CapacityEps) * micro)),
		NodeMemory: int64(math.Floor((c.MemoryGiB + record.CapacityEps) * micro)),
		NodeTasks:  int64(tasks) * micro,
	}
}

// Needs is what a hold takes of a capacity, rounded up but for what is the imprecision of sums.
func Needs(c apitypes.Capacity, tasks int) scheduler.Vector {
	return scheduler.Vector{
		NodeCPU:    int64(math.Ceil(c.CPUs*micro - slack)),
		NodeMemory: int64(math.Ceil(c.MemoryGiB*micro - slack)),
		NodeTasks:  int64(tasks) * micro,
	}
}

// Held stands for all that runs on a machine.
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
	if count != len(devices) { // it is not known which ones: any
		devices = nil
	}
	spec := &scheduler.Spec{Request: Needs(m.Used(), len(m.Uses)), Devices: min(count, int(m.Capacity.Accelerators))}
	return scheduler.Task{State: scheduler.Running, Spec: spec, OnDevices: devices}, true
}

// Levels are the labels that say where machines stand of which any has one, the widest first.
func Levels(machines []*record.PoolMachine) (levels [][]string) {
	for _, names := range record.TopologyLabels() {
		if slices.ContainsFunc(machines, func(m *record.PoolMachine) bool { return m.Stands(names) != "" }) {
			levels = append(levels, names)
		}
	}
	return levels
}

// Standing is where a machine stands on some levels. One that does not say stands apart from all others.
func Standing(m *record.PoolMachine, levels [][]string) (at []string) {
	for _, names := range levels {
		place := m.Stands(names)
		if place == "" {
			place = "\x00" + m.ID
		}
		at = append(at, strings.ToLower(place))
	}
	return at
}
