package problem

// Path is a chain of tasks from one without producers to one without consumers,
// and the edges between them.
type Path struct {
	Tasks, Edges []int32
	// Price is what the path's time costs at present, best where it gave the
	// Best bound, in USD an hour.
	Price, Best float64
}

// LengthOf is the time of plan p along a path.
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

// TransferHours is how long edge e takes in plan p.
func (inst *Instance) TransferHours(p Plan, e int32) float64 {
	l := &inst.Edges[e]
	return l.MaxGiB * inst.Hrs[inst.PlaceOf(p, l.From)*inst.NPlace+inst.PlaceOf(p, l.To)]
}

// LongestPath is the longest path under the given times, and its length.
func (inst *Instance) LongestPath(hours, transfer []float64) (p Path, length float64) {
	n := inst.NTask()
	finish := make([]float64, n)
	via := make([]int32, n) // the edge that the longest path to a task came by
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
	// go on to the end, so that the path is a whole one even where what
	// follows takes no time
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
