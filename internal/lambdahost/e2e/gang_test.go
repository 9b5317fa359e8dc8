package e2e_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/gangtest"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/skytest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestGangOfThousandIsAtomic buys the 1,000 machines of one gang on the emulated AWS. Each says hello with a proof of
// its identity. The test reads the gang after every commit of every function.
func TestGangOfThousandIsAtomic(t *testing.T) {
	if testing.Short() || !skytest.Long() {
		t.Skip("the emulated EC2 takes half a minute for each list of so many machines: TRADEWIND_LONG=1")
	}
	seen := &gangtest.Observations{}
	w := deployWith(t, nil, nil, func(s *lambdahost.Sandbox) {
		s.Store = gangtest.WatchedStore{Observations: seen, Store: s.Store}
	})
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	job := w.submit(ctx, gangtest.File)
	gang := w.untilLaunched(ctx, gangtest.Machines)
	chief, workers := gang[record.ClusterID(job, 0, 1)], gang[record.ClusterID(job, 1, 1)]
	if len(chief) != 1 || len(workers) != gangtest.Machines-1 {
		t.Fatalf("%d chiefs and %d workers\n%s", len(chief), len(workers), w.log.String())
	}
	for _, i := range workers {
		w.hello(ctx, i)
	}
	session := w.hello(ctx, chief[0])
	w.quiet(ctx)
	for _, e := range []wire.Event{wire.Started, wire.Succeeded} {
		w.report(ctx, session, wire.Report{ID: string(e), Attempt: record.ClusterID(job, 0, 1), Event: e})
	}
	var ended apitypes.JobDetail
	for !ended.State.Finished() && ctx.Err() == nil { // the emulated EC2 needs a long time for such a list
		w.round(ctx)
		w.get(ctx, "/v1/jobs/"+job, &ended)
	}
	if ended.State != apitypes.JobSucceeded {
		t.Errorf("%+v\n%s", ended, w.log.String())
	}
	w.quiet(ctx)
	seen.Check(t)
	if left := w.instances(ctx); len(left) > 0 {
		t.Errorf("%d machines are left", len(left))
	}
}

// report sends a machine's report on its attempt.
func (w *world) report(ctx context.Context, session string, r wire.Report) {
	w.Helper()
	if status, body := w.post(ctx, wire.PathReport, session, r); status >= http.StatusMultipleChoices {
		w.Fatalf("%s: %d %s", r.Event, status, body)
	}
}
