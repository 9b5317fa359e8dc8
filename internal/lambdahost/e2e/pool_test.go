package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// send sends a body, checks the status, and reads the response into out.
func (w *world) send(ctx context.Context, method, path, authorization string, in any, status int, out any) {
	w.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		w.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, method, w.api.URL+path, bytes.NewReader(body))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != status {
		w.Fatalf("%s %s: %s, want %d: %s %v\n%s", method, path, res.Status, status, text, err, w.log.String())
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			w.Fatalf("%v in %s", err, text)
		}
	}
}

// TestPoolMachineRunsTasks covers pools in the control plane on Lambda: the machine calls the paths of agents in the
// API, without IAM, and its task needs no EC2 machine.
func TestPoolMachineRunsTasks(t *testing.T) {
	if testing.Short() {
		t.Skip("starts emulators")
	}
	w := deploy(t)
	ctx, cancel := context.WithTimeout(t.Context(), hangs)
	defer cancel()
	defer w.agents.Wait()
	defer cancel()
	w.send(ctx, http.MethodPut, "/v1/pools/lab", signed, map[string]any{"place": "aws:us-east-1"}, http.StatusOK, nil)
	w.send(ctx, http.MethodPut, "/v1/pools/lab", "", map[string]any{}, http.StatusUnauthorized, nil)
	var invitation, own apitypes.PoolToken
	w.send(ctx, http.MethodPost, "/v1/pools/lab/token", signed, nil, http.StatusOK, &invitation)
	w.send(ctx, http.MethodPost, wire.PathPoolJoin("lab", "m1"), signed, struct{}{}, http.StatusUnauthorized, nil)
	w.send(ctx, http.MethodPost, wire.PathPoolJoin("lab", "m1"), "Bearer "+invitation.Token, struct{}{}, http.StatusOK, &own)

	report := wire.PoolReport{Capacity: wire.PoolCapacity{CPUs: 4, MemoryGiB: 16}}
	sync := func() (o wire.PoolOrders) {
		w.send(ctx, http.MethodPost, wire.PathPoolSync("lab", "m1"), "Bearer "+own.Token, report, http.StatusOK, &o)
		return o
	}
	w.send(ctx, http.MethodPost, wire.PathPoolSync("lab", "m1"), "Bearer "+invitation.Token, report, http.StatusForbidden, nil)
	w.send(ctx, http.MethodPost, wire.PathPoolSync("lab", "m2"), "Bearer "+own.Token, report, http.StatusForbidden, nil)
	if o := sync(); len(o.Agents) > 0 || o.After < time.Second {
		t.Errorf("with nothing to do: %+v", o)
	}
	w.drop(ctx, events.FnSubmit, w.created("17793124-05d4-b198-2fde-7ededc63b104", "chain.yaml", chain))
	job := w.untilPoolIsDone(ctx, sync, &report)
	if job.State != apitypes.JobSucceeded || len(job.Attempts) != 2 || job.SpentUSD != 0 {
		t.Fatalf("%+v\n%s", job, w.log.String())
	}
	for _, a := range job.Attempts {
		if a.Offer.Cloud != apitypes.PoolCloud || len(a.Hosts) != 1 || a.Hosts[0] != "m1" {
			t.Errorf("it ran on %+v", a)
		}
	}
	if bought := w.instances(ctx); len(bought) > 0 {
		t.Errorf("%d machines were bought", len(bought))
	}
	w.secrets(ctx)
}

// untilPoolIsDone simulates Lambda and the machine until the only job has finished.
func (w *world) untilPoolIsDone(ctx context.Context, sync func() wire.PoolOrders, report *wire.PoolReport) (job apitypes.JobDetail) {
	w.Helper()
	for ctx.Err() == nil {
		w.round(ctx)
		orders := sync().Agents
		var running []wire.PoolAgent
		for _, o := range orders {
			running = append(running, o.PoolAgent)
			if o.Token != "" {
				w.machine(ctx, "", o.Token)
			}
		}
		report.Running = running
		var jobs struct{ Jobs []apitypes.JobView }
		w.get(ctx, "/v1/jobs", &jobs)
		if len(jobs.Jobs) > 0 && jobs.Jobs[0].State.Finished() {
			w.quiet(ctx)
			w.get(ctx, "/v1/jobs/"+jobs.Jobs[0].ID, &job)
			return job
		}
	}
	w.Fatalf("the job did not end\n%s", w.log.String())
	return job
}
