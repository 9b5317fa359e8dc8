package broker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A job waits because a quota is used up. When a machine that uses the quota ends, the job must start soon, not when
// the block ends after an hour.
func TestWaitingJobStartsWhenMachineOfItsClassHasEnded(t *testing.T) {
	const task = "{t: {run: x, time: 2h, resources: {cloud: aws, region: us-east-1, instanceType: m5.xlarge, market: on-demand}}}"
	p := newAgentBench(t, task, nil)
	first := p.job
	p.cloud["aws"].refuse = func(cloud.LaunchSpec) error {
		return &cloud.Error{Cloud: "aws", Kind: cloud.Quota, Code: "VcpuLimitExceeded", Class: "standard"}
	}
	p.submit(task, "2")
	p.deliverAll()
	if d := p.detail(); d.State != apitypes.JobWaiting {
		t.Fatalf("the second job is %s", d.State)
	}
	if err := p.b.Users.Cancel(t.Context(), first, "make room"); err != nil {
		t.Fatal(err)
	}
	p.deliverAll()
	p.cloud["aws"].refuse = nil
	p.now = p.now.Add(11 * time.Minute)
	look := events.New("look", "test", p.now, events.BrokerReconcile{})
	if errs := p.b.Functions.Handle(t.Context(), events.FnReconcile, []events.Event{look}); errs[0] != nil {
		t.Fatal(errs[0])
	}
	p.deliverAll()
	if d := p.detail(); d.State != apitypes.JobRunning {
		t.Errorf("after 11 minutes the second job is %s: %s", d.State, d.Reason)
	}
}

// TestEachExhaustedQuotaIsTriedOnce: all quotas of a cloud are used up. A job must try one launch for each quota, not
// one for each family of machines, and then wait.
func TestEachExhaustedQuotaIsTriedOnce(t *testing.T) {
	everywhere := func(apitypes.Offer) string { return "CPUS_ALL_REGIONS" }
	for name, c := range map[string]struct {
		cloud, market string
		group         func(apitypes.Offer) string
		min, max      int // number of launches
	}{
		"AWS on demand":             {"aws", "on-demand", quotas.Regional, 4, 20},
		"Azure on demand":           {"azure", "on-demand", quotas.Regional, 4, 4},
		"Azure spot":                {"azure", "spot", quotas.Regional, 4, 4},
		"Google Cloud on demand":    {"gcp", "on-demand", quotas.Regional, 4, 60},
		"Google Cloud, all regions": {"gcp", "on-demand", everywhere, 1, 1},
	} {
		p := &agentBench{bench: newBench(t)}
		launches, used := 0, map[string]bool{}
		p.cloud[c.cloud].refuse = func(spec cloud.LaunchSpec) error {
			launches++
			group := c.group(spec.Offer)
			region, market := quotas.Extent(group, spec.Offer)
			used[fmt.Sprint(group, region, market)] = true
			return &cloud.Error{Cloud: c.cloud, Kind: cloud.Quota, Code: "QuotaExceeded", Class: group}
		}
		// Four regions of each cloud show the same as all regions, in less time.
		four := map[string]string{
			"aws":   "aws:us-east-1, aws:us-west-2, aws:eu-west-1, aws:ap-south-1",
			"azure": "azure:eastus, azure:westus2, azure:northeurope, azure:centralindia",
			"gcp":   "gcp:us-central1, gcp:us-west1, gcp:europe-west4, gcp:asia-south1",
		}[c.cloud]
		p.submit("{t: {run: x, time: 2h, resources: {cpus: 4, cloud: "+c.cloud+", market: "+c.market+"}}}\nregions: ["+four+"]", "1")
		p.deliverAll()
		if d := p.detail(); d.State != apitypes.JobWaiting {
			t.Errorf("%s: the job is %s: %s", name, d.State, d.Reason)
		}
		t.Logf("%s: %d launches for %d quotas", name, launches, len(used))
		if launches != len(used) || launches < c.min || launches > c.max {
			t.Errorf("%s: %d launches for %d quotas", name, launches, len(used))
		}
	}
}
