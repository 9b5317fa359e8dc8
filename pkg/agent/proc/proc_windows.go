package proc

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// Supported says whether tasks run on this system: the command line does alone, for brokers elsewhere.
func Supported() error { return ErrUnsupported }

// Detached keeps what a process's terminal sends to its foreground, such as Ctrl-C, from another that it starts.
func Detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// CloseOnExec keeps a handle from the processes that this one starts.
func CloseOnExec(fd uintptr) { syscall.CloseOnExec(syscall.Handle(fd)) }

// Reexec does nothing: there are no supervisors.
func Reexec() {}

// supervisor is never asked for: see Supported.
func supervisor(Spec, *os.File, *os.File) *exec.Cmd { return &exec.Cmd{Err: ErrUnsupported} }

// signalGroup does nothing: there are no groups to signal.
func signalGroup(int, syscall.Signal) {}

// startOf returns the time a process was started, in nanoseconds since 1970.
func startOf(pid int) (uint64, error) {
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid)) //nolint:gosec // a number of a process
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

// bootOf is empty: start times are of the calendar.
func bootOf() (string, error) { return "", nil }

// Sweep does nothing: the environment of other processes cannot be read.
func Sweep(string, string) int { return 0 }

// Shield does nothing: there is no such switch.
func Shield() {}
