//go:build unix

package agent

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// signalName returns the name of a signal, such as SIGKILL; "" if there is none with that number.
func signalName(sig syscall.Signal) string { return unix.SignalName(sig) }
