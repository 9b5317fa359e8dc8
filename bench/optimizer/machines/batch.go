package machines

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// batch models AWS Batch on EC2 by the rules that its documentation states. What the documentation leaves open is
// decided in favour of Batch: a job starts as soon as its parents have ended and a slot is free, ECS reserves no
// memory, and every type is available.
type batch struct {
	// strategy is the allocation strategy; see choose.
	strategy string
	// keepHours is the scale-down delay. Without one, Batch ends idle instances when no job waits for them
	// (https://docs.aws.amazon.com/batch/latest/APIReference/API_ComputeScalingPolicy.html: 0, or 20 minutes and more).
	keepHours float64
}

const (
	bestFit                    = "BEST_FIT"
	bestFitProgressive         = "BEST_FIT_PROGRESSIVE"
	spotCapacityOptimized      = "SPOT_CAPACITY_OPTIMIZED"
	spotPriceCapacityOptimized = "SPOT_PRICE_CAPACITY_OPTIMIZED"
)

const (
	// batchLookHours is the time between two looks of Batch at its queue. The documentation says "regularly"; the
	// minute is our assumption.
	batchLookHours = 1.0 / 60
	// batchMostCPUs is maxvCpus of the compute environment: what a user would choose for these workflows.
	batchMostCPUs = 256
)

// batchFamilies are the families of default_x86_64, which `optimal` means since 2025-11-01
// (https://docs.aws.amazon.com/batch/latest/userguide/instance-type-compute-table.html).
var batchFamilies = []string{"m6i", "c6i", "r6i", "c7i"}

// plan simulates the workflow on one job queue with one compute environment. Tasks of one kind are an array job, and
// dependencies are from member to member (N_TO_N), so that each task waits only for its own parents
// (https://docs.aws.amazon.com/batch/latest/userguide/job_dependencies.html). An instance joins its ECS cluster, and
// runs jobs, when Docker is ready.
func (b *batch) plan(m *shared.Model, dockerHours float64, types map[string]kind) *shared.Plan {
	chosen := b.choose(m, familyMachines(m, batchFamilies), types)
	q := &queue{
		m: m, g: newGraph(m), startHours: dockerHours, slots: func(i int) int { return slots(&m.Machines[i]) },
		lookHours: batchLookHours, keepHours: b.keepHours,
	}
	q.buy = func(tasks, _ int) (requested []int) {
		held := 0
		for _, x := range q.bought {
			if x.to > q.now {
				held += int(m.Machines[x.machine].CPUs)
			}
		}
		for tasks > 0 && held < batchMostCPUs {
			i := fitting(m, chosen, min(tasks, batchMostCPUs-held))
			requested = append(requested, i)
			tasks -= slots(&m.Machines[i])
			held += int(m.Machines[i].CPUs)
		}
		return requested
	}
	return q.run()
}

// choose returns the types that the strategy requests, by size
// (https://docs.aws.amazon.com/batch/latest/userguide/allocation-strategies.html):
//   - BEST_FIT: the cheapest type that fits the job, and no other.
//   - BEST_FIT_PROGRESSIVE: types with a lower price per vCPU are preferred.
//   - SPOT_CAPACITY_OPTIMIZED: types that are less likely to be interrupted are preferred. The price does not matter,
//     so the model takes the type with the median price per vCPU of those that the Spot Advisor interrupts least.
//   - SPOT_PRICE_CAPACITY_OPTIMIZED: of those, the types with the lowest price.
func (b *batch) choose(m *shared.Model, all []int, types map[string]kind) []int {
	perCPU := func(i int) float64 { return m.Machines[i].USDPerHour / m.Machines[i].CPUs }
	byPrice := func(x, y int) int { return cmp.Or(cmp.Compare(perCPU(x), perCPU(y)), cmp.Compare(x, y)) }
	switch b.strategy {
	case bestFit:
		return []int{slices.MinFunc(all, func(x, y int) int {
			return cmp.Compare(m.Machines[x].USDPerHour, m.Machines[y].USDPerHour)
		})}
	case spotCapacityOptimized, spotPriceCapacityOptimized:
		least := math.MaxInt
		for _, i := range all {
			least = min(least, types[kindOf(m, i)].band)
		}
		all = slices.DeleteFunc(slices.Clone(all), func(i int) bool { return types[kindOf(m, i)].band > least })
		slices.SortFunc(all, byPrice)
		if b.strategy == spotCapacityOptimized {
			return all[len(all)/2:][:1]
		}
		return all[:1]
	}
	least := perCPU(slices.MinFunc(all, byPrice))
	all = slices.DeleteFunc(slices.Clone(all), func(i int) bool { return perCPU(i) > least*(1+1e-9) })
	slices.SortFunc(all, func(x, y int) int { return cmp.Compare(slots(&m.Machines[x]), slots(&m.Machines[y])) })
	return all
}

// fitting returns the largest type that the tasks fill, or the smallest.
func fitting(m *shared.Model, kinds []int, tasks int) int {
	best := kinds[0]
	for _, i := range kinds {
		if slots(&m.Machines[i]) <= tasks {
			best = i
		}
	}
	return best
}

// slots is the number of tasks with one vCPU and 2 GiB that fit on a machine.
func slots(k *shared.Machine) int { return int(min(k.CPUs, k.MemoryGiB/2)) }

// kindOf is the instance type of a machine.
func kindOf(m *shared.Model, i int) string {
	_, rest, _ := strings.Cut(m.Machines[i].ID, "/")
	kind, _, _ := strings.Cut(rest, "/")
	return kind
}

// familyMachines returns the virtual machines of some families.
func familyMachines(m *shared.Model, families []string) (some []int) {
	for i := range m.Machines {
		family, size, _ := strings.Cut(kindOf(m, i), ".")
		if slices.Contains(families, family) && !strings.HasPrefix(size, "metal") {
			some = append(some, i)
		}
	}
	return some
}

// kind is what the catalogue of AWS says about an instance type in a region.
type kind struct {
	amd64 bool
	band  int // of the Spot Advisor: how often its instances are interrupted; 0 is the least
}

func readKinds(data, region string) (map[string]kind, error) {
	bands := []string{"<5%", "5-10%", "10-15%", "15-20%", ">20%"}
	kinds := map[string]kind{}
	err := eachRow(filepath.Join(data, "catalog", "aws.csv.gz"), func(r map[string]string) {
		if r["Region"] != region {
			return
		}
		k := kind{amd64: r["Arch"] == "x86_64", band: slices.Index(bands, r["SpotInterruptionBand"])}
		if k.band < 0 {
			k.band = len(bands)
		}
		kinds[r["InstanceType"]] = k
	})
	return kinds, err
}
