package attempt

import (
	"testing"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

func TestMemoryIsLimitedOnSharedMachines(t *testing.T) {
	cfg := config.Default()
	cfg.Shared = []string{"aws"}
	pool, simulated, bought := apitypes.Offer{Cloud: apitypes.PoolCloud, Region: "lab"}, apitypes.Offer{Cloud: "aws"}, apitypes.Offer{Cloud: "gcp"}
	gib := func(list ...float64) (r []dag.Resources) {
		for _, x := range list {
			r = append(r, dag.Resources{Memory: dag.Range{Min: x}})
		}
		return r
	}
	for name, tc := range map[string]struct {
		offer     apitypes.Offer
		resources []dag.Resources
		memoryGiB float64
		vcpus     float64
	}{
		"pool":                                {pool, gib(4), 4, 2},
		"pool, without memory":                {pool, gib(0), 0, 2},
		"pool, alternatives":                  {pool, gib(4, 6), 6, 2},
		"pool, an alternative without memory": {pool, gib(4, 0), 0, 2},
		"simulated machine of 8 GiB":          {simulated, gib(4), 8, 2},
		"simulated, without memory":           {simulated, gib(0), 0, 2},
		"bought machine":                      {bought, gib(4), 0, 0},
	} {
		spec := &dag.Job{Tasks: []dag.Task{{Name: "a", Run: "true", Resources: tc.resources}}}
		made := apitypes.Attempt{Hold: apitypes.Amounts{apitypes.MemoryGiB: 16}}
		cl := record.Cluster{Offer: tc.offer, VCPU: 4, Nodes: make([]record.Node, 2)}
		a := Assignment(cfg, record.Job{}, spec, cl, record.Task{}, made, Inherited{})
		if got := float64(a.MemoryBytes) / (1 << 30); got != tc.memoryGiB || a.VCPUs != tc.vcpus {
			t.Errorf("%s: %v GiB and %v vCPUs, want %v and %v", name, got, a.VCPUs, tc.memoryGiB, tc.vcpus)
		}
	}
}
