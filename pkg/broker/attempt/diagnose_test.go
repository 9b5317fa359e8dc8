package attempt

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// Machines that a cloud does not list are gone once it has had its time to list them, which not every cloud takes.
func TestMachinesThatAreNotListedAreGone(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	cl := record.Cluster{
		ID: "c", State: record.ClusterUp, Command: "run", Offer: cloud.Offer{Cloud: "aws"}, Nodes: make([]record.Node, 1),
	}
	for _, c := range []struct {
		age, lag time.Duration
		listed   bool
		want     remedy
	}{
		{age: time.Minute, want: RemedyNone},
		{age: 11 * time.Minute, want: RemedyLost},
		{age: time.Minute, lag: 20 * time.Second, want: RemedyLost},
		{age: 10 * time.Second, lag: 20 * time.Second, want: RemedyNone},
		{age: time.Minute, lag: 20 * time.Second, listed: true, want: RemedyNone},
	} {
		cfg := record.DefaultConfig()
		cfg.ListLag = c.lag
		cl.Launched, cl.Since = now.Add(-c.age), now.Add(-c.age)
		cl.Nodes[0].Seen = now
		machines := Inventory{"aws": {}}
		if c.listed {
			machines["aws"]["c"] = []cloud.Machine{{Cluster: "c"}}
		}
		if got := Diagnose(cl, cfg, machines, now); got != c.want {
			t.Errorf("%v after its launch, of clouds that list within %v, listed: %v: remedy %v, want %v", c.age, c.lag, c.listed, got,
				c.want)
		}
	}
}
