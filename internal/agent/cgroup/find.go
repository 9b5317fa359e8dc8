package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Find returns the group below which this process can create groups. It creates the folder for them if it is missing.
// It fails with ErrUnavailable.
func Find() (*Parent, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("%w: this system has none: %w", ErrUnavailable, err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("%w: this system has none: %w", ErrUnavailable, err)
	}
	return find(string(mounts), string(own))
}

// find is Find with the contents of /proc/self/mountinfo and /proc/self/cgroup.
func find(mounts, own string) (*Parent, error) {
	if h, ok := v1(mounts, own, "memory"); ok {
		dir, err := h.makeFolder()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		p := &Parent{memory: dir}
		if h, ok := v1(mounts, own, "cpu"); ok {
			p.cpu, _ = h.makeFolder() // without it, only the weight is missing
		}
		return p, nil
	}
	h, ok := v2(mounts, own)
	if !ok {
		return nil, fmt.Errorf("%w: the memory controller is not mounted", ErrUnavailable)
	}
	return h.delegated()
}

// hierarchy is a mounted cgroup file system.
type hierarchy struct {
	mount string // its mount point
	own   string // the directory of this process's group; the mount point if that is not visible
}

// makeFolder creates the folder for groups below this process's group.
func (h hierarchy) makeFolder() (string, error) {
	dir := filepath.Join(h.own, folder)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as the kernel's own
		return "", err
	}
	return dir, checkWritable(dir)
}

// checkWritable returns an error if no group can be created in a directory.
func checkWritable(dir string) error {
	probe, err := os.MkdirTemp(dir, "probe-")
	if err != nil {
		return err
	}
	return os.Remove(probe)
}

// delegated returns the first group of v2 below which groups with a memory limit can be created. A group with
// processes cannot limit groups below it, unless it is the root of all. So this process's own group serves only in
// the root, and otherwise its parent, which is the delegated one if the service manager puts the processes into a
// subgroup (systemd.resource-control(5), DelegateSubgroup=).
func (h hierarchy) delegated() (*Parent, error) {
	candidates := []string{h.own}
	if h.own != h.mount {
		candidates = append(candidates, filepath.Dir(h.own), h.mount)
	}
	var why error
	for _, dir := range slices.Compact(candidates) {
		p, err := handOut(dir)
		if err == nil {
			return p, nil
		}
		why = errors.Join(why, err)
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, why)
}

// handOut creates the folder for groups in a directory of v2 and makes the controllers available there.
func handOut(dir string) (*Parent, error) {
	if err := enable(dir, "memory"); err != nil {
		return nil, err
	}
	_ = enable(dir, "cpu") // without it, only the weight is missing
	at := filepath.Join(dir, folder)
	if err := os.MkdirAll(at, 0o755); err != nil { //nolint:gosec // as the kernel's own
		return nil, err
	}
	if err := enable(at, "memory"); err != nil {
		return nil, err
	}
	p := &Parent{v2: true, memory: at}
	if enable(at, "cpu") == nil {
		p.cpu = at
	}
	return p, checkWritable(at)
}

// enable makes a controller available to the groups below a directory of v2.
func enable(dir, controller string) error {
	file := filepath.Join(dir, "cgroup.subtree_control")
	enabled, err := os.ReadFile(file) //nolint:gosec // of the kernel
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(string(enabled)), controller) {
		return nil
	}
	return os.WriteFile(file, []byte("+"+controller), 0o600)
}

// v1 finds the hierarchy of a controller of cgroup v1.
func v1(mounts, own, controller string) (h hierarchy, ok bool) {
	return findMount(mounts, ownPath(own, func(controllers []string) bool {
		return slices.Contains(controllers, controller)
	}), func(m mounted) bool { return m.kind == "cgroup" && slices.Contains(m.options, controller) })
}

// v2 finds the hierarchy of cgroup v2.
func v2(mounts, own string) (h hierarchy, ok bool) {
	return findMount(mounts, ownPath(own, func(controllers []string) bool { return controllers[0] == "" }),
		func(m mounted) bool { return m.kind == "cgroup2" })
}

// ownPath returns the path of this process's group in the first hierarchy with suitable controllers. It reads
// /proc/self/cgroup: lines of ID:CONTROLLERS:PATH (cgroups(7)).
func ownPath(own string, suits func(controllers []string) bool) string {
	for line := range strings.Lines(own) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && suits(strings.Split(f[1], ",")) {
			return f[2]
		}
	}
	return "/"
}

// mounted is a line of /proc/self/mountinfo (proc_pid_mountinfo(5)).
type mounted struct {
	root, point, kind string
	options           []string // of the file system
}

// findMount returns the first suitable mount, and the directory of the group with a path.
func findMount(mounts, path string, suits func(mounted) bool) (h hierarchy, ok bool) {
	lines := bufio.NewScanner(strings.NewReader(mounts))
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(g) < 3 {
			continue
		}
		m := mounted{root: f[3], point: f[4], kind: g[0], options: strings.Split(g[2], ",")}
		if !suits(m) {
			continue
		}
		h = hierarchy{mount: m.point, own: m.point}
		// In a container the mount may show only the container's group, or paths that do not exist there.
		inside, below := strings.CutPrefix(path, strings.TrimSuffix(m.root, "/"))
		if dir := filepath.Join(m.point, inside); below && isDir(dir) {
			h.own = dir
		}
		return h, true
	}
	return hierarchy{}, false
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
