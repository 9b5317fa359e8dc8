package placement_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tradewind-broker/tradewind/internal/placement/baseline"
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// On the paper's setting at a tenth of its size, with several seeds, the network must use fewer machines than every
// baseline and break no constraint.
func TestFewerMachinesThanEveryBaseline(t *testing.T) {
	for seed := range uint64(5) {
		s := placement.PaperSetting()
		s.Machines, s.Containers, s.Apps, s.Seed = s.Machines/10, s.Containers/10, s.Apps/10, seed
		p, err := placement.Generate(s)
		if err != nil {
			t.Fatal(err)
		}
		verified := func(a placement.Assignment) int {
			r, err := placement.Verify(p, a)
			if err != nil || len(r.Violations) > 0 || r.Placed != s.Containers {
				t.Fatalf("seed %d: %+v, %v", seed, r, err)
			}
			return r.Machines
		}
		n, err := placement.New(p, placement.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := verified(n.Solve().Assignment)
		for name, place := range map[string]func(*placement.Problem) placement.Assignment{
			"ffd": baseline.FirstFit, "bfd": baseline.BestFit, "dot": baseline.DotProduct,
		} {
			if other := verified(place(p)); got >= other {
				t.Errorf("seed %d: %d machines, but %s needs only %d", seed, got, name, other)
			}
		}
	}
}

// On small problems, the network must usually use as few machines as the best assignment of all instances, and never
// fewer.
func TestSolveUsesFewMachines(t *testing.T) {
	more, all := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := small(t, 6, 3)
		fewest := len(p.Machines) + 1
		every(p, func(a placement.Assignment) {
			r, err := placement.Verify(p, a)
			if err == nil && len(r.Violations) == 0 && r.Placed == len(a) {
				fewest = min(fewest, r.Machines)
			}
		})
		n, err := placement.New(p, placement.Options{Exact: -1})
		if err != nil {
			t.Fatal(err)
		}
		r, err := placement.Verify(p, n.Solve().Assignment)
		if err != nil || r.Placed < len(p.Instances) {
			return
		}
		all++
		switch {
		case r.Machines < fewest:
			t.Fatalf("%d machines, but the best assignment needs %d", r.Machines, fewest)
		case r.Machines > fewest:
			more++
		}
	})
	if 10*more > all+20 {
		t.Errorf("%d of %d problems with more machines than necessary", more, all)
	}
}
