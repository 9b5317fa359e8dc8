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

// quiet leaves everything but the echo as it is: Ctrl-C goes on being a signal.
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
	_ = unix.IoctlSetTermios(t.fd(), setTermios, mode) // then what is typed shows up in the picture until the next one
}

// watchSuspend has Ctrl-Z told.
func watchSuspend(c chan<- os.Signal) { signal.Notify(c, syscall.SIGTSTP) }

// suspend stops this process until it is told to go on.
func suspend() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) } // a process may stop itself
