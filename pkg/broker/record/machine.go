package record

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// PoolMachine is a machine in its partition.
type PoolMachine struct {
	ID       string            `json:"id"`
	Type     string            `json:"type"` // what the author of a task may ask for as its instance type
	Labels   map[string]string `json:"labels,omitempty"`
	Capacity apitypes.Capacity `json:"capacity"`
	Joined   time.Time         `json:"joined"`
	// Draining machines get nothing new by their owner's wish, Leaving ones as their process is about to end. Of those,
	// and of the first if Vacate says so, what runs there saves its work and goes.
	Draining bool `json:"draining,omitempty"`
	Vacate   bool `json:"vacate,omitempty"`
	Leaving  bool `json:"leaving,omitempty"`
	// A machine that has failed to bring up a cluster gets nothing new for a time, that grows with each failure in a
	// row.
	BlockedUntil time.Time `json:"blockedUntil,omitzero"`
	Failures     int       `json:"failures,omitempty"`
	Reason       string    `json:"reason,omitempty"` // of the last failure
	Uses         []PoolUse `json:"uses,omitempty"`
	// Promises are room on it that is kept for tasks by name.
	Promises []PoolPromise `json:"promises,omitempty"`
}

// PoolPromise is room on a machine that is kept for one task while what runs is moved: for the task that it is moved
// for, where that is to go, and for what is moved, where it is to go on.
type PoolPromise struct {
	For   string            `json:"for"` // the task, as claims name it
	Rank  int               `json:"rank,omitempty"`
	Hold  apitypes.Capacity `json:"hold"`
	Until time.Time         `json:"until"`
	// Waits says that its task waits for the room, as long as what runs there has not gone yet.
	Waits bool `json:"waits,omitempty"`
}

// PoolUse is what one rank of a cluster holds of a machine.
type PoolUse struct {
	Cluster string            `json:"cluster"`
	Rank    int               `json:"rank"`
	Hold    apitypes.Capacity `json:"hold"`
	// Devices are the indexes of the accelerators it holds.
	Devices []int     `json:"devices,omitempty"`
	Since   time.Time `json:"since"`
}

// Bounds on what a machine says of itself.
const (
	MaxLabels   = 16
	MaxLabel    = 128
	maxQuantity = 1e5
)

// CheckCapacity fails with ErrPool on what no machine can have.
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
			"name, at most %d, or none", ErrPool, n, Clip(c.Accelerator), maxDevices)
	}
	return nil
}

// maxDevices bounds the accelerators of a machine.
const maxDevices = 64

// Fail keeps a machine from getting anything new for a time.
func (m *PoolMachine) Fail(reason string, span time.Duration, now time.Time) {
	if now.Sub(m.BlockedUntil) > 2*span {
		m.Failures = 0
	}
	m.BlockedUntil = now.Add(span << min(m.Failures, MaxBlockDoublings))
	m.Failures++
	m.Reason = Clip(reason)
}

// Agent names the agent that the use is of.
func (use PoolUse) Agent() wire.PoolAgent {
	return wire.PoolAgent{Cluster: use.Cluster, Rank: use.Rank}
}

// maxMessage bounds what is kept of a machine's words.
const maxMessage = 256

// Clip bounds what is kept of somebody's words.
func Clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxMessage)], "") }

// maxWords bounds what is kept of a failure, in bytes: it goes on in events, which no bus takes at any length.
const maxWords = 8 << 10

// Words bounds what a failure says.
func Words(s string) string {
	if len(s) <= maxWords {
		return s
	}
	return strings.ToValidUTF8(s[:maxWords], "") + "…"
}

