package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// ErrUnavailable means that this process cannot create control groups with a memory limit. The error's text contains
// the reason.
var ErrUnavailable = errors.New("no control groups for tasks")

// folder is the group below which the groups of tasks are created.
const folder = "tradewind"

// Parent is the group below which the groups of tasks are created.
type Parent struct {
	v2     bool
	memory string // directory in the hierarchy of the memory controller; in v2, of all controllers
	cpu    string // the same for the CPU controller; empty if there is none
}

// Limits are the limits of a group. A zero value means no limit.
type Limits struct {
	MemoryBytes int64
	// CPUs is the group's share of the CPU in relation to other groups, in vCPUs. It matters only while the CPU is
	// busy.
	CPUs float64
}

// Group is the control group of one task.
type Group struct {
	parent *Parent
	name   string
	limit  int64
}

// Create creates a group. The name must be unique on the computer and without slashes. Groups of processes that have
// ended, which Remove has not removed, are removed.
func (p *Parent) Create(name string, l Limits) (*Group, error) {
	p.sweep()
	g := &Group{parent: p, name: strconv.Itoa(os.Getpid()) + "-" + name, limit: l.MemoryBytes}
	for _, dir := range g.Dirs() {
		if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // as the kernel's own
			_ = g.Remove()
			return nil, fmt.Errorf("control group: %w", err)
		}
	}
	if err := g.setLimits(l); err != nil {
		_ = g.Remove()
		return nil, fmt.Errorf("control group: %w", err)
	}
	return g, nil
}

// setLimits writes the limits. Only the memory limit is essential.
func (g *Group) setLimits(l Limits) error {
	if l.CPUs > 0 && g.parent.cpu != "" {
		file, value := weightFile(g.parent.v2, l.CPUs)
		_ = os.WriteFile(filepath.Join(g.parent.cpu, g.name, file), []byte(value), 0o600)
	}
	if l.MemoryBytes <= 0 {
		return nil
	}
	limit := []byte(strconv.FormatInt(l.MemoryBytes, 10))
	if g.parent.v2 {
		_ = os.WriteFile(g.file("memory.swap.max"), []byte("0"), 0o600) // missing without swap
		return os.WriteFile(g.file("memory.max"), limit, 0o600)
	}
	if err := os.WriteFile(g.file("memory.limit_in_bytes"), limit, 0o600); err != nil {
		return err
	}
	_ = os.WriteFile(g.file("memory.memsw.limit_in_bytes"), limit, 0o600) // missing if the kernel does not count swap
	return nil
}

// weightFile returns the name and the content of the file that sets a share of the CPU in vCPUs. In both versions,
// one vCPU has the default weight of a group.
func weightFile(v2 bool, cpus float64) (file, value string) {
	if v2 {
		return "cpu.weight", strconv.Itoa(int(math.Min(math.Max(100*cpus, 1), 10_000)))
	}
	return "cpu.shares", strconv.Itoa(int(math.Min(math.Max(1024*cpus, 2), 262_144)))
}

// join is a script that moves the shell into the groups whose cgroup.procs files are its first arguments, and then
// becomes the program. A task that cannot join a group still runs: its log says that it is not limited.
const join = `n=$1; shift
while [ "$n" -gt 0 ]; do
  { echo $$ >"$1"; } 2>/dev/null || echo "tradewind: cannot join $1: this process is not limited" >&2
  shift; n=$((n-1))
done
exec "$@"`

// Command returns the command that runs argv and all its children in the group. The command joins the group before
// argv starts, in its own process, so no process of argv is ever outside.
func (g *Group) Command(argv []string) []string {
	dirs := g.Dirs()
	out := []string{"/bin/sh", "-c", join, "sh", strconv.Itoa(len(dirs))}
	for _, dir := range dirs {
		out = append(out, filepath.Join(dir, "cgroup.procs"))
	}
	return append(out, argv...)
}

// Limit returns the group's memory limit in bytes; 0 means none.
func (g *Group) Limit() int64 { return g.limit }

// OOMKills returns how many processes of the group the kernel has killed for lack of memory.
func (g *Group) OOMKills() int64 {
	if g.parent.v2 {
		return counter(g.file("memory.events"), "oom_kill")
	}
	return counter(g.file("memory.oom_control"), "oom_kill")
}

// Peak returns the most memory that the group has used at once, in bytes; 0 if the kernel does not report it. It
// includes cached files.
func (g *Group) Peak() int64 {
	if g.parent.v2 {
		return number(g.file("memory.peak")) // since Linux 5.19
	}
	return number(g.file("memory.max_usage_in_bytes"))
}

// removeWithin limits how long Remove waits for killed processes.
const removeWithin = 2 * time.Second

// Remove kills the group's remaining processes and removes it.
func (g *Group) Remove() error {
	until := time.Now().Add(removeWithin)
	for _, dir := range g.Dirs() {
		for {
			err := os.Remove(dir) // fails while a process of the group exists
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				break
			}
			if time.Now().After(until) {
				return fmt.Errorf("control group: %w", err)
			}
			killAll(filepath.Join(dir, "cgroup.procs"))
			time.Sleep(5 * time.Millisecond)
		}
	}
	return nil
}

func (g *Group) file(name string) string { return filepath.Join(g.parent.memory, g.name, name) }

// Dirs returns the directories of the group: one in each hierarchy.
func (g *Group) Dirs() []string {
	dirs := []string{filepath.Join(g.parent.memory, g.name)}
	if g.parent.cpu != "" && g.parent.cpu != g.parent.memory {
		dirs = append(dirs, filepath.Join(g.parent.cpu, g.name))
	}
	return dirs
}

// sweep removes empty groups of agents that have ended. An agent that was killed leaves them.
func (p *Parent) sweep() {
	for _, parent := range []string{p.memory, p.cpu} {
		entries, err := os.ReadDir(parent)
		if parent == "" || err != nil {
			continue
		}
		for _, e := range entries {
			owner, _, _ := strings.Cut(e.Name(), "-")
			if _, err := strconv.Atoi(owner); err != nil || !e.IsDir() {
				continue
			}
			if _, err := os.Stat("/proc/" + owner); errors.Is(err, fs.ErrNotExist) {
				_ = os.Remove(filepath.Join(parent, e.Name()))
			}
		}
	}
}

// killAll kills the processes that a cgroup.procs file lists.
func killAll(list string) {
	body, err := os.ReadFile(list) //nolint:gosec // the package's own group
	if err != nil {
		return
	}
	for _, field := range strings.Fields(string(body)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
				_ = p.Release()
			}
		}
	}
}

// MachineOOMKills returns how many processes the kernel of this computer has killed for lack of memory, in any group;
// ok is false if the kernel does not report it.
func MachineOOMKills() (kills int64, ok bool) {
	body, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0, false
	}
	return Counter(string(body), "oom_kill")
}

// Counter returns the value of a key in lines of the form "KEY VALUE", as in memory.events, memory.oom_control and
// /proc/vmstat.
func Counter(lines, key string) (value int64, ok bool) {
	for line := range strings.Lines(lines) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == key {
			n, err := strconv.ParseInt(f[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

func counter(file, key string) int64 {
	body, err := os.ReadFile(file) //nolint:gosec // the package's own group
	if err != nil {
		return 0
	}
	n, _ := Counter(string(body), key)
	return n
}

func number(file string) int64 {
	body, err := os.ReadFile(file) //nolint:gosec // the package's own group
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(body)), 10, 64)
	return n
}
