package record

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// TestDrained checks which of three workers take no more tasks: the first is planned for 1 hour, the second for 3, and the
// third, twice as large and bought after 2 hours, for another 2. Each task costs 1 USD, as does an hour of a worker.
func TestDrained(t *testing.T) {
	start := time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	const tasks = 5
	spec := &dag.Job{Tasks: make([]dag.Task, tasks+3)}
	plan := &Plan{At: start, Hours: 4, TaskHours: make([]float64, tasks+3), TaskUSD: make([]float64, tasks+3),
		Choice: make([]int32, tasks+3), From: make([]float64, tasks+3)}
	for i := range tasks {
		spec.Tasks[i].ShareGroup, plan.TaskUSD[i] = 1, 1
	}
	hour := apitypes.Offer{USDPerHour: 1, BootSeconds: 60}
	plan.Offers = []Planned{{Offer: hour, VCPU: 2, MemoryGiB: 4}, {Offer: hour, VCPU: 4, MemoryGiB: 8}}
	for i, hours := range []float64{1, 3, 2} {
		spec.Tasks[tasks+i].Worker, plan.TaskHours[tasks+i] = &dag.Worker{}, hours
	}
	plan.Choice[tasks+2], plan.From[tasks+2] = 1, 2
	for name, c := range map[string]struct {
		at        time.Duration
		left      int   // tasks that have not ended
		uses      []int // tasks on the first worker
		here      []int // workers that have joined
		deadline  time.Duration
		objective dag.Objective
		late      bool // the plan is
		small     bool // the third worker is not larger than the others
		want      []int
	}{
		"its time is not over":         {at: 59 * time.Minute, left: 1, here: []int{0, 1}},
		"the other can do the rest":    {at: time.Hour, left: 2, here: []int{0, 1}, want: []int{0}},
		"it cannot":                    {at: time.Hour, left: 3, here: []int{0, 1}},
		"it can, as two run":           {at: time.Hour, left: 3, uses: []int{0, 1}, here: []int{0, 1}, want: []int{0}},
		"two have just ended":          {at: time.Hour, left: 3, uses: []int{3, 4}, here: []int{0, 1}},
		"a little late":                {at: 66 * time.Minute, left: 2, here: []int{0, 1}, want: []int{0}},
		"with a deadline":              {at: 66 * time.Minute, left: 2, here: []int{0, 1}, deadline: 1},
		"time counts":                  {at: 66 * time.Minute, left: 2, here: []int{0, 1}, objective: dag.MinimizeWeighted},
		"as fast as possible":          {at: time.Hour, left: 1, here: []int{0, 1}, objective: dag.MinimizeMakespan},
		"the plan is late":             {at: time.Hour, left: 1, here: []int{0, 1}, late: true},
		"the second was lost":          {at: time.Hour, left: 1, here: []int{0}},
		"it was lost, and tasks ended": {at: time.Hour, left: 1, uses: []int{2, 3, 4}, here: []int{0}},
		"two are over":                 {at: 3 * time.Hour, left: 1, here: []int{0, 1, 2}, want: []int{0, 1}},
		"the third boots":              {at: 3 * time.Hour, left: 1, here: []int{0, 1}},
		"all are over":                 {at: 5 * time.Hour, left: 1, here: []int{0, 1, 2}},
		"the others are too small":     {at: 3 * time.Hour, left: 1, here: []int{0, 1, 2}, small: true},
	} {
		t.Run(name, func(t *testing.T) {
			plan, spec := *plan, *spec
			spec.Deadline, spec.Objective, plan.Late = c.deadline, cmp.Or(c.objective, dag.MinimizeCost), c.late
			if c.small {
				plan.Offers = slices.Clone(plan.Offers)
				plan.Offers[1].MemoryGiB = 2
			}
			progress := Progress{}
			for i := range tasks {
				phase := PhaseSucceeded
				if i < c.left {
					phase = PhaseWaiting
				}
				progress.Phases = append(progress.Phases, phase)
			}
			var part Partition
			for _, i := range c.here {
				part.Machines = append(part.Machines, PoolMachine{ID: WorkerName(tasks+i, 1),
					Worker: PoolWorker{Task: tasks + i, Attempt: 1, Offer: hour}})
			}
			for _, task := range c.uses {
				part.Machines[0].Uses = append(part.Machines[0].Uses, PoolUse{Cluster: ClusterID("j", task, 1)})
			}
			var got []int
			for _, i := range plan.Drained(&spec, progress, &part, 0, start.Add(c.at)) {
				got = append(got, i-tasks)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v take no more tasks, want %v", got, c.want)
			}
		})
	}
}
