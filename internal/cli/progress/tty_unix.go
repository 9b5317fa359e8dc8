//go:build unix

package progress

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

func (t tty) foreground() bool {
	group, err := unix.IoctlGetInt(t.fd(), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// quiet only changes the echo: Ctrl-C remains a signal.
func (t tty) quiet(on bool) {
	mode, err := unix.IoctlGetTermios(t.fd(), getTermios)
	if err != nil {
		return
	}
	const echo = unix.ECHO | unix.ECHONL
	if on {
		mode.Lflag &^= echo
	} else {
		mode.Lflag |= unix.ECHO
	}
	_ = unix.IoctlSetTermios(t.fd(), setTermios, mode) // if it fails, typed text appears until the next picture
}

// watchSuspend reports Ctrl-Z on c.
func watchSuspend(c chan<- os.Signal) { signal.Notify(c, syscall.SIGTSTP) }

// suspend stops this process until it is continued.
func suspend() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) } // a process may stop itself
