package proc

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// Supported returns ErrUnsupported: on Windows only the command line runs, for brokers elsewhere.
func Supported() error { return ErrUnsupported }

// Detached returns the attributes of a child process that does not get the terminal's signals, such as Ctrl-C.
func Detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// CloseOnExec prevents child processes from inheriting a handle.
func CloseOnExec(fd uintptr) { syscall.CloseOnExec(syscall.Handle(fd)) }

// Reexec does nothing: there are no supervisors.
func Reexec() {}

// supervisor is never called: see Supported.
func supervisor(Spec, *os.File, *os.File) *exec.Cmd { return &exec.Cmd{Err: ErrUnsupported} }

// signalGroup does nothing: Windows has no process groups to signal.
func signalGroup(int, syscall.Signal) {}

// startOf returns the start time of a process, in nanoseconds since 1970.
func startOf(pid int) (uint64, error) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid)) //nolint:gosec // a PID
	if err != nil {
		return 0, err
	}
	defer windows.CloseHandle(h) //nolint:errcheck // only read
	var created, exited, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(h, &created, &exited, &kernel, &user); err != nil {
		return 0, err
	}
	return uint64(created.Nanoseconds()), nil //nolint:gosec // times after 1970 are positive
}

// bootOf returns an empty string: start times are calendar times.
func bootOf() (string, error) { return "", nil }

// Sweep does nothing: the environment of other processes cannot be read.
func Sweep(string, string) int { return 0 }

// Shield does nothing: Windows has no such setting.
func Shield() {}
