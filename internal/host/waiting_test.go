package host_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/catalog"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// tides gives a broker the prices of six days. Again and again, the spot price of a machine type in a region was
// eight times as high for an hour.
func tides(t *testing.T, h *host.Host, region, instanceType string) {
	t.Helper()
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	now := host.NowOf(h)
	for o := range c.All() {
		if !o.HasSpot || o.Region != region || o.InstanceType != instanceType {
			continue
		}
		var ticks []events.PriceTick
		for at := now.Add(-6 * 24 * time.Hour); at.Before(now.Add(-2 * time.Hour)); at = at.Add(4 * time.Hour) {
			ticks = append(ticks, events.PriceTick{Offer: o.ID(), USD: 8 * o.SpotUSD, Since: at}, events.PriceTick{Offer: o.ID(), USD: o.SpotUSD, Since: at.Add(time.Hour)})
		}
		e := events.New("past/"+o.ID(), "test", now, events.MarketTicked{Prices: ticks})
		if err := h.Broker().Functions.Handle(context.Background(), events.FnTick, []events.Event{e})[0]; err != nil {
			t.Fatal(err)
		}
	}
}

// waitFor runs a shorter version of examples/deadline.yaml on a market that is expensive at submission, and returns
// the finished job. Whether the job meets its deadline depends on the speed of this computer, so the simulator checks
// that (testdata/stories/wait-*.txt).
func waitFor(t *testing.T, prices string) (*apitypes.JobDetail, map[string]string) {
	t.Helper()
	scenario := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(scenario, []byte(prices), 0o600); err != nil {
		t.Fatal(err)
	}
	h, _ := serve(t, host.Options{State: t.TempDir(), TimeScale: 0.0008, Scenario: scenario})
	tides(t, h, "us-east-1", "g5.xlarge")
	spec, err := read.File(filepath.Join("..", "..", "examples", "deadline.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	task := &spec.Tasks[0]
	task.Run = strings.Replace(task.Run, `-lt 100`, `-lt 40`, 1)
	task.Resources[0].Region, task.Resources[0].InstanceType = "us-east-1", "g5.xlarge"
	spec.Deadline = 9 * time.Hour
	look := events.New("look", "test", host.NowOf(h), events.MarketTicked{}) // makes bids at current prices
	if err := h.Broker().Functions.Handle(t.Context(), events.FnTick, []events.Event{look})[0]; err != nil {
		t.Fatal(err)
	}
	job, err := h.Broker().Users.Submit(context.Background(), broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]string{}
	for over := false; !over; { // regardless of how long planning takes
		time.Sleep(20 * time.Millisecond)
		d, err := h.Broker().Views.JobDetail(context.Background(), job.ID)
		over = err != nil || d.State.Finished() || len(d.Attempts) > 0
		if err == nil && d.TaskList[0].Waits != "" {
			told["waiting"] = d.TaskList[0].Waits
			why, err := h.Broker().Views.WhyWaiting(context.Background(), job.ID)
			if err != nil || !strings.Contains(why.Reason, "waits for a better price") {
				t.Errorf("its reason to wait is %+v, %v", why, err)
			}
			break
		}
	}
	d := await(t, h.Broker(), job.ID)
	story, err := h.Broker().Views.Explain(context.Background(), job.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("while it waits:", told["waiting"])
	for _, e := range story.Entries {
		t.Log(e.At.Format("15:04:05"), e.Kind, e.Task, e.Text)
		told[e.Kind] += e.Text + "\n"
	}
	if d.State != apitypes.JobSucceeded {
		t.Fatalf("%s: %s", d.State, d.Reason)
	}
	for kind, want := range map[string]string{"waiting": "begins by", "waits": "for a better price than"} {
		if !strings.Contains(told[kind], want) {
			t.Errorf("the explanation of %s is %q, without %q", kind, told[kind], want)
		}
	}
	return d, told
}

const dearNow = `
prices:
  - {match: {instanceType: g5.xlarge}, at: 0s, times: 8}
`

func TestJobWaitsForCheapMarket(t *testing.T) {
	if testing.Short() {
		t.Skip("plays a market")
	}
	d, _ := waitFor(t, dearNow+"  - {match: {instanceType: g5.xlarge}, at: 150m, times: 1}\n")
	a := d.Attempts[0]
	if len(d.Attempts) != 1 || !a.Offer.Spot || a.Admitted.Sub(d.Submitted) < 30*time.Minute {
		t.Errorf("it begins after %v: %+v", a.Admitted.Sub(d.Submitted), a)
	}
	if onDemand := a.Ended.Sub(a.Launched).Hours() * 1.006; d.SpentUSD > 0.7*onDemand {
		t.Errorf("it costs %.4f USD, at once on demand %.4f", d.SpentUSD, onDemand)
	}
}

func TestJobGoesOnDemandIfMarketStaysExpensive(t *testing.T) {
	if testing.Short() {
		t.Skip("plays a market")
	}
	d, _ := waitFor(t, dearNow)
	a := d.Attempts[0]
	if len(d.Attempts) != 1 || a.Offer.Spot || a.Admitted.Sub(d.Submitted) < 2*time.Hour {
		t.Errorf("it begins after %v: %+v", a.Admitted.Sub(d.Submitted), a)
	}
}
