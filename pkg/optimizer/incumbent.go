package optimizer

// costStarts returns the plans that the search for a cheap plan starts from:
// every task where it is cheapest by itself, and all tasks together at the one
// place where that costs least, tasks that cannot run there where they are
// cheapest.
func costStarts(inst *instance) []plan {
	alone := make(plan, inst.nTask())
	atPlace := make([]float64, inst.nPlace)
	for t := range alone {
		opts := inst.options(int32(t)) // #nosec G115 -- at most MaxTasks
		for k := range opts {
			if opts[k].usd < opts[alone[t]].usd {
				alone[t] = int32(k) // #nosec G115 -- at most MaxCandidates
			}
		}
		addPlaceCosts(atPlace, opts, opts[alone[t]].usd)
	}
	moved := 0.0
	for i := range inst.edges {
		moved += inst.edges[i].sumGiB
	}
	best := 0
	for p := range atPlace {
		atPlace[p] += moved * inst.usd[p*inst.nPlace+p]
		if atPlace[p] < atPlace[best] {
			best = p
		}
	}
	together := make(plan, len(alone))
	for t := range together {
		together[t] = alone[t]
		for k, o := range inst.options(int32(t)) { // #nosec G115 -- at most MaxTasks
			if int(o.place) == best {
				together[t] = int32(k) // #nosec G115 -- at most MaxCandidates
				break
			}
		}
	}
	return []plan{alone, together}
}

// addPlaceCosts adds what a task costs at each place, and least where it has no
// option there.
func addPlaceCosts(atPlace []float64, opts []option, least float64) {
	p := 0
	for k := range opts {
		place := int(opts[k].place)
		if k > 0 && int(opts[k-1].place) == place {
			continue // a dearer one at the same place
		}
		for ; p < place; p++ {
			atPlace[p] += least
		}
		atPlace[p] += opts[k].usd
		p++
	}
	for ; p < len(atPlace); p++ {
		atPlace[p] += least
	}
}

// improver changes one task of a plan at a time to where it is cheapest, given
// the others, until none can be improved.
type improver struct {
	inst   *instance
	queued []bool
	queue  []int32
	cost   []float64
}

func newImprover(inst *instance) *improver {
	return &improver{inst: inst, queued: make([]bool, inst.nTask())}
}

// improve changes p for the given tasks, which must include the neighbours of
// each of them.
func (im *improver) improve(p plan, tasks []int32, m *meter) {
	im.queue = im.queue[:0]
	for _, t := range tasks {
		im.queue = append(im.queue, t)
		im.queued[t] = true
	}
	for head := 0; head < len(im.queue); head++ {
		t := im.queue[head]
		im.queued[t] = false
		if m.stopped || !im.place(p, t, m) {
			continue
		}
		for _, e := range im.inst.out.of(t) {
			im.enqueue(im.inst.edges[e].to)
		}
		for _, e := range im.inst.in.of(t) {
			im.enqueue(im.inst.edges[e].from)
		}
	}
}

func (im *improver) enqueue(t int32) {
	if !im.queued[t] {
		im.queued[t] = true
		im.queue = append(im.queue, t)
	}
}

// place moves task t to its best option and reports whether that is another
// than before. A gain too small to tell from rounding does not count, so the
// changes come to an end.
func (im *improver) place(p plan, t int32, m *meter) bool {
	opts := im.inst.options(t)
	im.cost = grow(im.cost, len(opts))
	im.inst.localCosts(im.cost, p, t)
	m.spend(len(opts) * (1 + len(im.inst.out.of(t)) + len(im.inst.in.of(t))))
	best := p[t]
	for k, x := range im.cost {
		if x < im.cost[best] {
			best = int32(k) // #nosec G115 -- at most MaxCandidates
		}
	}
	if best == p[t] || im.cost[best] >= im.cost[p[t]]-1e-12*im.cost[p[t]] {
		return false
	}
	p[t] = best
	return true
}
