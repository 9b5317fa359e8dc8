package machines

import (
	"fmt"
	"math"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/optimizer"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// fork is a task, four that depend on it, and one that depends on all of these, of 6 minutes each.
func fork() *shared.Model {
	m := &shared.Model{
		Places: []string{"aws:us-east-1"}, USDPerGiB: [][]float64{{0}}, HoursPerGiB: [][]float64{{0}},
	}
	for i, name := range []string{"c6i.large", "c6i.xlarge", "m6i.large"} {
		m.Machines = append(m.Machines, shared.Machine{
			ID: "aws:us-east-1/" + name + "/on-demand", CPUs: []float64{2, 4, 2}[i], MemoryGiB: []float64{4, 8, 8}[i],
			USDPerHour: []float64{0.6, 1.2, 0.9}[i], Speed: 1, BootHours: 0.01, MinimumHours: 1.0 / 60,
			IncrementHours: 1.0 / 3600, Most: 10,
		})
	}
	for i := range 6 {
		m.Tasks = append(m.Tasks, shared.Task{ID: fmt.Sprint(i), CPUs: 1, MemoryGiB: 2, Hours: 0.1})
		if i > 0 && i < 5 {
			m.Edges = append(m.Edges, optimizer.Edge{From: "0", To: fmt.Sprint(i)}, optimizer.Edge{From: fmt.Sprint(i), To: "5"})
		}
	}
	return m
}

// TestServices checks cost and time of a fork with figures worked out by hand: 3.9 minutes until Docker is ready, looks
// at each whole minute.
func TestServices(t *testing.T) {
	const docker = 3.9 / 60
	for _, c := range []struct {
		name         string
		plan         func(*shared.Model) *shared.Plan
		usd, minutes float64
		instances    int
	}{
		// The first instance runs a task until 9.9 and two of the four until 15.9. The one that is bought at 10 runs the
		// other two from 13.9 to 19.9, and, unless the first one is kept, the last until 25.9.
		{"BEST_FIT", func(m *shared.Model) *shared.Plan {
			return (&batch{strategy: bestFit}).plan(m, docker, nil)
		}, 0.01 * (16 + 16), 25.9, 2},
		{"BEST_FIT with a delay", func(m *shared.Model) *shared.Plan {
			return (&batch{strategy: bestFit, keepHours: 20.0 / 60}).plan(m, docker, nil)
		}, 0.01 * (46 + 30), 25.9, 2},
		// Each instance lives for 73 s and 6 min.
		{"a cluster for each task", skyClusters, 6 * 0.6 * (73 + 360) / 3600, 3 * (73.0 + 360) / 60, 6},
		// Eight workers for 73 s and three times 6 min.
		{"a pool", skyPool, 8 * 0.6 * (73 + 3*360) / 3600, (73.0 + 3*360) / 60, 8},
	} {
		m := fork()
		usd, hours, err := theirs(m, c.plan)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if math.Abs(60*hours-c.minutes) > 1e-6 || math.Abs(usd-c.usd) > 3e-3*c.usd {
			t.Errorf("%s: %v USD and %v min, want %v and %v", c.name, usd, 60*hours, c.usd, c.minutes)
		}
		if n := len(c.plan(m).Instances); n != c.instances {
			t.Errorf("%s: %d instances, want %d", c.name, n, c.instances)
		}
	}
}

// TestBatchChoosesTypes checks the types that the allocation strategies request.
func TestBatchChoosesTypes(t *testing.T) {
	m := fork()
	types := map[string]kind{"c6i.large": {band: 3}, "c6i.xlarge": {band: 1}, "m6i.large": {band: 1}}
	for strategy, want := range map[string][]int{
		bestFit:                    {0},
		bestFitProgressive:         {0, 1},
		spotPriceCapacityOptimized: {1},
		spotCapacityOptimized:      {2},
	} {
		b := batch{strategy: strategy}
		if got := b.choose(m, familyMachines(m, batchFamilies), types); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s requests %v, want %v", strategy, got, want)
		}
	}
	if i := fitting(m, []int{0, 1}, 3); i != 0 {
		t.Errorf("three tasks do not fill machine %d", i)
	}
	if i := fitting(m, []int{0, 1}, 5); i != 1 {
		t.Errorf("five tasks fill the larger machine, not %d", i)
	}
}
