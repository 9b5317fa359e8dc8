package optimizer

// domination compares places by what the transfers of any task could cost more
// from one than from another.
type domination struct {
	inst *instance
	// out[b][a] is the most that a GiB sent from place b can cost over one
	// sent from a, over all destinations; in[b][a] the same for a GiB
	// received. Rows are made when they are first needed.
	out, in [][]float64
}

func newDomination(inst *instance) *domination {
	return &domination{inst: inst, out: make([][]float64, inst.nPlace), in: make([][]float64, inst.nPlace)}
}

// filter clears alive for those of task t's options that cost no less than its
// cheapest one even if the neighbours are where that suits them best.
func (d *domination) filter(inst *instance, t int32, alive []bool) {
	opts := inst.options(t)
	best := -1
	for k := range opts {
		if alive[k] && (best < 0 || opts[k].usd < opts[best].usd) {
			best = k
		}
	}
	sent, received := moved(inst, t)
	out, in := d.rows(opts[best].place)
	for k := range opts {
		if k == best || !alive[k] {
			continue
		}
		p := opts[k].place
		if opts[best].usd+sent*out[p]+received*in[p] <= opts[k].usd {
			alive[k] = false
		}
	}
}

// moved is how much data leaves task t and comes to it, GiB.
func moved(inst *instance, t int32) (sent, received float64) {
	for _, e := range inst.out.of(t) {
		sent += inst.edges[e].sumGiB
	}
	for _, e := range inst.in.of(t) {
		received += inst.edges[e].sumGiB
	}
	return sent, received
}

func (d *domination) rows(b int32) (out, in []float64) {
	if d.out[b] == nil {
		d.out[b] = worstExcess(d.inst.usd, d.inst.nPlace, int(b))
		d.in[b] = worstExcess(d.inst.usdT, d.inst.nPlace, int(b))
	}
	return d.out[b], d.in[b]
}

// worstExcess returns, for each row a of an n×n matrix, the most by which an
// entry of row b exceeds the entry of row a in the same column.
func worstExcess(matrix []float64, n, b int) []float64 {
	worst := make([]float64, n)
	rowB := matrix[b*n:][:n]
	for a := range worst {
		rowA := matrix[a*n:][:n]
		w := rowB[0] - rowA[0]
		for q := range rowA {
			if x := rowB[q] - rowA[q]; x > w {
				w = x
			}
		}
		worst[a] = w
	}
	return worst
}
