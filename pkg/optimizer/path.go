package optimizer

// path is a chain of tasks from one without producers to one without consumers,
// and the edges between them.
type path struct {
	tasks, edges []int32
	// price is what the path's time costs at present, best where it gave the
	// best bound, in USD an hour.
	price, best float64
}

// lengthOf is the time of plan p along a path.
func (inst *instance) lengthOf(p plan, along *path) float64 {
	total := 0.0
	for _, t := range along.tasks {
		total += inst.opts[inst.first[t]+p[t]].hours
	}
	for _, e := range along.edges {
		total += inst.transferHours(p, e)
	}
	return total
}

func (inst *instance) transferHours(p plan, e int32) float64 {
	l := &inst.edges[e]
	return l.maxGiB * inst.hrs[inst.placeOf(p, l.from)*inst.nPlace+inst.placeOf(p, l.to)]
}

// longestPath is the longest path under the given times, and its length.
func (inst *instance) longestPath(hours, transfer []float64) (p path, length float64) {
	n := inst.nTask()
	finish := make([]float64, n)
	via := make([]int32, n) // the edge that the longest path to a task came by
	last := int32(-1)
	for _, t := range inst.topo {
		via[t] = -1
		start := 0.0
		for _, e := range inst.in.of(t) {
			if x := finish[inst.edges[e].from] + transfer[e]; via[t] < 0 || x > start {
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
	for len(inst.out.of(last)) > 0 {
		e := inst.out.of(last)[0]
		last = inst.edges[e].to
		via[last] = e
	}
	for t := last; ; {
		p.tasks = append(p.tasks, t)
		if via[t] < 0 {
			break
		}
		p.edges = append(p.edges, via[t])
		t = inst.edges[via[t]].from
	}
	return p, length
}
