package planner

import (
	"cmp"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/shared"
)

// retimed returns a plan with the times of another model that has the same machines, which may be faster. Instances
// are requested at the same times, and their tasks keep their order. Each task starts as early as possible.
func retimed(m *shared.Model, p *shared.Plan) *shared.Plan {
	out := &shared.Plan{Instances: slices.Clone(p.Instances), Tasks: make([]shared.Run, len(p.Tasks))}
	lines := make([]line, len(p.Instances))
	for i := range lines {
		lines[i].at = p.Instances[i].From + m.Machines[p.Instances[i].Machine].BootHours
		out.Instances[i].To = lines[i].at
	}
	order := make([]int, len(p.Tasks))
	for t := range order {
		order[t] = t
	}
	slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(p.Tasks[x].From, p.Tasks[y].From) })
	parents := parentsOf(m)
	for _, t := range order {
		on := p.Tasks[t].On
		k := &m.Machines[p.Instances[on].Machine]
		from := 0.0
		for _, in := range parents[t] {
			at := out.Tasks[in.task]
			arrives := at.To
			if at.On != on {
				arrives += in.gib * m.HoursPerGiB[m.Machines[p.Instances[at.On].Machine].Place][k.Place]
			}
			from = max(from, arrives)
		}
		from = lines[on].fit(k, &m.Tasks[t], from)
		out.Tasks[t] = shared.Run{On: on, From: from, To: from + m.Tasks[t].Hours/k.Speed}
		lines[on].running = append(lines[on].running, load{out.Tasks[t].To, m.Tasks[t].CPUs, m.Tasks[t].MemoryGiB})
		out.Instances[on].To = max(out.Instances[on].To, out.Tasks[t].To)
		out.Hours = max(out.Hours, out.Tasks[t].To)
	}
	for _, x := range out.Instances {
		k := &m.Machines[x.Machine]
		out.USD += billedHours(k, x.To-x.From) * k.USDPerHour
	}
	out.USD += movedUSD(m, out)
	return out
}

type parent struct {
	task int
	gib  float64
}

func parentsOf(m *shared.Model) [][]parent {
	parents := make([][]parent, len(m.Tasks))
	if len(m.Edges) == 0 {
		return parents
	}
	index := indexOf(m)
	for _, e := range m.Edges {
		to := index[e.To]
		parents[to] = append(parents[to], parent{index[e.From], e.GiB})
	}
	return parents
}

// line is an instance while its tasks get new times. No task starts before the previous one.
type line struct {
	at      float64
	running []load
}

type load struct{ to, cpus, gib float64 }

// fit returns the earliest start of a task that may start from a time on, and moves the line to it.
func (l *line) fit(k *shared.Machine, t *shared.Task, from float64) float64 {
	l.at = max(l.at, from)
	for {
		l.running = slices.DeleteFunc(l.running, func(r load) bool { return r.to <= l.at })
		next, cpus, gib := 0.0, t.CPUs, t.MemoryGiB
		for i, r := range l.running {
			cpus, gib = cpus+r.cpus, gib+r.gib
			if i == 0 || r.to < next {
				next = r.to
			}
		}
		const rounding = 1e-9
		if len(l.running) == 0 || cpus <= k.CPUs+rounding && gib <= k.MemoryGiB+rounding {
			return l.at
		}
		l.at = next
	}
}
