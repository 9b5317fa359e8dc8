package attempt

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// A booting machine of Lambda with several GPUs must get up to half an hour; other machines get 15 minutes. Lambda's
// machines with several GPUs take 10 to 15 minutes to launch, those with one GPU 3 to 5 (docs.lambda.ai, "On-demand
// Cloud", FAQ "How long does it take for instances to launch?"). A machine that is given up too early is bought
// again, and boots again.
func TestSlowMachinesGetTimeToBoot(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		cloud string
		gpus  float64
		age   time.Duration
		want  remedy
	}{
		{"lambda", 8, 20 * time.Minute, RemedyNone}, {"lambda", 2, 20 * time.Minute, RemedyNone}, {"lambda", 8, 31 * time.Minute, RemedyLost},
		{"lambda", 1, 16 * time.Minute, RemedyLost}, {"aws", 8, 16 * time.Minute, RemedyLost}, {"aws", 0, 14 * time.Minute, RemedyNone},
	} {
		cl := record.Cluster{
			ID: "c", State: record.ClusterBooting, Since: now.Add(-c.age), Launched: now.Add(-c.age), Nodes: make([]record.Node, 1),
			Offer: apitypes.Offer{Cloud: c.cloud, InstanceType: "gpu", Accelerator: "H100", AccelCount: c.gpus},
		}
		listed := Inventory{Asked: now, Of: map[string]map[string][]cloud.Machine{c.cloud: {"c": {{Cluster: "c"}}}}}
		if got := Diagnose(cl, config.Default(), listed, now); got != c.want {
			t.Errorf("%s with %v GPUs after %v: remedy %v, want %v", c.cloud, c.gpus, c.age, got, c.want)
		}
	}
}

// A machine that the cloud's list lacks counts as gone only if the list was made late enough to include it. The time
// that a new machine needs to appear in the list depends on the cloud.
func TestUnlistedMachinesAreGone(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	cl := record.Cluster{
		ID: "c", State: record.ClusterUp, Command: "run", Offer: apitypes.Offer{Cloud: "aws"}, Nodes: make([]record.Node, 1),
	}
	for _, c := range []struct {
		age, lag time.Duration
		ago      time.Duration // how long ago the list was requested
		listed   bool
		want     remedy
	}{
		{age: time.Minute, want: RemedyNone},
		{age: 11 * time.Minute, want: RemedyLost},
		{age: time.Minute, lag: 20 * time.Second, want: RemedyLost},
		{age: 10 * time.Second, lag: 20 * time.Second, want: RemedyNone},
		{age: time.Minute, lag: 20 * time.Second, listed: true, want: RemedyNone},
		{age: 11 * time.Minute, ago: 2 * time.Minute, want: RemedyNone}, // the machine may have been listed since
		{age: time.Minute, lag: 20 * time.Second, ago: 50 * time.Second, want: RemedyNone},
		{age: time.Minute, lag: 20 * time.Second, ago: 30 * time.Second, want: RemedyLost},
	} {
		cfg := config.Default()
		cfg.ListLag = c.lag
		cl.Launched, cl.Since = now.Add(-c.age), now.Add(-c.age)
		cl.Nodes[0].Seen = now
		machines := Inventory{Asked: now.Add(-c.ago), Of: map[string]map[string][]cloud.Machine{"aws": {}}}
		if c.listed {
			machines.Of["aws"]["c"] = []cloud.Machine{{Cluster: "c"}}
		}
		if got := Diagnose(cl, cfg, machines, now); got != c.want {
			t.Errorf("%v after its launch, of clouds asked %v ago that list within %v, listed: %v: remedy %v, want %v", c.age,
				c.ago, c.lag, c.listed, got, c.want)
		}
	}
}
