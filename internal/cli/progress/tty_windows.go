package progress

import (
	"os"

	"golang.org/x/sys/windows"
)

// foreground is always true: consoles have no process groups.
func (t tty) foreground() bool { return true }

// quiet only changes the echo: Ctrl-C remains a signal.
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
	_ = windows.SetConsoleMode(in, mode) // if it fails, typed text appears until the next picture
	var out uint32
	if h := windows.Handle(t.file.Fd()); on && windows.GetConsoleMode(h, &out) == nil {
		_ = windows.SetConsoleMode(
			h,
			out|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING,
		) // makes the console interpret escape codes
	}
}

// watchSuspend does nothing: Windows does not report Ctrl-Z.
func watchSuspend(chan<- os.Signal) {}

func suspend() {}
