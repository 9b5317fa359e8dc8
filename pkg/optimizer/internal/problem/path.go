package problem

// Path is a chain of tasks from one without producers to one without consumers, with the edges between them.
type Path struct {
	Tasks, Edges []int32
	// Price is the current price of the path's time in USD an hour. Best is the price that gave the best bound.
	Price, Best float64
}

// LengthOf returns the time of plan p along a path.
func (inst *Instance) LengthOf(p Plan, along *Path) float64 {
	total := 0.0
	for _, t := range along.Tasks {
		total += inst.Opts[inst.First[t]+p[t]].Hours
	}
	for _, e := range along.Edges {
		total += inst.TransferHours(p, e)
	}
	return total
}

// TransferHours returns the time of edge e in plan p.
func (inst *Instance) TransferHours(p Plan, e int32) float64 {
	l := &inst.Edges[e]
	return l.MaxGiB * inst.Hrs[inst.PlaceOf(p, l.From)*inst.NPlace+inst.PlaceOf(p, l.To)]
}

// LongestPath returns the longest path with the given times, and its length.
func (inst *Instance) LongestPath(hours, transfer []float64) (p Path, length float64) {
	n := inst.NTask()
	finish := make([]float64, n)
	via := make([]int32, n) // the last edge of the longest path to a task
	last := int32(-1)
	for _, t := range inst.Topo {
		via[t] = -1
		start := 0.0
		for _, e := range inst.In.Of(t) {
			if x := finish[inst.Edges[e].From] + transfer[e]; via[t] < 0 || x > start {
				start, via[t] = x, e
			}
		}
		finish[t] = start + hours[t]
		if last < 0 || finish[t] > finish[last] {
			last = t
		}
	}
	length = finish[last]
	// Continue to a task without consumers, so that the path is complete even if the rest takes no time.
	for len(inst.Out.Of(last)) > 0 {
		e := inst.Out.Of(last)[0]
		last = inst.Edges[e].To
		via[last] = e
	}
	for t := last; ; {
		p.Tasks = append(p.Tasks, t)
		if via[t] < 0 {
			break
		}
		p.Edges = append(p.Edges, via[t])
		t = inst.Edges[via[t]].From
	}
	return p, length
}
