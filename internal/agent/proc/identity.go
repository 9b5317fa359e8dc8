package proc

import (
	"fmt"
	"os"
	"syscall"
)

// Identity distinguishes a process from every other that has or had the same PID: by its start time, in clock ticks
// of this boot of the machine. It can be stored in a file.
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

// Alive reports whether this process still exists. A zombie exists.
func (id Identity) Alive() bool {
	now, err := Identify(id.PID)
	return err == nil && now == id
}

// Signal sends sig to this process, never to a later one with the same PID. It returns os.ErrProcessDone if the
// process has ended.
func (id Identity) Signal(sig syscall.Signal) error {
	if id.PID <= 1 {
		return os.ErrProcessDone
	}
	// The handle refers to the process that has the PID now (a pidfd on Linux). Because the check comes after taking
	// the handle, the PID cannot change in between.
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
