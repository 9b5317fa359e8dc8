package container

import (
	"context"
	"strconv"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/cgroup"
)

// memoryScript prints the counters of the box's control group, as the box sees it, in cgroup v2 or v1. It needs only a
// shell.
const memoryScript = `show() { while read -r line; do echo "$2$line"; done <"$1"; } 2>/dev/null
show /sys/fs/cgroup/memory.events
show /sys/fs/cgroup/memory/memory.oom_control
show /sys/fs/cgroup/memory.peak "peak "
show /sys/fs/cgroup/memory/memory.max_usage_in_bytes "peak "
exit 0`

// Memory returns the number of processes of the box that the kernel has killed for lack of memory, and the box's peak
// memory, in bytes. Both are 0 if they are unknown.
func (b *Box) Memory() (oomKills, peak int64) {
	ctx, cancel := context.WithTimeout(context.Background(), answersWithin)
	defer cancel()
	counted := false
	if out, err := b.engine.output(ctx, "exec", b.name, "/bin/sh", "-c", memoryScript); err == nil {
		oomKills, counted = cgroup.Counter(out, "oom_kill")
		peak, _ = cgroup.Counter(out, "peak")
	}
	if !counted {
		out, err := b.engine.output(ctx, "inspect", "--format", "{{.State.OOMKilled}}", b.name)
		if killed, bad := strconv.ParseBool(strings.TrimSpace(out)); err == nil && bad == nil && killed {
			oomKills = 1
		}
	}
	return oomKills, peak
}
