package api_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

const cpuMarket = "aws/us-east-2/use2-az3/c7i.2xlarge"

func TestListPrices(t *testing.T) {
	w := apitest.New(t)
	for _, usd := range []float64{0.12, 0.12, 0.31, 0.12} {
		w.Tick(events.PriceTick{Offer: cpuMarket, USD: usd})
		w.Clock.Advance(time.Hour)
	}
	l := answer[apitypes.PriceList](t, w.Request("GET", "/v1/prices?offers="+cpuMarket+"/spot,gcp/none", ""), http.StatusOK)
	if len(l.Series) != 2 || fmt.Sprint(l.Series[0].USD) != "[0.12 0.31 0.12]" || l.Series[0].Offer != cpuMarket {
		t.Fatalf("prices = %+v", l.Series)
	}
	if got := l.Series[0].At[1].Sub(apitest.Start()); got != 2*time.Hour {
		t.Errorf("the price rose after %s", got)
	}
	if l.Series[1].Offer != "gcp/none" || l.Series[1].USD == nil || len(l.Series[1].USD) > 0 {
		t.Errorf("an unknown market: %+v", l.Series[1])
	}
	trouble(t, w.Request("GET", "/v1/prices", ""), http.StatusUnprocessableEntity)
}

func TestListMarketsWithForecastsAndBids(t *testing.T) {
	w := apitest.New(t)
	for range 5 {
		w.Tick(events.PriceTick{Offer: cpuMarket, USD: 0.12})
		w.Clock.Advance(20 * time.Hour)
		w.Tick(events.PriceTick{Offer: cpuMarket, USD: 0.31})
		w.Clock.Advance(4 * time.Hour)
	}
	job := w.Submit(apitest.Wide("mosaic", 3))
	l := answer[apitypes.MarketList](t, w.Request("GET", "/v1/markets", ""), http.StatusOK)
	if len(l.Markets) != 1 || l.Markets[0].Offer != cpuMarket || l.Markets[0].USD != 0.31 {
		t.Fatalf("markets = %+v", l.Markets)
	}
	m := l.Markets[0]
	if n := len(m.Forecast); n < 3 || !(m.Forecast[n-1].USD < 0.25) || !(m.Forecast[0].USD > m.Forecast[n-1].USD) {
		t.Errorf("a price that is mostly lower is expected to go %+v", m.Forecast)
	}
	if len(m.Bids) != 1 || m.Bids[0].Job != job || m.Bids[0].MaxUSD < 0.3 || m.Bids[0].RateUSD != 0.31 {
		t.Errorf("bids = %+v", m.Bids)
	}
	w.Node(job, "split", 0).Start().Report(wire.Report{Event: wire.Failed, ExitCode: 1, Phase: wire.PhaseRun})
	l = answer[apitypes.MarketList](t, w.Request("GET", "/v1/markets", ""), http.StatusOK)
	if len(l.Markets) != 1 || len(l.Markets[0].Bids) > 0 || l.Markets[0].Launches != 1 {
		t.Errorf("after the job has ended: %+v", l.Markets)
	}
}

func TestQueueUsage(t *testing.T) {
	w := apitest.New(t)
	w.Clock.Advance(24 * time.Hour)
	job := w.Submit(apitest.Wide("mosaic", 2))
	w.Clock.Advance(3 * time.Hour)
	w.Node(job, "split", 0).Start().Succeed()
	w.Clock.Advance(3 * time.Hour)
	u := answer[apitypes.UsageView](t, w.Request("GET", "/v1/usage?hours=12", ""), http.StatusOK)
	if len(u.Queues) != 1 || u.Queues[0].Name != "default" || u.Partial {
		t.Fatalf("usage = %+v", u)
	}
	at := func(hour float64) (tasks, vcpus float64) {
		i := int(hour / u.StepHours)
		return u.Queues[0].Running[i], u.Queues[0].VCPUs[i]
	}
	for hour, want := range map[float64]float64{1: 0, 5: 0, 7: 1, 8.5: 1, 10: 2, 11.5: 2} {
		if tasks, vcpus := at(hour); math.Abs(tasks-want) > 1e-6 || math.Abs(vcpus-8*want) > 1e-6 {
			t.Errorf("%g hours after the beginning it held %g tasks and %g vCPUs, want %g", hour, tasks, vcpus, want)
		}
	}
	// The longest allowed period still has steps of one hour.
	trouble(t, w.Request("GET", "/v1/usage?hours=1e9", ""), http.StatusUnprocessableEntity)
}

func TestRerunJob(t *testing.T) {
	w := apitest.New(t)
	spec := apitest.Training()
	job := w.Submit(spec)
	w.Clock.Advance(time.Hour)
	send := func(key string) apitypes.JobView {
		res := w.Do("POST", "/v1/jobs/"+job+"/rerun", "",
			http.Header{"Authorization": {"Bearer " + apitest.Token}, "Idempotency-Key": {key}})
		return answer[apitypes.Submitted](t, res, http.StatusCreated).JobView
	}
	again := send("a")
	if again.ID == job || again.Name != spec.Name || again.Tasks != len(spec.Tasks) {
		t.Errorf("the new job is %+v", again)
	}
	if want := w.Clock.Now().Add(spec.Deadline); !again.Deadline.Equal(want) {
		t.Errorf("its deadline is %s, want %s: counted from now", again.Deadline, want)
	}
	if twice := send("a"); twice.ID != again.ID {
		t.Errorf("the same request made another job: %s and %s", again.ID, twice.ID)
	}
	if other := send("b"); other.ID == again.ID {
		t.Error("another request made no other job")
	}
	trouble(t, w.Request("POST", "/v1/jobs/none/rerun", ""), http.StatusNotFound)
}

func TestRerunRejectsJobWithoutSecrets(t *testing.T) {
	w := apitest.New(t)
	spec := apitest.Wide("mosaic", 1)
	job := w.Submit(spec)
	// The job looks as if it had been submitted with secrets.
	spec.Tasks[0].Secrets = []string{"TOKEN"}
	withSecrets := apitest.New(t, func(c *api.Config) { c.Broker.Submitter = rerunFails{c.Broker.Submitter, spec} })
	p := trouble(t, withSecrets.Request("POST", "/v1/jobs/"+job+"/rerun", ""), http.StatusUnprocessableEntity)
	if p.Detail == "" {
		t.Errorf("the refusal has no reason: %+v", p)
	}
}

// rerunFails is a broker that no longer has a job's secrets.
type rerunFails struct {
	api.Submitter
	spec *dag.Job
}

func (r rerunFails) Rerun(context.Context, string, string, bool) (record.Job, error) {
	_, _, err := r.spec.ResolveSecrets(nil)
	return record.Job{}, err
}

const tiny = "apiVersion: tradewind/v1\nname: tiny\ndeadline: 9h\ntasks:\n  one: {run: 'true', time: 1h}\n"

