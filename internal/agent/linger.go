package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// linger reports a failure at once. If the job requests it, linger then keeps the task's files, container and mounts
// for users to inspect, for the requested time or until a command arrives. It returns the report that is still to be
// sent.
func (t *attempt) linger(ctx context.Context, failed wire.Report) wire.Report {
	if failed.Event != wire.Failed || failed.Fault != "" || t.work.KeepOnFailure <= 0 {
		return failed
	}
	failed.Keep = t.work.KeepOnFailure
	t.out.note(
		fmt.Sprintf("failed; files are kept for %v so that you can inspect them", failed.Keep.Round(time.Second)),
	)
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

// stay reports the success of a node at once if its scripts have left processes running, and keeps these until all
// nodes of the attempt have ended: a Ray worker, for example, serves the program of another node. It returns the report
// that is still to be sent.
func (t *attempt) stay(ctx context.Context, succeeded wire.Report) wire.Report {
	if len(t.left) == 0 {
		return succeeded
	}
	t.conclude(ctx, succeeded, t.out)
	<-t.unlessOrdered.Done()
	return wire.Report{}
}
