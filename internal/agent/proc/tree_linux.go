package proc

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxrssUnit is the unit of ru_maxrss in bytes.
const maxrssUnit = 1 << 10

// self returns a path of this program that is valid even after its file was replaced.
func self() string { return "/proc/self/exe" }

// adoptOrphans makes this process the parent of every orphan among its descendants.
func adoptOrphans() {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// taskAttr starts the task in its own session and process group, and kills it if its supervisor is killed.
func taskAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

// treeLeft reports whether this process has any child, including adopted ones and zombies.
func treeLeft(int) bool {
	for {
		err := unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return !errors.Is(err, unix.ECHILD)
		}
	}
}

// signalTree sends sig to every descendant of this process. While the task's group has any process, it signals the
// whole group at once, so that none escapes by forking (and the group's ID cannot belong to another group). Processes
// outside the group are signalled one by one.
//
// Programs in their own sessions are signalled first, so that their parent (torchrun for its workers) still waits for
// them when it gets its own signal. Other groups of the task's session come last: they are jobs of a shell. A shell
// that sees its job end before it has received the signal itself would start the next line of its script, which would
// then get no signal.
func signalTree(group int, sig syscall.Signal) {
	inGroup := false
	var jobs []process
	for _, p := range descendants(os.Getpid()) {
		switch {
		case p.group == group:
			inGroup = true
		case p.session == group:
			jobs = append(jobs, p)
		default:
			_ = syscall.Kill(p.pid, sig)
		}
	}
	if inGroup {
		_ = syscall.Kill(-group, sig)
	}
	for _, p := range jobs {
		_ = syscall.Kill(p.pid, sig)
	}
}

// process is the relevant content of /proc/PID/stat.
type process struct {
	pid, parent, group, session int
	start                       uint64 // clock ticks after boot
}

// descendants lists the processes below root, from one reading of /proc.
func descendants(root int) []process {
	children := map[int][]process{}
	for _, pid := range pids() {
		if p, err := readStat(pid); err == nil {
			children[p.parent] = append(children[p.parent], p)
		}
	}
	var below []process
	for next := []int{root}; len(next) > 0; next = next[1:] {
		for _, p := range children[next[0]] {
			below = append(below, p)
			next = append(next, p.pid)
		}
	}
	return below
}

// pids lists all PIDs.
func pids() []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close() //nolint:errcheck // only read
	names, _ := dir.Readdirnames(-1)
	var out []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			out = append(out, pid)
		}
	}
	return out
}

var errStat = errors.New("proc: unreadable stat")

// readStat reads /proc/PID/stat (proc_pid_stat(5)): fields 4 to 6 and 22. The name, field 2, may contain any
// character, so fields are counted from its closing bracket.
func readStat(pid int) (process, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, err
	}
	end := bytes.LastIndexByte(b, ')')
	if end < 0 {
		return process{}, errStat
	}
	fields := strings.Fields(string(b[end+1:])) // fields[0] is field 3
	if len(fields) < 20 {
		return process{}, errStat
	}
	p := process{pid: pid}
	var errs [4]error
	p.parent, errs[0] = strconv.Atoi(fields[1])
	p.group, errs[1] = strconv.Atoi(fields[2])
	p.session, errs[2] = strconv.Atoi(fields[3])
	p.start, errs[3] = strconv.ParseUint(fields[19], 10, 64)
	return p, errors.Join(errs[:]...)
}
