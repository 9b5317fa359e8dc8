package history

import (
	"math"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func TestOnlyBootsOfSingleBoughtMachinesAreLearned(t *testing.T) {
	boot := func(d time.Duration, change func(*apitypes.Attempt)) apitypes.Attempt {
		a := apitypes.Attempt{Nodes: 1, Offer: apitypes.Offer{Cloud: "aws", InstanceType: "m5.large"},
			Launched: now, Up: now.Add(d)}
		if change != nil {
			change(&a)
		}
		return a
	}
	got := learnBoots(nil, []apitypes.Attempt{
		boot(time.Minute, nil),
		boot(4*time.Minute, nil),
		boot(2*time.Hour, nil), // too long to be a boot: a fault
		boot(-time.Minute, nil),
		boot(time.Minute, func(a *apitypes.Attempt) { a.Nodes = 2 }),
		boot(time.Minute, func(a *apitypes.Attempt) { a.Hosts = []string{"w1-1"} }),
		boot(time.Minute, func(a *apitypes.Attempt) { a.Offer.Service = "emr" }),
		boot(time.Minute, func(a *apitypes.Attempt) { a.Launched = time.Time{} }),
		boot(time.Minute, func(a *apitypes.Attempt) { a.Up = time.Time{} }),
		{},
	}, now)
	of := got["aws/m5.large"]
	if len(got) != 1 || of.Runs != 2 || math.Abs(math.Exp(of.Log)*60-2) > 0.01 {
		t.Errorf("%+v", got)
	}
	for n := range 2 * maxBoots {
		later := now.Add(time.Duration(n) * time.Second)
		got = learnBoots(got, []apitypes.Attempt{boot(time.Minute, func(a *apitypes.Attempt) {
			a.Offer.InstanceType = "m5." + string(rune('a'+n))
		})}, later)
	}
	if _, kept := got["aws/m5.large"]; kept || len(got) != maxBoots {
		t.Errorf("%d machine types are stored", len(got))
	}
}

func TestBootsOfFirstWorkersAreSampled(t *testing.T) {
	spec := &dag.Job{Tasks: make([]dag.Task, 20)}
	for i := 3; i < len(spec.Tasks); i++ {
		spec.Tasks[i].Worker = &dag.Worker{}
	}
	if got := workers(spec); len(got) != maxWorkers || got[0] != 3 {
		t.Errorf("%v", got)
	}
	if got := workers(&dag.Job{Tasks: spec.Tasks[:3]}); len(got) != 0 {
		t.Errorf("of a job without workers: %v", got)
	}
}
