package proc

import (
	"fmt"
	"os"
	"syscall"
)

// Identity tells a process from every other that has or had its number: by when it was started, in ticks
// of this boot of the machine. It survives being written down.
type Identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
	Boot  string `json:"boot,omitempty"`
}

// Identify returns the identity of a process that runs now.
func Identify(pid int) (Identity, error) {
	start, err := startOf(pid)
	if err != nil {
		return Identity{}, fmt.Errorf("proc: identify %d: %w", pid, err)
	}
	boot, err := bootOf()
	if err != nil {
		return Identity{}, fmt.Errorf("proc: identify %d: %w", pid, err)
	}
	return Identity{PID: pid, Start: start, Boot: boot}, nil
}

// Alive says whether that very process still exists. A zombie does.
func (id Identity) Alive() bool {
	now, err := Identify(id.PID)
	return err == nil && now == id
}

// Signal sends sig to that very process, never to one that got its number later. It returns
// os.ErrProcessDone when it is gone.
func (id Identity) Signal(sig syscall.Signal) error {
	if id.PID <= 1 {
		return os.ErrProcessDone
	}
	// The handle names the process that has the number now (a pidfd on Linux); checking after taking
	// it leaves no moment in which the number could change hands.
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return os.ErrProcessDone
	}
	defer func() { _ = p.Release() }()
	if !id.Alive() {
		return os.ErrProcessDone
	}
	return p.Signal(sig)
}
