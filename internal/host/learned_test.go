package host_test

import (
	"math"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/history"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// TestPlansWithLearnedRunTimes: a task without a run time in its file is planned with one hour, and after a run with
// the measured time. A failed run must have no effect.
func TestPlansWithLearnedRunTimes(t *testing.T) {
	h, _ := serve(t, host.Options{State: t.TempDir()})
	job := func(last string) *dag.Job {
		spec, err := read.Job("job.yaml", strings.NewReader(`apiVersion: tradewind/v1
name: nightly
defaults: {resources: {instanceType: m5.xlarge}}
tasks:
  fetch: {run: "true"}
  stated: {run: "true", time: 2h}
  report: {run: "`+last+`", after: [fetch, stated]}
`))
		if err != nil {
			t.Fatal(err)
		}
		return spec
	}
	figures := func() (all []apitypes.Figure) {
		spec := job("true")
		p, err := h.Broker().Users.DryRun(t.Context(), spec)
		if err != nil || p.Status == record.PlanInfeasible {
			t.Fatal(p, err)
		}
		for i := range spec.Tasks {
			all = append(all, history.FigureOf(&spec.Tasks[i], p.Of(i).Offer))
		}
		return all
	}
	// Without any history, the time is one hour on m6i.xlarge, half of the time in the file for the other task.
	if f := figures(); f[0].From != apitypes.FromNothing || math.Abs(f[0].Hours-f[1].Hours/2) > 1e-9 || f[1].From != apitypes.FromFile {
		t.Fatalf("before any ran: %+v", f)
	}
	run := func(last string, want apitypes.JobState) {
		t.Helper()
		j, err := h.Broker().Users.Submit(t.Context(), broker.Submission{Spec: job(last)})
		if err != nil {
			t.Fatal(err)
		}
		if d := await(t, h.Broker(), j.ID); d.State != want {
			t.Fatalf("%s: %s", d.State, d.Reason)
		}
	}
	run("false", apitypes.JobFailed)
	f := figures()
	if f[0].From != apitypes.FromHistory || f[0].Runs != 1 || f[0].Hours > 0.5 {
		t.Errorf("fetch: %+v", f[0])
	}
	if f[1].From != apitypes.FromFile || f[1].MeasuredHours != 2 || f[1].Runs != 1 || f[1].HighHours > 1 {
		t.Errorf("stated: %+v", f[1])
	}
	if f[2].From != apitypes.FromNothing || f[2].Runs != 0 {
		t.Errorf("report: %+v", f[2])
	}
	run("true", apitypes.JobSucceeded)
	if f := figures(); f[0].Runs != 2 || f[2].From != apitypes.FromHistory {
		t.Errorf("after two: %+v", f)
	}
	known, err := h.Broker().Views.Learned(t.Context(), "nightly")
	if err != nil || known.Job != "nightly" || len(known.Tasks) != 3 {
		t.Errorf("%+v, %v", known, err)
	}
}
