package machines

import (
	"cmp"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// SkyPilot's optimizer takes the cheapest type of its default families that has what a task asks for, here 1+ vCPU and
// 2+ GiB (get_default_instance_type in
// https://github.com/skypilot-org/skypilot/blob/master/sky/catalog/aws_catalog.py).
var skyFamilies = []string{"m6i", "m6id", "m7i", "r6i", "r6id", "r7i", "c6i", "c6id", "c7i"}

const (
	// skyReadyHours is the time from the launch of an instance until it runs tasks, with SkyPilot's image for CPUs on
	// AWS, as its developers measured it: 73 s (https://github.com/skypilot-org/skypilot/pull/4091).
	skyReadyHours = 73.0 / 3600
	// skyPollHours is the time between two looks of the jobs controller at a job (JOB_STATUS_CHECK_GAP_SECONDS in
	// https://github.com/skypilot-org/skypilot/blob/master/sky/jobs/utils.py). The cluster is ended at the next look.
	skyPollHours = 15.0 / 3600
	skyWorkers   = 8
)

func skyType(m *shared.Model) int {
	return slices.MinFunc(familyMachines(m, skyFamilies), func(x, y int) int {
		return cmp.Compare(m.Machines[x].USDPerHour, m.Machines[y].USDPerHour)
	})
}

// skyClusters runs each task as a managed job, which has its own cluster
// (https://docs.skypilot.co/en/latest/examples/managed-jobs.html). A job is launched when its parents have ended, and
// the controller and its limits on launches cost nothing; all of this favours SkyPilot.
func skyClusters(m *shared.Model) *shared.Plan {
	g, i := newGraph(m), skyType(m)
	k := &m.Machines[i]
	p := &shared.Plan{Tasks: make([]shared.Run, len(m.Tasks)), Instances: make([]shared.Instance, len(m.Tasks))}
	for _, t := range g.order {
		ready := 0.0
		for _, parent := range g.parents[t] {
			ready = max(ready, p.Tasks[parent.task].To)
		}
		start := max(ready+skyReadyHours, arrival(m, g, p.Tasks, t, t, k.Place))
		end := start + m.Tasks[t].Hours/k.Speed
		looks := math.Ceil((end - start) / skyPollHours)
		p.Tasks[t] = shared.Run{On: t, From: start, To: end}
		p.Instances[t] = shared.Instance{Machine: i, From: ready, To: start + looks*skyPollHours}
		p.Hours = max(p.Hours, end)
	}
	return p
}

// skyPool runs all tasks on a pool with a fixed number of workers. Each worker runs one job at a time
// (https://docs.skypilot.co/en/latest/examples/pools.html). The user ends the pool with the last task.
func skyPool(m *shared.Model) *shared.Plan {
	q := &queue{
		m: m, g: newGraph(m), startHours: skyReadyHours, slots: func(int) int { return 1 },
		buy:       func(int, int) []int { return slices.Repeat([]int{skyType(m)}, skyWorkers) },
		lookHours: math.Inf(1), keepHours: math.Inf(1),
	}
	return q.run()
}
