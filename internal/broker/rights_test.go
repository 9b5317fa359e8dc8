package broker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// onGoogle submits a task that only Google Cloud can run, which refuses every launch with a 403 while denied is set.
func onGoogle(t *testing.T) (w *bench, id string, denied *bool) {
	t.Helper()
	w, denied = newBench(t), new(bool)
	*denied = true
	w.cloud["gcp"].refuse = func(s cloud.LaunchSpec) error {
		if *denied {
			return cloud.Errorf(s.Offer.Cloud, cloud.Auth, "forbidden", "Required 'compute.instances.create' permission")
		}
		return nil
	}
	spec, err := read.Job("job.yaml", strings.NewReader(
		"apiVersion: tradewind/v1\nname: job\ntasks: {t: {run: x, resources: {cpus: 4, cloud: gcp}, time: 1h}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := w.b.Users.Submit(t.Context(), broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	w.settle()
	return w, job.ID, denied
}

func (w *bench) state(id string) apitypes.JobState {
	w.t.Helper()
	d, err := w.b.Views.JobDetail(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return d.State
}

// A new right takes 2 minutes to take effect on Google Cloud, potentially 7 or longer (IAM documentation, "Access change
// propagation"), and up to 30 on Azure. Until then every call gets a 403. The job waits, and the broker asks again in 2
// minutes and then in twice the time.
func TestJobWaitsWhileRightsPropagate(t *testing.T) {
	w, id, denied := onGoogle(t)
	for minute := range 15 {
		if s := w.state(id); minute < 7 && s != apitypes.JobWaiting {
			t.Fatalf("after %d minutes the job is %s", minute, s)
		} else if s == apitypes.JobRunning {
			t.Logf("it runs after %d minutes", minute)
			return
		}
		*denied = minute < 7
		w.now = w.now.Add(time.Minute)
		w.reconcile()
	}
	t.Errorf("after 15 minutes the job is %s", w.state(id))
}

// A right that is missing for longer than any propagation does not come by itself: the job fails, with the cloud's message.
func TestJobFailsWithoutRights(t *testing.T) {
	w, id, _ := onGoogle(t)
	for range 45 {
		w.now = w.now.Add(time.Minute)
		w.reconcile()
	}
	d, err := w.b.Views.JobDetail(t.Context(), id)
	if err != nil || d.State != apitypes.JobFailed {
		t.Errorf("after 45 minutes the job is %s: %s (%v)", d.State, d.Reason, err)
	}
}

// The user has fixed what was missing, and `cloud check` passes: the broker does not wait for the block to end.
func TestPassedCheckLiftsBlock(t *testing.T) {
	w, _, denied := onGoogle(t)
	*denied = false
	report := apitypes.CloudReport{Name: "gcp", Missing: []apitypes.CloudLack{{What: "a right", Fatal: true}}}
	check := api.Unblocking(func(context.Context) (apitypes.CloudReports, error) {
		return apitypes.CloudReports{Clouds: []apitypes.CloudReport{report}}, nil
	}, w.b.Users.Unblock)
	for _, step := range []struct {
		missing []apitypes.CloudLack
		blocks  int
	}{{report.Missing, 1}, {[]apitypes.CloudLack{{What: "GPUs"}}, 0}} {
		report.Missing = step.missing
		if _, err := check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left, err := w.b.Views.Blocks(t.Context()); err != nil || len(left) != step.blocks {
			t.Fatalf("with %v missing, the blocks are %v (%v)", step.missing, left, err)
		}
	}
}
