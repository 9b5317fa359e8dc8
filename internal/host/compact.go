package host

import (
	"context"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

// The file of records is rewritten if more than half of it, and more than this number of bytes, is unused.
const compactAbove = 64 << 20

// compactEvery is the interval at which a broker checks that, in wall time.
const compactEvery = time.Hour

// compact shrinks the file of records if much of it is unused, and logs the sizes. A failure leaves the file as it is.
func (h *Host) compact(ctx context.Context) {
	sizes, err := h.file.Compact(ctx, compactAbove)
	switch {
	case err != nil && ctx.Err() == nil:
		h.log.Warn("the file of records could not be compacted", "err", err)
	case sizes.Before > 0:
		h.log.Info("the file of records was compacted", "bytesBefore", sizes.Before, "bytesAfter", sizes.After)
	}
}

// compacts compacts the file of records from time to time.
func (h *Host) compacts(ctx context.Context) {
	for clock.Pause(ctx, compactEvery) == nil {
		h.guard.replacing(func() { h.compact(ctx) })
	}
}
