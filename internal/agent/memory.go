package agent

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"sync"
	"syscall"

	"github.com/tradewind-broker/tradewind/internal/agent/cgroup"
	"github.com/tradewind-broker/tradewind/internal/agent/container"
	"github.com/tradewind-broker/tradewind/internal/agent/proc"
)

// controlGroups creates the control groups of this agent's tasks.
type controlGroups struct {
	once   sync.Once
	parent *cgroup.Parent
	err    error // why there are none
}

// controlGroup returns the group in which the attempt's scripts run. It creates the group at the first call. It
// returns nil if the agent may not create groups. If the task should have been limited, the attempt's log then says
// so.
func (t *attempt) controlGroup() *cgroup.Group {
	if t.tried {
		return t.group
	}
	t.tried = true
	groups := &t.groups
	groups.once.Do(func() {
		if groups.parent, groups.err = cgroup.Find(); groups.err != nil {
			t.log.Info("the memory of tasks is not limited", "reason", groups.err)
		}
	})
	err := groups.err
	if err == nil {
		t.group, err = groups.parent.Create(boxName(t.work.Attempt, t.claims.Rank),
			cgroup.Limits{MemoryBytes: t.work.MemoryBytes, CPUs: t.work.VCPUs})
	}
	if err != nil && t.work.MemoryBytes > 0 {
		t.out.note(fmt.Sprintf("the memory of this task is not limited to %s: %v", size(t.work.MemoryBytes), err))
	}
	return t.group
}

func (t *attempt) removeControlGroup() {
	if t.group == nil {
		return
	}
	if err := t.group.Remove(); err != nil {
		t.log.Warn("a control group remains", "err", err)
	}
}

// memoryUse is a script's use of the machine's memory.
type memoryUse struct {
	// kills is the number of the task's processes that the kernel has killed for lack of memory while the script ran.
	kills int64
	// machineKills is the number of such kills of all processes of the machine. It is used if kills cannot be known.
	machineKills int64
	peak         int64 // peak use of the task, in bytes; 0 if it is unknown
	limit        int64 // of the task, in bytes; 0 if it had none
	machine      int64 // all memory of a machine that the task has to itself, in bytes; otherwise 0
}

// watchMemory starts to watch the task's memory. The returned function returns the kills and the peak since then.
func (t *attempt) watchMemory(box *container.Box) func() memoryUse {
	use := memoryUse{}
	if t.cfg.Sole {
		use.machine = memoryBytes()
	}
	switch group := t.group; {
	case box != nil:
		return func() memoryUse {
			kills, peak := box.Memory()
			use.kills, use.peak, use.limit = kills-t.boxed.kills, peak, t.work.MemoryBytes
			t.boxed.kills = kills
			return use
		}
	case group != nil:
		before := group.OOMKills()
		return func() memoryUse {
			use.kills, use.peak, use.limit = group.OOMKills()-before, group.Peak(), group.Limit()
			return use
		}
	}
	before, known := cgroup.MachineOOMKills()
	return func() memoryUse {
		if kills, ok := cgroup.MachineOOMKills(); known && ok {
			use.machineKills = kills - before
		}
		return use
	}
}

// describeKill describes a script that a signal ended, or that lost a process for lack of memory; otherwise it returns
// "". It calls a kill out of memory only if the kernel counted one: of the task or, if the task has no counter of its
// own and was killed by SIGKILL, of its machine.
func describeKill(exit proc.Exit, used memoryUse) string {
	sig, how := exit.Signal, "killed by "
	if sig == 0 && exit.Code > 128 {
		sig, how = syscall.Signal(exit.Code-128), "a command was killed by "
	}
	name := signalName(sig)
	peak := cmp.Or(exit.PeakBytes, used.peak)
	switch {
	case used.kills > 0 || used.machineKills > 0 && sig == syscall.SIGKILL:
		if sig != syscall.SIGKILL {
			how = "a process was killed by "
		}
		text, peak := "out of memory: "+how+"SIGKILL", max(used.peak, exit.PeakBytes)
		switch {
		case used.limit > 0 && peak >= used.limit/10*9:
			text += " at its limit of " + size(used.limit)
		case peak > 0:
			text += " at " + size(peak)
		}
		if next := nextMemory(max(peak, used.limit, used.machine)); next > 0 {
			text += fmt.Sprintf("; write memory: %d+ in its resources", next)
		}
		return text
	case name == "":
		return ""
	case sig == syscall.SIGKILL && peak > 0:
		return how + name + "; its peak memory was " + size(peak)
	default:
		return how + name
	}
}

// nextMemory returns the memory to request for a task that ran out at a number of bytes, in GiB: the next power of two
// that is at least a quarter more, because machines have a little less than their nominal memory. It returns 0 for 0.
func nextMemory(bytes int64) int {
	if bytes <= 0 {
		return 0
	}
	gib := 1.25 * float64(bytes) / (1 << 30)
	return 1 << max(int(math.Ceil(math.Log2(gib))), 0)
}

// size formats a number of bytes in GiB, or in MiB if it is less than one GiB.
func size(bytes int64) string {
	if bytes < 1<<30 {
		return strconv.FormatInt(bytes>>20, 10) + " MiB"
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
