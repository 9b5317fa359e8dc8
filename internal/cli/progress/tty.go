package progress

import (
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// tty is the terminal of a file.
type tty struct{ file *os.File }

func (t tty) fd() int { return int(t.file.Fd()) } //nolint:gosec // descriptors are small

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

func (t tty) size() (width, height int) {
	width, height, err := term.GetSize(t.fd())
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}
