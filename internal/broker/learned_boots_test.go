package broker_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// TestNextJobExpectsBootsOfEarlierOne: a job has ended. The plan of the next job with its name must expect boots as
// long as those of the first job's machines.
func TestNextJobExpectsBootsOfEarlierOne(t *testing.T) {
	const file = "{t: {run: x, time: 1h, resources: {instanceType: c7i.large, market: on-demand}}}"
	p := &agentBench{bench: newBench(t)}
	boots := func() float64 {
		spec, err := read.Job("j.yaml", strings.NewReader("apiVersion: tradewind/v1\nname: j\ntasks: "+file+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := p.b.Users.DryRun(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		return plan.Of(0).Offer.BootSeconds
	}
	before := boots()
	for i, token := range []string{"1", "2", "3", "4"} {
		p.submit(file, token)
		p.deliverAll()
		p.now = p.now.Add(5 * time.Minute)
		hello(t, p.b, p.claims(0, 0))
		p.deliverAll()
		p.report(0, token, wire.Started)
		p.report(0, token+"s", wire.Succeeded)
		p.deliverAll()
		learned, err := p.b.Views.Learned(t.Context(), "j")
		if err != nil || learned.Boots["aws/c7i.large"].Runs != i+1 {
			t.Fatalf("after %d jobs: %+v, %v", i+1, learned, err)
		}
	}
	if got, want := boots(), math.Sqrt(before*300); math.Abs(got/want-1) > 0.02 {
		t.Errorf("the plan expects a boot of %v s, want %v s, between %v s and 5 minutes", got, want, before)
	}
}
