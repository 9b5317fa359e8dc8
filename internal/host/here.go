package host

import (
	"context"
	"os"

	"github.com/tradewind-broker/tradewind/internal/agent/container"
	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/broker/inputs"
)

// localMachine returns this computer if all tasks run on it, and nil if some run on bought machines.
func (h *Host) localMachine() inputs.Machine {
	if len(h.bought.clouds) > 0 {
		return nil
	}
	return Computer{}
}

// Computer is the machine on which this process runs.
type Computer struct{}

// Mounts returns mount.ErrNoFUSE or mount.ErrNoProgram if tasks cannot mount anything here.
func (Computer) Mounts(ctx context.Context) error {
	if err := mount.CheckFUSE(); err != nil {
		return err
	}
	_, err := mount.Find(ctx, os.Environ())
	return err
}

// Containers returns container.ErrNoEngine if tasks cannot run in an image here.
func (Computer) Containers(ctx context.Context) error {
	_, err := container.Find(ctx, os.Environ())
	return err
}
