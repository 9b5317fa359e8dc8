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
	return refusedByGoogle(t, cloud.Auth, "forbidden", "Required 'compute.instances.create' permission")
}

// refusedByGoogle submits a task that only Google Cloud can run, which refuses every launch while refused is set.
func refusedByGoogle(t *testing.T, kind cloud.Kind, code, message string) (w *bench, id string, denied *bool) {
	t.Helper()
	w, denied = newBench(t), new(bool)
	*denied = true
	w.cloud["gcp"].refuse = func(s cloud.LaunchSpec) error {
		if *denied {
			return cloud.Errorf(s.Offer.Cloud, kind, code, "%s", message)
		}
		return nil
	}
	spec, err := read.Job("job.yaml", strings.NewReader(
		"apiVersion: tradewind/v1\nname: job\ntasks: {t: {run: x, resources: {cpus: 4, cloud: gcp, region: us-central1, instanceType: n2-standard-4}, time: 1h}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := w.b.Users.Submit(t.Context(), broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	w.deliverAll()
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

// The user has raised a quota, and runs `cloud check`: the broker asks again at once. The block of a quota lasts an hour,
// and up to sixteen after more refusals.
func TestCheckLiftsBlocksOfQuotas(t *testing.T) {
	w, id, refused := refusedByGoogle(t, cloud.Quota, "QUOTA_EXCEEDED", "Quota 'N2_CPUS' exceeded. Limit: 0.0 in region us-central1.")
	if left, err := w.b.Views.Blocks(t.Context()); err != nil || len(left) == 0 {
		t.Fatalf("no block: %v", err)
	}
	*refused = false
	if err := w.b.Users.Unblock(t.Context(), "aws"); err != nil {
		t.Fatal(err)
	}
	if left, _ := w.b.Views.Blocks(t.Context()); len(left) == 0 {
		t.Error("the check of another cloud lifts the block")
	}
	if err := w.b.Users.Unblock(t.Context(), "gcp"); err != nil {
		t.Fatal(err)
	}
	w.deliverAll() // without waiting for the time at which the job would be planned again
	if s := w.state(id); s != apitypes.JobRunning {
		t.Errorf("the job is %s", s)
	}
}
