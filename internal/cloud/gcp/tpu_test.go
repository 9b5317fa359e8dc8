package gcp_test

import (
	"context"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/cloudtest"
)

var tpuOffer = apitypes.Offer{
	Cloud: "gcp", Region: "us-central1", Zone: "us-central1-a", InstanceType: "tpu-v3-8", Accelerator: "tpu-v3-8", AccelCount: 1,
	Spot: true, USDPerHour: 2.4,
}

func withTPUs(c *gcp.Config) { c.TPUs = true }

// tpus is the harness for TPUs, whose failures differ from those of machines.
type tpus struct{ harness }

func (h tpus) Fail(_ apitypes.Offer, err *cloud.Error) bool {
	// a lack of capacity is reported late; after a lost answer, the driver looks for its request
	if err.Kind == cloud.Capacity || err.Kind == cloud.Transient {
		return false
	}
	f := refusals[err.Kind]
	f.RetryAfter = err.RetryAfter
	h.gce.Refuse("tpu.projects.locations.queuedResources.create", f)
	return true
}

func (h tpus) LoseAnswer() bool {
	h.gce.Lose("tpu.projects.locations.queuedResources.create")
	return true
}

func (h tpus) Sibling() cloud.Cloud {
	return h.another(func(c *gcp.Config) { c.Deployment, c.TPUs = "another", true })
}

// Queues implements cloudtest.Queue.
func (tpus) Queues() bool { return true }

// FailLate makes the request fail, which is the only late failure of TPUs.
func (h tpus) FailLate(_ apitypes.Offer, err *cloud.Error) bool {
	if err.Kind != cloud.Capacity {
		return false
	}
	h.gce.FailTPUs(1)
	return true
}

func TestConformanceOfTPUs(t *testing.T) {
	cloudtest.Run(t, func(_ context.Context, t *testing.T) (cloudtest.Harness, error) {
		return tpus{harness{newWorld(t, withTPUs), tpuOffer, nil}}, nil
	})
}

func TestTPUBootsAndRunsTask(t *testing.T) {
	b := bootingOf(t, 1, tpuOffer, withTPUs)
	node := agenttest.Node{Cluster: "cluster", Rank: 0}
	b.Hello(node)
	b.Run(node, b.assign(`echo "I am $TRADEWIND_MACHINE"`))
	if r := b.Result(node, "a1"); r.Event != wire.Succeeded || b.Log(node, "a1") != "I am "+b.launched[0].ID+"\n" {
		t.Errorf("%+v %q", r, b.Log(node, "a1"))
	}
	b.gce.FinishPreemption(b.launched[0].ID)
	found, err := b.gcp.Machines(t.Context(), "")
	if err != nil || len(found) != 1 || found[0].State != cloud.Terminated || found[0].Reason != "spot-interruption" || !found[0].Offer.Spot {
		t.Errorf("%+v %v", found, err)
	}
	// A driver that has not launched the cluster must be able to end it, too.
	if err := b.another(nil).Terminate(t.Context(), "cluster"); err != nil {
		t.Fatal(err)
	}
	b.none(b.gcp)
}

func TestTPULaunchErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world, *cloud.LaunchSpec)
		kind   cloud.Kind
		words  string
	}{
		"not switched on": {func(w *world, _ *cloud.LaunchSpec) {
			w.gcp = w.another(func(c *gcp.Config) { c.TPUs = false })
		}, cloud.Quota, "not switched on"},
		"several hosts": {func(_ *world, s *cloud.LaunchSpec) { s.Offer.InstanceType = "tpu-v4-16" }, cloud.Capacity, "several hosts"},
		"a new one":     {func(_ *world, s *cloud.LaunchSpec) { s.Offer.InstanceType = "tpu-v9-8" }, cloud.Quota, "tpu-v9"},
		"nonsense":      {func(_ *world, s *cloud.LaunchSpec) { s.Offer.InstanceType = "tpu-8" }, cloud.Invalid, "not a TPU"},
		"an API off":    {func(w *world, _ *cloud.LaunchSpec) { w.gce.Disable("tpu.googleapis.com", true) }, cloud.Auth, "disabled"},
		// Without a service account, the machine would get the default one, which is an editor of the project. Cloud
		// TPU API v2, Node.serviceAccount: "If None is specified, the default compute service account will be used".
		"no service account": {func(w *world, _ *cloud.LaunchSpec) {
			w.gcp = w.another(func(c *gcp.Config) { c.ServiceAccount = "" })
		}, cloud.Quota, "--service-account"},
		// As reported in github.com/marin-community/marin pull request 1612 and issue 87.
		"a quota of 0": {func(w *world, _ *cloud.LaunchSpec) {
			w.gce.Refuse("tpu.projects.locations.queuedResources.create", gce.Fault{Code: 429, Reason: "rateLimitExceeded",
				Status: "RESOURCE_EXHAUSTED", Quota: true,
				Message: "Quota limit 'TPUV3PreemptiblePerProjectPerZoneForTPUAPI' has been exceeded. Limit: 0 in zone us-central1-a."})
		}, cloud.Quota, "Limit: 0"},
		"a quota that is used up": {func(w *world, _ *cloud.LaunchSpec) {
			w.gce.FailTPUsWith("Quota 'TPUV4sPreemptiblePodPerProjectPerRegionForTPUAPI' exhausted. Limit 20800 in region us-central2")
		}, cloud.Quota, "exhausted"},
		"too many requests": {func(w *world, _ *cloud.LaunchSpec) {
			w.gce.Refuse("tpu.projects.locations.queuedResources.create", gce.Fault{Code: 429, Reason: "rateLimitExceeded",
				Status: "RESOURCE_EXHAUSTED", Message: "Maximum number of CreateNode requests per minute"})
		}, cloud.Throttled, "per minute"},
		"an unknown zone": {func(_ *world, s *cloud.LaunchSpec) { s.Offer.Zone = "us-central1-z" }, cloud.Quota, "Unknown zone"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withTPUs)
			s := spec("a", 1, tpuOffer)
			c.change(w, &s)
			_, err := w.gcp.Launch(t.Context(), s)
			if cloud.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.words) {
				t.Errorf("%v", err)
			}
			if left := w.gce.Machines(); len(left) > 0 {
				t.Errorf("left %v", left)
			}
		})
	}
}

// Google fails a request for TPUs. The request must be withdrawn, and the error must contain Google's message.
func TestFailedTPURequestIsWithdrawn(t *testing.T) {
	w := newWorld(t, withTPUs)
	w.gce.FailTPUs(1)
	if _, err := w.gcp.Launch(t.Context(), spec("a", 2, tpuOffer)); cloud.KindOf(err) != cloud.Capacity || !strings.Contains(err.Error(), "no more capacity") {
		t.Errorf("%v", err)
	}
	w.none(w.gcp)
}
