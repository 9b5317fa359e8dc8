package proc

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxrssUnit is the unit of ru_maxrss in bytes.
const maxrssUnit = 1

// self returns the path of this program.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// adoptOrphans does nothing: macOS has no subreapers.
func adoptOrphans() {}

// taskAttr starts the task in its own session and process group.
func taskAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// treeLeft reports whether the group has any process.
func treeLeft(group int) bool {
	return !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH)
}

func signalTree(group int, sig syscall.Signal) { _ = syscall.Kill(-group, sig) }

// startOf returns the start time of a process, in microseconds since 1970.
func startOf(pid int) (uint64, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, err
	}
	at := info.Proc.P_starttime
	return uint64(at.Sec)*1e6 + uint64(at.Usec), nil //nolint:gosec // times after 1970 are positive
}

// bootOf returns an empty string: start times are calendar times.
func bootOf() (string, error) { return "", nil }

// Sweep does nothing: the environment of other processes cannot be read.
func Sweep(string, string) int { return 0 }

// Shield does nothing: macOS has no such setting.
func Shield() {}

// isolatedTask returns ErrNotIsolated: this system has no mount namespaces.
func isolatedTask(order, *syscall.SysProcAttr, func() (int, error)) (int, error) {
	return 0, ErrNotIsolated
}