// State is what people are told of a machine in a word.
func (m PoolMachine) State(seen time.Time, t PoolTimes, now time.Time) string {
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

// Used is what is in use of a machine.
func (m PoolMachine) Used() (c apitypes.Capacity) {
	for _, use := range m.Uses {
		c.Add(use.Hold)
	}
	return c
}

// MaxBlockDoublings bounds how long a location that fails again and again is left alone.
const MaxBlockDoublings = 4

// Free is what a machine has left.
func (m PoolMachine) Free() apitypes.Capacity {
	c, used := m.Capacity, m.Used()
	c.CPUs -= used.CPUs
	c.MemoryGiB -= used.MemoryGiB
	c.Accelerators -= used.Accelerators
	return c
}

// Kept is the machine as it is to everybody but one task, "" for anybody: what is kept of it for others counts as used.
func (m PoolMachine) Kept(from string, now time.Time) PoolMachine {
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

// Promise keeps room on the machine; what has lapsed is forgotten.
func (m *PoolMachine) Promise(p PoolPromise, now time.Time) {
	m.Forget("", now)
	m.Promises = append(m.Promises, p)
}

// Forget ends what is kept of the machine for a task, and what has lapsed.
func (m *PoolMachine) Forget(task string, now time.Time) {
	m.Promises = slices.DeleteFunc(slices.Clone(m.Promises), func(p PoolPromise) bool {
		return p.For == task || !now.Before(p.Until)
	})
	if len(m.Promises) == 0 {
		m.Promises = nil
	}
}

// Fits says whether a machine that has so much left can hold so much more.
func Fits(c, free apitypes.Capacity) bool {
	return c.CPUs <= free.CPUs+CapacityEps && c.MemoryGiB <= free.MemoryGiB+CapacityEps &&
		(c.Accelerators == 0 || strings.EqualFold(c.Accelerator, free.Accelerator) &&
			c.Accelerators <= free.Accelerators+CapacityEps)
}

// CapacityEps is the rounding that a comparison of capacities forgives: far below what anybody asks for.
const CapacityEps = 1e-6

// Devices are the lowest free indexes of a machine's accelerators for a task that holds so many.
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

// Usable says whether a machine may be given something new.
func (m PoolMachine) Usable(seen time.Time, t PoolTimes, now time.Time) bool {
	return !m.Draining && !m.Leaving && !now.Before(m.BlockedUntil) && now.Sub(seen) <= t.StaleAfter &&
		len(m.Uses) < MaxUses
}

// LabelArch is the label of a machine that says what its processors are: amd64 or arm64.
const LabelArch = "arch"

// LabelWindow is the label of a machine that is to be had at certain hours only: the name of a time window of the
// policy (plugin tdm).
const LabelWindow = "window"

// TopologyLabels are the labels that say where a machine stands, the widest level first, each with the other names that
// it goes by: Kubernetes' for zones and racks, NVIDIA's for what NVLink joins.
func TopologyLabels() [][]string {
	return [][]string{
		{"zone", "topology.kubernetes.io/zone"}, {"rack", "topology.kubernetes.io/rack"}, {"switch"},
		{"nvlink", "nvidia.com/gpu.clique"},
	}
}

// Stands is where a machine stands on a level, by the names of its label; empty where it does not say.
func (m *PoolMachine) Stands(level []string) string {
	for _, name := range level {
		if at := m.Labels[name]; at != "" {
			return at
		}
	}
	return ""
}

// Accelerators is how many whole ones an alternative asks for.
func Accelerators(r *dag.Resources) float64 {
	if r.Accelerator == "" {
		return 0
	}
	return math.Ceil(max(r.AcceleratorCount, 1))
}

// Share is which part of a machine a hold is: the greatest over its resources.
func (m *PoolMachine) Share(hold apitypes.Capacity) float64 {
	share := max(hold.CPUs/m.Capacity.CPUs, hold.MemoryGiB/m.Capacity.MemoryGiB)
	if hold.Accelerators > 0 {
		share = max(share, hold.Accelerators/m.Capacity.Accelerators)
	}
	return min(share, 1)
}

// MachineClass are machines that are the same to a task.
type MachineClass struct {
	kind, arch string
	capacity   apitypes.Capacity
}

// Class are the machines that are the same to a task as this one.
func (m *PoolMachine) Class() MachineClass {
	return MachineClass{kind: m.Type, arch: m.Labels[LabelArch], capacity: m.Capacity}
}
