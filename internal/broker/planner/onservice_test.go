package planner_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/planinput"
	"github.com/tradewind-broker/tradewind/internal/broker/planner"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// sparkJob returns a job with a Spark task that runs on a service, or on very expensive machines.
func sparkJob(t *testing.T, alternatives string) *dag.Job {
	t.Helper()
	return readJob(t, fmt.Sprintf(`
tasks:
  etl:
    spark: {main: s3://code/etl.py, version: 3.5+}
    resources: {executors: 2-10, anyOf: [%s, {cpus: 96, memory: 384, market: on-demand}]}
    time: 1h
`, alternatives))
}

func servicePlanner(t *testing.T, services ...string) *planner.Planner {
	t.Helper()
	p, _ := plannerWith(t, func(opt *planner.Options) {
		opt.Services = map[string]bool{}
		for _, s := range services {
			opt.Services[s] = true
		}
	})
	return p
}

// The price of a task on a service includes all that the service holds: two executors, and a primary node or driver.
func TestServiceIsPlannedWithAllThatItHolds(t *testing.T) {
	for _, c := range []struct {
		name, alternative, release string
		usd, vcpu                  float64 // per hour; 0: not compared
	}{
		{"emr", "{service: {name: emr, release: 7.5+}, instanceType: m5.xlarge, region: us-east-1}", "", 3 * (0.192 + 0.048), 12},
		{"emr-serverless", "{service: emr-serverless}", "", 3 * (4*0.052624 + 16*(1<<30)/1e9*0.0057785), 12},
		{"dataproc", "{service: dataproc, instanceType: n2-standard-4, region: us-central1}", "2.2", 3 * (0.194236 + 0.04), 12},
		{"dataproc-serverless", "{service: dataproc-serverless, cpus: 4, memory: 16}", "2.2", 0, 12},
	} {
		p := servicePlanner(t, c.name)
		got := plan(t, p, planinput.Input{Spec: sparkJob(t, c.alternative)})
		o := got.Of(0)
		if o == nil || o.Offer.Service != c.name || o.Offer.Release == "" || o.VCPU != c.vcpu {
			t.Errorf("%s: %+v, %s", c.name, o, got.Message)
			continue
		}
		if c.usd > 0 && math.Abs(o.Offer.USDPerHour-c.usd) > c.usd/100 {
			t.Errorf("%s costs %v USD per hour, want %v", c.name, o.Offer.USDPerHour, c.usd)
		}
		paid := got.TaskHours[0]
		if strings.HasSuffix(c.name, "-serverless") { // serverless services do not bill the start
			paid -= o.Offer.BootSeconds / 3600
		}
		want := o.Offer.USDPerHour * paid
		if !(got.TaskHours[0] > o.Offer.BootSeconds/3600+0.9) || math.Abs(got.TaskUSD[0]-want) > want/100 {
			t.Errorf("%s: the plan costs %v USD, want %v", c.name, got.TaskUSD[0], want)
		}
	}
}

func TestServiceThatIsNotBoughtIsLeftOut(t *testing.T) {
	p := servicePlanner(t, "dataproc")
	got := plan(t, p, planinput.Input{Spec: sparkJob(t, "{service: emr-serverless}")})
	if o := got.Of(0); o == nil || o.Offer.Service != "" {
		t.Errorf("%+v", o)
	}
}

// A block of a service must not cover the cloud's machines, and a block of machines must not cover the service.
func TestBlockOfServiceIsNotAboutMachines(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	block := apitypes.Block{Cloud: "aws", Kind: string(cloud.Auth), Until: now.Add(time.Hour)}
	p := servicePlanner(t, "emr-serverless")
	for service, left := range map[string]bool{"": false, "emr-serverless": true} {
		block.Service = service
		got := plan(t, p, planinput.Input{Spec: sparkJob(t, "{service: emr-serverless}"), Now: now, Blocks: []apitypes.Block{block}})
		if o := got.Of(0); o == nil || (o.Offer.Service == "") != left {
			t.Errorf("with a block of %q: %+v", service, o)
		}
	}
}

// A task allows only a service. A broker that does not buy it must say in the plan how to enable it.
func TestServiceThatIsNotBoughtIsNamed(t *testing.T) {
	spec := readJob(t, `
tasks:
  etl:
    spark: {main: s3://code/etl.py, version: 3.5+}
    resources: {executors: 2-10, anyOf: [{service: emr}]}
    time: 1h
`)
	for _, c := range []struct {
		services []string
		none     bool
		message  string
	}{
		{[]string{"emr"}, false, ""},
		{[]string{"dataproc"}, true, "tradewind cloud add aws --services emr"},
	} {
		p, err := servicePlanner(t, c.services...).Plan(t.Context(), planinput.Input{Spec: spec, Now: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if (p.Status == record.PlanInfeasible) != c.none || !strings.Contains(p.Message, c.message) {
			t.Errorf("with %v: %s, %q", c.services, p.Status, p.Message)
		}
	}
}
