package broker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// simulation is a broker that buys nothing, in compressed time.
func simulation(t *testing.T) *bench {
	t.Helper()
	cfg := config.Default()
	cfg.BuysNothing, cfg.Scale = true, 0.001
	return newBenchOf(t, cfg)
}

// viewed submits a job of one task and returns its view.
func viewed(t *testing.T, b *broker.Broker, name string) apitypes.JobView {
	t.Helper()
	spec, err := read.Job("one.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: "+name+
		"\ntasks: {t: {run: x, resources: {cpus: 4}, time: 1h}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := b.Users.Submit(context.Background(), broker.Submission{Spec: spec, Token: "1"})
	if err != nil {
		t.Fatal(err)
	}
	return reviewed(t, b, job.ID)
}

func reviewed(t *testing.T, b *broker.Broker, id string) apitypes.JobView {
	t.Helper()
	v, err := b.Views.JobView(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestJobsOfSimulationAreLabelled(t *testing.T) {
	w := simulation(t)
	v := viewed(t, w.b, "one")
	if !v.Simulated || v.TimeScale != 0.001 {
		t.Errorf("simulated is %v, at scale %v", v.Simulated, v.TimeScale)
	}
	buys := newBenchOf(t, config.Default())
	if v := viewed(t, buys.b, "one"); v.Simulated || v.TimeScale != 0 {
		t.Errorf("a job on bought machines: simulated is %v, at scale %v", v.Simulated, v.TimeScale)
	}
}

func TestSimulatedJobIsRealOnceItIsResumedByBuyingBroker(t *testing.T) {
	w := simulation(t)
	v := viewed(t, w.b, "one")
	buying := broker.New(config.Default(), w.b.Ports())
	if reviewed(t, buying, v.ID).Simulated {
		t.Error("a job that now buys machines is still called simulated")
	}
	if !reviewed(t, w.b, v.ID).Simulated {
		t.Error("it is not simulated where nothing is bought")
	}
}

func TestJobIsNotSimulatedIfBrokerHasPool(t *testing.T) {
	w := simulation(t)
	if err := w.b.Users.SetPool(context.Background(), "lab", record.PoolSettings{}); err != nil {
		t.Fatal(err)
	}
	if viewed(t, w.b, "one").Simulated {
		t.Error("the machines of a pool are called simulated")
	}
}

func TestUsageOfSimulationIsLabelled(t *testing.T) {
	for _, nothing := range []bool{true, false} {
		cfg := config.Default()
		cfg.BuysNothing = nothing
		w := newBenchOf(t, cfg)
		viewed(t, w.b, "one")
		w.until("") // all events are handled
		w.now = w.now.Add(time.Minute)
		u, err := w.b.Views.Usage(context.Background(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if len(u.Queues) == 0 || u.Simulated != nothing {
			t.Errorf("buys nothing: %v: %d queues, simulated is %v", nothing, len(u.Queues), u.Simulated)
		}
	}
}
