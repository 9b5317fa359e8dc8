package record

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// PoolMachine is a machine in its partition.
type PoolMachine struct {
	ID       string            `json:"id"`
	Type     string            `json:"type"` // tasks can request it as their instance type
	Labels   map[string]string `json:"labels,omitempty"`
	Capacity apitypes.Capacity `json:"capacity"`
	Joined   time.Time         `json:"joined"`
	// Draining means that the owner wants no new tasks on the machine. Leaving means that its process is about to
	// end. If Leaving or Vacate is set, its tasks save their work and leave.
	Draining bool `json:"draining,omitempty"`
	Vacate   bool `json:"vacate,omitempty"`
	Leaving  bool `json:"leaving,omitempty"`
	// A machine that failed to start a cluster gets no tasks until BlockedUntil. The time grows with each failure in
	// a row.
	BlockedUntil time.Time `json:"blockedUntil,omitzero"`
	Failures     int       `json:"failures,omitempty"`
	Reason       string    `json:"reason,omitempty"` // of the last failure
	Uses         []PoolUse `json:"uses,omitempty"`
	// Promises are parts of the machine that are kept for certain tasks.
	Promises []PoolPromise `json:"promises,omitempty"`
	// Worker is set for a worker of a job; see IsWorker.
	Worker PoolWorker `json:"worker,omitzero"`
}

// IsWorker reports whether a machine is a worker of a job.
func (m *PoolMachine) IsWorker() bool { return m.Worker.Attempt > 0 }

// PoolPromise is room on a machine that is kept for one task while tasks are moved: for the task for which room is
// made, and for each moved task on the machine where it continues.
type PoolPromise struct {
	For   string            `json:"for"` // the task's claim
	Rank  int               `json:"rank,omitempty"`
	Hold  apitypes.Capacity `json:"hold"`
	Until time.Time         `json:"until"`
	// Waits means that its task waits until the running tasks have left.
	Waits bool `json:"waits,omitempty"`
}

// PoolUse is the part of a machine that one rank of a cluster holds.
type PoolUse struct {
	Cluster string            `json:"cluster"`
	Rank    int               `json:"rank"`
	Hold    apitypes.Capacity `json:"hold"`
	// Devices are the indexes of the accelerators it holds.
	Devices []int `json:"devices,omitempty"`
	// Since is the time of the assignment. It is zero on a worker, which may have many uses.
	Since time.Time `json:"since,omitzero"`
}

// Limits of a machine's report.
const (
	MaxLabels   = 16
	MaxLabel    = 128
	maxQuantity = 1e5
)

// CheckCapacity fails with ErrPool if no machine can have the capacity.
func CheckCapacity(c apitypes.Capacity) error {
	for _, x := range []struct {
		name         string
		value, least float64
	}{{"cpus", c.CPUs, math.SmallestNonzeroFloat64}, {"memoryGiB", c.MemoryGiB, math.SmallestNonzeroFloat64},
		{"accelerators", c.Accelerators, 0}} {
		if !(x.value >= x.least && x.value <= maxQuantity) {
			return fmt.Errorf("%w: capacity.%s: %v is not a quantity that a machine can have", ErrPool, x.name, x.value)
		}
	}
	if n := c.Accelerators; n != math.Trunc(n) || n > maxDevices || n > 0 != (c.Accelerator != "") ||
		len(c.Accelerator) > MaxLabel {
		return fmt.Errorf("%w: capacity.accelerators: %v of %q: a machine has a whole number of accelerators with a "+
			"name, at most %d, or none", ErrPool, n, readable.ClipMessage(c.Accelerator), maxDevices)
	}
	return nil
}

// maxDevices is the maximum number of accelerators of a machine.
const maxDevices = 64

// Fail blocks a machine for new tasks for a time.
func (m *PoolMachine) Fail(reason string, span time.Duration, now time.Time) {
	if now.Sub(m.BlockedUntil) > 2*span {
		m.Failures = 0
	}
	m.BlockedUntil = now.Add(span << min(m.Failures, MaxBlockDoublings))
	m.Failures++
	m.Reason = readable.ClipMessage(reason)
}

// Agent returns the agent to which the use belongs.
func (use PoolUse) Agent() wire.PoolAgent {
	return wire.PoolAgent{Cluster: use.Cluster, Rank: use.Rank}
}

// State returns the state of a machine for users, in one word.
func (m PoolMachine) State(seen time.Time, t config.PoolTimes, now time.Time) string {
	switch silent := now.Sub(seen); {
	case silent > t.LostAfter:
		return "lost"
	case silent > t.StaleAfter:
		return "stale"
	case m.Leaving:
		return "leaving"
	case m.Draining && len(m.Uses) == 0:
		return "drained"
	case m.Draining:
		return "draining"
	case now.Before(m.BlockedUntil):
		return "blocked"
	case len(m.Uses) > 0:
		return "busy"
	default:
		return "ready"
	}
}

