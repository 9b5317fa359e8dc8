package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
)

// linger reports a failure at once, and then keeps what the task has left, its container and its mounts, for people who
// visit: for as long as the job says, or until an order comes. It returns what is left to report.
func (t *attempt) linger(ctx context.Context, failed wire.Report) wire.Report {
	if failed.Event != wire.Failed || t.work.KeepOnFailure <= 0 {
		return failed
	}
	failed.Keep = t.work.KeepOnFailure
	t.out.note(fmt.Sprintf("failed; kept for %v to be looked at", failed.Keep.Round(time.Second)))
	t.conclude(ctx, failed, t.out)
	t.kept = true
	over := time.NewTimer(failed.Keep)
	defer over.Stop()
	select {
	case <-over.C:
	case <-t.unlessOrdered.Done():
	}
	return wire.Report{Event: wire.Stopped}
}
