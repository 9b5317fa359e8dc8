//go:build unix

package onmachine

import (
	"os"
	"os/signal"
	"syscall"
)

// watchSize has changes of the terminal's size told.
func watchSize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }
