//go:build unix

package onmachine

import (
	"os"
	"os/signal"
	"syscall"
)

// watchSize reports changes of the terminal's size on c.
func watchSize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }
