package api_test

import (
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestListMachinesOfJob(t *testing.T) {
	w := apitest.New(t)
	w.Submit(apitest.Wide("other", 1))
	job := w.Submit(apitest.Training())
	w.Node(job, "prepare-a", 0).Start().Succeed()
	machines := func(query string) []apitypes.WorkerView {
		return answer[apitypes.MachineList](t, w.Request("GET", "/v1/machines?"+query, ""), http.StatusOK).Machines
	}
	if all, alive := machines("all=true&job="+job), machines("job="+job); len(all) != 2 || len(alive) != 1 ||
		all[0].Job != job || all[0].Up.IsZero() || alive[0].Task != "prepare-b" {
		t.Errorf("all %+v\nalive %+v", all, alive)
	}
	if n := len(machines("all=true")); n != 3 {
		t.Errorf("%d machines of all jobs", n)
	}
	trouble(t, w.Request("GET", "/v1/machines?job=none", ""), http.StatusNotFound)
}

func TestMachinesThatTasksShare(t *testing.T) {
	w := apitest.New(t)
	job := w.Shared()
	all := answer[apitypes.MachineList](t, w.Request("GET", "/v1/machines?all=true&job="+job, ""), http.StatusOK).Machines
	if len(all) != 2 || all[0].Worker != "w5-1" || all[0].Tasks != 3 || all[1].Worker != "w6-1" || all[1].Tasks != 1 {
		t.Fatalf("machines %+v", all)
	}
	// The worker held 4 of its 8 vCPUs for 9, 10 and 7 of 20 minutes. It booted for 2 of them.
	if m := all[0]; math.Abs(m.Utilisation-0.65) > 1e-6 || math.Abs(m.BootUSD/m.USD-0.1) > 1e-6 ||
		math.Abs(m.IdleUSD/m.USD-0.25) > 1e-6 {
		t.Errorf("machine %+v", m)
	}
	// A task on a worker has the worker's offer, and costs nothing itself.
	if task := w.Task(job, "shrink-0"); task.Offer != all[0].Offer || task.USDPerHour != 0 {
		t.Errorf("task %+v", task)
	}
}

// The forecast of a job's cost starts as the plan's cost. When a task takes longer than expected, it must rise by the
// cost of the additional time.
func TestForecastRisesWithSlowTask(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Training())
	view := func() (planned, spent, forecast float64) {
		t.Helper()
		d, err := w.Broker.Views.JobDetail(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		return d.PlannedUSD, d.SpentUSD, d.ForecastUSD
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: %f USD, want %f", what, got, want)
		}
	}
	planned, _, forecast := view()
	near("forecast at first", forecast, planned)

	for _, name := range []string{"prepare-a", "prepare-b"} {
		w.Node(job, name, 0).Start()
	}
	w.Clock.Advance(20 * time.Minute)
	planned, _, forecast = view()
	near("forecast after 20 expected minutes", forecast, planned)

	// prepare-a then takes 60 minutes longer than planned and prepare-b 55, each at 0.128 USD/h
	w.Clock.Advance(time.Hour)
	planned, _, forecast = view()
	near("forecast of slow tasks", forecast, planned+0.128*(60+55)/60)

	for _, name := range []string{"prepare-a", "prepare-b"} {
		w.Node(job, name, 0).Succeed()
	}
	_, spent, forecast := view()
	near("forecast before the training", forecast, spent+planned-0.128*(20+25)/60)

	if err := w.Broker.Users.Cancel(t.Context(), job, ""); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	if _, _, forecast = view(); forecast != 0 {
		t.Errorf("a cancelled job has the forecast %f", forecast)
	}
}
