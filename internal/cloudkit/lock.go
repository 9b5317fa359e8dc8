package cloudkit

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/base/files"
)

// lockPause is the time between attempts to take a lock that another process holds.
const lockPause = 100 * time.Millisecond

// lock takes a file's lock and waits, until ctx ends, while this or another process holds it. The lock of a process
// that dies becomes free.
func lock(ctx context.Context, file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // in the state folder
	if err != nil {
		return nil, err
	}
	for {
		switch taken, err := files.Try(f, files.Exclusive); {
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
