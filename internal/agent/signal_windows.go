package agent

import "syscall"

// signalName returns "": tasks do not run on Windows.
func signalName(syscall.Signal) string { return "" }