func TestFrontier(t *testing.T) {
	var asked *dag.Job
	w := apitest.New(t, func(c *api.Config) {
		c.Frontier = func(_ context.Context, spec *dag.Job, points int) (apitypes.FrontierView, error) {
			if asked = spec; points != 7 {
				return apitypes.FrontierView{}, errors.New("other points")
			}
			return apitypes.FrontierView{Complete: true, Points: []apitypes.FrontierPoint{
				{Hours: 1, USD: 3, BoundUSD: 3, Tasks: 1}, {Hours: 2, USD: 1, BoundUSD: 0.9, Spot: 1, Tasks: 1},
			}}, nil
		}
	})
	f := answer[apitypes.FrontierView](t, w.Request("POST", "/v1/frontiers?points=7&deadline=5h", tiny), http.StatusOK)
	if len(f.Points) != 2 || !f.Complete || f.Unexplored == nil || f.Name != "tiny" {
		t.Fatalf("frontier = %+v", f)
	}
	if p := f.Points[1]; p.Hours != 2 || p.USD != 1 || p.BoundUSD != 0.9 || p.Spot != 1 || p.Tasks != 1 {
		t.Errorf("the cheapest = %+v", p)
	}
	if asked.Deadline != 5*time.Hour {
		t.Errorf("the request had a deadline of %s", asked.Deadline)
	}
	if p := trouble(t, w.Request("POST", "/v1/frontiers", "tasks: 1"), http.StatusUnprocessableEntity); p.Line == 0 {
		t.Errorf("the error has no line: %+v", p)
	}
	trouble(t, apitest.New(t).Request("POST", "/v1/frontiers", tiny), http.StatusNotImplemented)
}

func TestOffersAreOfNamedTask(t *testing.T) {
	w := apitest.New(t, func(c *api.Config) {
		c.Offers = func(_ context.Context, spec *dag.Job, task int) ([]apitypes.FittingOffer, error) {
			if spec.Tasks[task].Name == "none" {
				return nil, nil
			}
			return []apitypes.FittingOffer{{ID: spec.Tasks[task].Name, TimeKey: "V100:1"}}, nil
		}
	})
	const two = tiny + "  none: {run: 'true'}\n"
	for path, want := range map[string]int{"?task=one": 1, "?task=none": 0} {
		got := answer[apitypes.FittingOffers](t, w.Request("POST", "/v1/offers"+path, two), http.StatusOK)
		if got.Offers == nil || len(got.Offers) != want || want > 0 && got.Offers[0].ID != "one" {
			t.Errorf("%s: %+v", path, got)
		}
	}
	if got := answer[apitypes.FittingOffers](t, w.Request("POST", "/v1/offers", tiny), http.StatusOK); len(got.Offers) != 1 {
		t.Errorf("the only task has %+v", got)
	}
	for path, want := range map[string]string{"": "?task=", "?task=on": `did you mean "one"?`} {
		if p := trouble(t, w.Request("POST", "/v1/offers"+path, two), http.StatusUnprocessableEntity); !strings.Contains(p.Hint, want) {
			t.Errorf("%s: %+v", path, p)
		}
	}
	trouble(t, w.Request("POST", "/v1/offers", "tasks: 1"), http.StatusUnprocessableEntity)
	trouble(t, apitest.New(t).Request("POST", "/v1/offers", tiny), http.StatusNotImplemented)
}

func TestSubmitOverridesLimits(t *testing.T) {
	w := apitest.New(t)
	v := answer[apitypes.Submitted](t, w.Request("POST", "/v1/dags?deadline=5h30m&budget=12.5&objective=makespan", tiny),
		http.StatusCreated)
	d := v.Deadline.Sub(v.Submitted)
	if d != 5*time.Hour+30*time.Minute || v.BudgetUSD != 12.5 || v.Objective != "makespan" {
		t.Errorf("deadline %s, budget %g, objective %s", d, v.BudgetUSD, v.Objective)
	}
	w.Clock.Advance(time.Second)
	v = answer[apitypes.Submitted](t, w.Request("POST", "/v1/dags", tiny), http.StatusCreated)
	if d = v.Deadline.Sub(v.Submitted); d != 9*time.Hour || v.Objective != "cost" {
		t.Errorf("without: deadline %s, objective %s", d, v.Objective)
	}
	trouble(t, w.Request("POST", "/v1/dags?deadline=soon", tiny), http.StatusUnprocessableEntity)
	if jobs := answer[apitypes.JobList](t, w.Request("GET", "/v1/jobs", ""), http.StatusOK).Jobs; len(jobs) != 2 {
		t.Errorf("%d jobs were stored", len(jobs))
	}
}
