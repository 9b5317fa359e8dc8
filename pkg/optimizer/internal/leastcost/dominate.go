package leastcost

import (
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
)

// Domination compares places by the maximum cost difference of transfers to or from them.
type Domination struct {
	inst *problem.Instance
	// out[b][a] is the maximum extra cost of sending a GiB from place b instead of from a, over all destinations.
	// in[b][a] is the same for receiving. Rows are computed when first needed.
	out, in [][]float64
}

// NewDomination returns a Domination without computed rows.
func NewDomination(inst *problem.Instance) *Domination {
	return &Domination{inst: inst, out: make([][]float64, inst.NPlace), in: make([][]float64, inst.NPlace)}
}

// filter clears alive for those options of task t that cost no less than its cheapest option, even if the neighbours
// are at the best places for them.
func (d *Domination) filter(t int32, alive []bool) {
	opts := d.inst.Options(t)
	best := -1
	for k := range opts {
		if alive[k] && (best < 0 || opts[k].USD < opts[best].USD) {
			best = k
		}
	}
	sent, received := DataMoved(d.inst, t)
	out, in := d.Rows(opts[best].Place)
	for k := range opts {
		if k == best || !alive[k] {
			continue
		}
		p := opts[k].Place
		if opts[best].USD+sent*out[p]+received*in[p] <= opts[k].USD {
			alive[k] = false
		}
	}
}

// DataMoved returns how much data leaves task t and how much arrives, in GiB.
func DataMoved(inst *problem.Instance, t int32) (sent, received float64) {
	for _, e := range inst.Out.Of(t) {
		sent += inst.Edges[e].SumGiB
	}
	for _, e := range inst.In.Of(t) {
		received += inst.Edges[e].SumGiB
	}
	return sent, received
}

// Rows returns row b of out and of in.
func (d *Domination) Rows(b int32) (out, in []float64) {
	if d.out[b] == nil {
		d.out[b] = worstExcess(d.inst.USD, d.inst.NPlace, int(b))
		d.in[b] = worstExcess(d.inst.USDT, d.inst.NPlace, int(b))
	}
	return d.out[b], d.in[b]
}

// worstExcess returns, for each row a of an n×n matrix, the maximum by which an entry of row b exceeds the entry of
// row a in the same column.
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
