package host

import (
	"context"
	"os"

	"github.com/tradewind-broker/tradewind/internal/agent/container"
	"github.com/tradewind-broker/tradewind/internal/agent/mount"
	"github.com/tradewind-broker/tradewind/internal/broker/inputs"
)

// here is this computer where all tasks run on it, and nil where some run on machines that are bought.
func (h *Host) here() inputs.Machine {
	if len(h.bought.clouds) > 0 {
		return nil
	}
	return Computer{}
}

// Computer is the machine that this process runs on.
type Computer struct{}

// Mounts fails with mount.ErrNoFUSE or mount.ErrNoProgram where no task could mount anything.
func (Computer) Mounts(ctx context.Context) error {
	if err := mount.CheckFUSE(); err != nil {
		return err
	}
	_, err := mount.Find(ctx, os.Environ())
	return err
}

// Containers fails with container.ErrNoEngine where no task could run in an image.
func (Computer) Containers(ctx context.Context) error {
	_, err := container.Find(ctx, os.Environ())
	return err
}
