// Package judge checks answers of the shared form of the optimizer, rule by rule. It uses the types of package shared
// and none of its code, so that an error of the solver does not excuse itself.
package judge

import (
	"fmt"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// Check checks every rule of the shared form, and returns the recomputed cost and the end of the last task. It allows
// an error of tolerance, in hours, vCPUs, GiB and GPUs; with 0 it is strict.
func Check(m *shared.Model, p *shared.Plan, tolerance float64) (usd, hours float64, err error) {
	j := answer{m, p, tolerance}
	if len(p.Tasks) != len(m.Tasks) {
		return 0, 0, fmt.Errorf("%d of %d tasks have a time", len(p.Tasks), len(m.Tasks))
	}
	for _, check := range []func() error{j.checkInstances, j.checkTasks, j.checkEdges, j.checkLoads} {
		if err := check(); err != nil {
			return 0, 0, err
		}
	}
	for _, r := range p.Tasks {
		hours = max(hours, r.To)
	}
	usd = j.cost()
	if m.DeadlineHours != nil && hours > *m.DeadlineHours+tolerance {
		return 0, 0, fmt.Errorf("ends at %v h, after the deadline of %v h", hours, *m.DeadlineHours)
	}
	if m.BudgetUSD != nil && usd > *m.BudgetUSD*(1+tolerance) {
		return 0, 0, fmt.Errorf("costs %v USD of a budget of %v USD", usd, *m.BudgetUSD)
	}
	return usd, hours, nil
}

type answer struct {
	m         *shared.Model
	p         *shared.Plan
	tolerance float64
}

func (j *answer) checkInstances() error {
	if most := j.m.MostInstances; most > 0 && len(j.p.Instances) > most {
		return fmt.Errorf("%d instances, more than %d", len(j.p.Instances), most)
	}
	count := map[int]int{}
	for i, x := range j.p.Instances {
		if x.Machine < 0 || x.Machine >= len(j.m.Machines) {
			return fmt.Errorf("instance %d is of machine %d, which does not exist", i, x.Machine)
		}
		k := &j.m.Machines[x.Machine]
		if count[x.Machine]++; count[x.Machine] > k.Most {
			return fmt.Errorf("more than %d instances of %s", k.Most, k.ID)
		}
		if x.From < 0 || x.To < x.From || math.IsNaN(x.From) || math.IsInf(x.To, 0) || math.IsNaN(x.To) {
			return fmt.Errorf("instance %d is rented from %v to %v", i, x.From, x.To)
		}
	}
	return nil
}

func (j *answer) checkTasks() error {
	for t, r := range j.p.Tasks {
		id := j.m.Tasks[t].ID
		if r.On < 0 || r.On >= len(j.p.Instances) {
			return fmt.Errorf("task %s is on instance %d, which does not exist", id, r.On)
		}
		x := j.p.Instances[r.On]
		k := &j.m.Machines[x.Machine]
		hours := j.m.Tasks[t].Hours / k.Speed
		switch {
		case !(r.From >= x.From+k.BootHours-j.tolerance) || !(r.From-x.From >= k.BootHours-j.tolerance):
			return fmt.Errorf("task %s starts at %v, before its instance has booted", id, r.From)
		case !(r.To <= x.To+j.tolerance):
			return fmt.Errorf("task %s ends at %v, after its instance", id, r.To)
		case !(r.To >= r.From+hours-j.tolerance) || !(r.To-r.From >= hours-j.tolerance):
			return fmt.Errorf("task %s runs for %v h of %v h", id, r.To-r.From, hours)
		}
	}
	return nil
}

func (j *answer) checkEdges() error {
	index := map[string]int{}
	for t := range j.m.Tasks {
		index[j.m.Tasks[t].ID] = t
	}
	for _, e := range j.m.Edges {
		from, to := j.p.Tasks[index[e.From]], j.p.Tasks[index[e.To]]
		move := 0.0
		if from.On != to.On {
			a, b := j.place(from.On), j.place(to.On)
			move = e.GiB * j.m.HoursPerGiB[a][b]
		}
		if !(to.From >= from.To+move-j.tolerance) || !(to.From-from.To >= move-j.tolerance) {
			return fmt.Errorf("task %s starts at %v, before the output of %s, %v + %v", e.To, to.From, e.From, from.To,
				move)
		}
	}
	return nil
}

func (j *answer) place(instance int) int { return j.m.Machines[j.p.Instances[instance].Machine].Place }

// checkLoads adds up, at the start of each task, the resources that the tasks of its instance hold.
func (j *answer) checkLoads() error {
	tasks := make([][]int, len(j.p.Instances))
	for t, r := range j.p.Tasks {
		tasks[r.On] = append(tasks[r.On], t)
	}
	for i, all := range tasks {
		k := &j.m.Machines[j.p.Instances[i].Machine]
		has := [3]float64{k.CPUs, k.MemoryGiB, k.GPUs}
		slices.SortFunc(all, func(a, b int) int {
			if j.p.Tasks[a].From < j.p.Tasks[b].From {
				return -1
			}
			return 1
		})
		var running []int
		for _, t := range all {
			now := j.p.Tasks[t].From
			running = slices.DeleteFunc(running, func(o int) bool { return j.p.Tasks[o].To <= now })
			running = append(running, t)
			var used [3]float64
			for _, o := range running {
				for d, x := range [3]float64{j.m.Tasks[o].CPUs, j.m.Tasks[o].MemoryGiB, j.m.Tasks[o].GPUs} {
					used[d] += x
				}
			}
			for d := range used {
				if used[d] > has[d]+j.tolerance {
					return fmt.Errorf("instance %d (%s) has %v, and its tasks hold %v at %v h", i, k.ID, has, used, now)
				}
			}
		}
	}
	return nil
}

func (j *answer) cost() float64 {
	usd := 0.0
	for _, x := range j.p.Instances {
		k := &j.m.Machines[x.Machine]
		billed := max(k.MinimumHours, x.To-x.From)
		if k.IncrementHours > 0 {
			billed = math.Ceil(billed/k.IncrementHours) * k.IncrementHours
		}
		usd += k.USDPerHour * billed
	}
	index := map[string]int{}
	for t := range j.m.Tasks {
		index[j.m.Tasks[t].ID] = t
	}
	for _, e := range j.m.Edges {
		from, to := j.p.Tasks[index[e.From]].On, j.p.Tasks[index[e.To]].On
		if from != to {
			usd += e.GiB * j.m.USDPerGiB[j.place(from)][j.place(to)]
		}
	}
	return usd
}