// Used returns the part of a machine that is in use.
func (m PoolMachine) Used() (c apitypes.Capacity) {
	for _, use := range m.Uses {
		c.Add(use.Hold)
	}
	return c
}

// MaxBlockDoublings limits how long a location is blocked after repeated failures.
const MaxBlockDoublings = 4

// Free returns the part of a machine that is free.
func (m PoolMachine) Free() apitypes.Capacity {
	c, used := m.Capacity, m.Used()
	c.CPUs -= used.CPUs
	c.MemoryGiB -= used.MemoryGiB
	c.Accelerators -= used.Accelerators
	return c
}

// WithPromises returns the machine as the task from sees it: room that is kept for other tasks counts as used. If
// from is "", all kept room counts as used.
func (m PoolMachine) WithPromises(from string, now time.Time) PoolMachine {
	fresh := false
	for _, p := range m.Promises {
		if p.For == from || !now.Before(p.Until) {
			continue
		}
		if !fresh {
			m.Uses, fresh = slices.Clone(m.Uses), true
		}
		m.Uses = append(m.Uses, PoolUse{Rank: p.Rank, Hold: p.Hold, Since: now})
	}
	return m
}

// Promise keeps room on the machine and drops expired promises.
func (m *PoolMachine) Promise(p PoolPromise, now time.Time) {
	m.Forget("", now)
	m.Promises = append(m.Promises, p)
}

// Forget drops the promises for a task, and expired ones.
func (m *PoolMachine) Forget(task string, now time.Time) {
	m.Promises = slices.DeleteFunc(slices.Clone(m.Promises), func(p PoolPromise) bool {
		return p.For == task || !now.Before(p.Until)
	})
	if len(m.Promises) == 0 {
		m.Promises = nil
	}
}

// Fits reports whether c fits into the free capacity.
func Fits(c, free apitypes.Capacity) bool {
	return c.CPUs <= free.CPUs+CapacityEps && c.MemoryGiB <= free.MemoryGiB+CapacityEps &&
		(c.Accelerators == 0 || strings.EqualFold(c.Accelerator, free.Accelerator) &&
			c.Accelerators <= free.Accelerators+CapacityEps)
}

// CapacityEps is the tolerance in comparisons of capacities. It is far below any real request.
const CapacityEps = 1e-6

// Devices returns the lowest free indexes of accelerators for a hold.
func (m PoolMachine) Devices(hold apitypes.Capacity) []int {
	taken := map[int]bool{}
	for _, use := range m.Uses {
		for _, i := range use.Devices {
			taken[i] = true
		}
	}
	var out []int
	for i := 0; len(out) < int(math.Round(hold.Accelerators)) && i < int(m.Capacity.Accelerators); i++ {
		if !taken[i] {
			out = append(out, i)
		}
	}
	return out
}

// Usable reports whether a machine may get new tasks.
func (m PoolMachine) Usable(seen time.Time, t config.PoolTimes, now time.Time) bool {
	return !m.Draining && !m.Leaving && !now.Before(m.BlockedUntil) && now.Sub(seen) <= t.StaleAfter &&
		len(m.Uses) < MaxUses
}

// LabelArch is the label with the processor architecture of a machine: amd64 or arm64.
const LabelArch = "arch"

// LabelWindow is the label of a machine that is available only in a time window: the window's name in the policy
// (plugin tdm).
const LabelWindow = "window"

// TopologyLabels returns the labels for the location of a machine, the widest level first. Each has alternative
// names: those of Kubernetes for zones and racks, and that of NVIDIA for NVLink domains.
func TopologyLabels() [][]string {
	return [][]string{
		{"zone", "topology.kubernetes.io/zone"}, {"rack", "topology.kubernetes.io/rack"}, {"switch"},
		{"nvlink", "nvidia.com/gpu.clique"},
	}
}

// At returns the location of a machine at a level, or "" if it has no label for that level.
func (m *PoolMachine) At(level []string) string {
	for _, name := range level {
		if at := m.Labels[name]; at != "" {
			return at
		}
	}
	return ""
}

// Accelerators returns the number of whole accelerators that an alternative requests.
func Accelerators(r *dag.Resources) float64 {
	if r.Accelerator == "" {
		return 0
	}
	return math.Ceil(max(r.AcceleratorCount, 1))
}

// Share returns the fraction of a machine that a hold takes: the maximum over its resources.
func (m *PoolMachine) Share(hold apitypes.Capacity) float64 {
	share := max(hold.CPUs/m.Capacity.CPUs, hold.MemoryGiB/m.Capacity.MemoryGiB)
	if hold.Accelerators > 0 {
		share = max(share, hold.Accelerators/m.Capacity.Accelerators)
	}
	return min(share, 1)
}

// MachineClass identifies machines that are equivalent for a task.
type MachineClass struct {
	kind, arch string
	capacity   apitypes.Capacity
}

// Class is the class of a machine.
func (m *PoolMachine) Class() MachineClass {
	return MachineClass{kind: m.Type, arch: m.Labels[LabelArch], capacity: m.Capacity}
}
