package cloudkit

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/tradewind-broker/tradewind/internal/flock"
	"github.com/tradewind-broker/tradewind/pkg/clock"
)

// lockPause is how often it is tried to take a lock that another process has.
const lockPause = 100 * time.Millisecond

// lock takes a file's lock, waiting for whoever has it, in this process or another: until ctx ends. What a process that
// dies had is free.
func lock(ctx context.Context, file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // in the state folder
	if err != nil {
		return nil, err
	}
	for {
		switch taken, err := flock.Try(f, flock.Exclusive); {
		case err != nil:
			return nil, errors.Join(err, f.Close())
		case taken:
			return func() { _ = f.Close() }, nil
		}
		if err := clock.Pause(ctx, lockPause); err != nil {
			return nil, errors.Join(err, f.Close())
		}
	}
}
