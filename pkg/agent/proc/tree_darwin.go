package proc

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is this program.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return os.Args[0]
	}
	return path
}

// adoptOrphans does nothing: there are no subreapers.
func adoptOrphans() {}

// taskAttr puts the task into a session and group of its own.
func taskAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// treeLeft says whether the group has any process.
func treeLeft(group int) bool {
	return !errors.Is(syscall.Kill(-group, 0), syscall.ESRCH)
}

func signalTree(group int, sig syscall.Signal) { _ = syscall.Kill(-group, sig) }

// startOf returns the time a process was started, in microseconds since 1970.
func startOf(pid int) (uint64, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, err
	}
	at := info.Proc.P_starttime
	return uint64(at.Sec)*1e6 + uint64(at.Usec), nil //nolint:gosec // times after 1970 are positive
}

// bootOf is empty: start times are of the calendar.
func bootOf() (string, error) { return "", nil }

// Sweep does nothing: the environment of other processes cannot be read.
func Sweep(string, string) int { return 0 }

// Shield does nothing: there is no such switch.
func Shield() {}
