package progress

import (
	"os"

	"golang.org/x/sys/windows"
)

// foreground is always so: a console has no groups of processes that take turns.
func (t tty) foreground() bool { return true }

// quiet leaves everything but the echo as it is: Ctrl-C goes on being a signal.
func (t tty) quiet(on bool) {
	in := windows.Handle(os.Stdin.Fd())
	var mode uint32
	if windows.GetConsoleMode(in, &mode) != nil {
		return
	}
	if on {
		mode &^= windows.ENABLE_ECHO_INPUT
	} else {
		mode |= windows.ENABLE_ECHO_INPUT
	}
	_ = windows.SetConsoleMode(in, mode) // then what is typed shows up in the picture until the next one
	var out uint32
	if h := windows.Handle(t.file.Fd()); on && windows.GetConsoleMode(h, &out) == nil {
		_ = windows.SetConsoleMode(h, out|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) // else the picture's codes are text
	}
}

// watchSuspend has Ctrl-Z told: here nothing tells it.
func watchSuspend(chan<- os.Signal) {}

func suspend() {}
