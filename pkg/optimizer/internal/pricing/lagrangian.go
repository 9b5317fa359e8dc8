package pricing

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/network"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/problem"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/windows"
)

// Lagrangian bounds cost and makespan together. With a price of lambda USD an hour on the makespan, and a flow as a
// lower bound of the makespan,
//
//	value ≤ cost(x) + lambda · makespan(x)   for every plan x in the box,
//
// where value is the bound of a cost network in which every task and transfer costs its USD plus lambda × flow × its
// hours. A pricer finds the best lambda and flow.
type Lagrangian struct {
	inst   *problem.Instance
	Lambda float64
	Flow   flow

	// Net has a node for each task, in topological order, whose values are places. nodeOf maps a task to its node,
	// linkOf a pair to its edge.
	Net    *network.Network
	nodeOf []int32
	// dense means that a node's values are all places, with those without an option excluded, and that the pairs
	// refer to the instance's matrices. It is for networks whose own tables would need too much memory.
	dense  bool
	linkOf []int32
	// option is the best option of each value of each node at the current prices.
	option [][]int32
	// priced is the cost of each option at the current prices.
	priced []float64
	Buf    network.Scratch
}

// NewLagrangian returns a lagrangian without prices.
func NewLagrangian(inst *problem.Instance, th search.Thresholds) *Lagrangian {
	l := &Lagrangian{
		inst: inst, priced: make([]float64, len(inst.Opts)), nodeOf: make([]int32, inst.NTask()),
		Flow: flow{Task: make([]float64, inst.NTask()), edge: make([]float64, len(inst.Edges))},
	}
	for i, t := range inst.Topo {
		l.nodeOf[t] = int32(i) // #nosec G115 -- at most MaxTasks
	}
	entries := 0
	for i := range inst.Edges {
		e := &inst.Edges[i]
		entries += len(inst.SpansOf(e.From)) * len(inst.SpansOf(e.To))
	}
	l.dense = entries > th.TableEntries
	return l
}

// flow is a mixture of paths through the dependency graph: the amount that goes through each task and along each
// edge. The time of every path is at most the makespan. So the same is true for a mixture of paths, in every plan:
//
//	Σ task[t]·hours(t) + Σ edge[e]·transfer(e)  ≤  makespan
//
// This turns the maximum over exponentially many paths in equation 2 into a sum, which can be added to the costs.
type flow struct {
	Task, edge []float64
}

// Enter prepares for the options left in b. It keeps the results of earlier rounds for the remaining places.
func (l *Lagrangian) Enter(b *windows.Box) {
	old := l.Net
	if old != nil && l.dense {
		return // the places never change
	}
	l.Net = &network.Network{Nodes: make([]network.Node, len(l.inst.Topo))}
	l.option = make([][]int32, len(l.inst.Topo))
	l.linkOf = l.linkOf[:0]
	for i, t := range l.inst.Topo {
		nd := &l.Net.Nodes[i]
		nd.Task = t
		nd.Values = l.places(b, t)
		nd.Left = int32(len(nd.Values)) // #nosec G115 -- at most MaxPlaces
		nd.Reduced = make([]float64, len(nd.Values))
		l.option[i] = make([]int32, len(nd.Values))
	}
	for _, t := range l.inst.Topo {
		for _, e := range l.inst.Out.Of(t) {
			if edge := &l.inst.Edges[e]; edge.SumGiB > 0 {
				l.connect(edge)
				l.linkOf = append(l.linkOf, e)
			}
		}
	}
	if old != nil {
		l.Net.Inherit(old)
	}
}

// places returns the places that are values of task t's node.
func (l *Lagrangian) places(b *windows.Box, t int32) []int32 {
	var list []int32
	if l.dense {
		for p := range int32(l.inst.NPlace) { // #nosec G115 -- at most MaxPlaces
			list = append(list, p)
		}
		return list
	}
	for _, sp := range l.inst.SpansOf(t) {
		if slices.Contains(b.Alive[sp.Lo:sp.Hi], true) {
			list = append(list, sp.Place)
		}
	}
	return list
}

func (l *Lagrangian) connect(edge *problem.Link) {
	n := l.Net
	u, v := l.nodeOf[edge.From], l.nodeOf[edge.To]
	if l.dense {
		n.Connect(u, v, l.inst.USD)
		p := &n.Pairs[len(n.Pairs)-1]
		p.Transposed, p.Scale = l.inst.USDT, edge.SumGiB
		p.Second, p.SecondTrans = l.inst.Hrs, l.inst.HrsT
		return
	}
	n.Connect(u, v, make([]float64, len(n.Nodes[u].Values)*len(n.Nodes[v].Values)))
}

// Evaluate calculates value for the current lambda and flow. Afterwards, Excess returns the minimum that each option
// adds to it. If the meter stops it, the value is -Inf.
func (l *Lagrangian) Evaluate(b *windows.Box, m *search.Meter) (value float64) {
	n := l.Net
	n.Base = 0
	for i, t := range l.inst.Topo {
		l.priceOptions(b, int32(i), t) // #nosec G115 -- at most MaxTasks
	}
	for e := range n.Pairs {
		l.pricePair(e)
	}
	for e := range n.Pairs {
		p := &n.Pairs[e]
		addTo(n.Nodes[p.U].Reduced, p.ToU)
		addTo(n.Nodes[p.V].Reduced, p.ToV)
	}
	// The first sweep makes all residuals non-negative again with the new prices. Only then are they bounds.
	n.Sweep(false, search.Inf, &l.Buf, m)
	n.Sweep(true, search.Inf, &l.Buf, m)
	n.SettleAll(search.Inf)
	if m.Stopped {
		return -search.Inf
	}
	return n.Base
}

func (l *Lagrangian) priceOptions(b *windows.Box, i, t int32) {
	nd := &l.Net.Nodes[i]
	perHour := l.Lambda * l.Flow.Task[t]
	for a := range nd.Reduced {
		nd.Reduced[a] = search.Inf
	}
	a := 0
	for _, sp := range l.inst.SpansOf(t) {
		for a < len(nd.Values) && nd.Values[a] < sp.Place {
			a++
		}
		if a == len(nd.Values) || nd.Values[a] != sp.Place {
			continue
		}
		for o := sp.Lo; o < sp.Hi; o++ {
			if !b.Alive[o] {
				continue
			}
			opt := &l.inst.Opts[o]
			l.priced[o] = opt.USD + perHour*opt.Hours
			if l.priced[o] < nd.Reduced[a] {
				nd.Reduced[a] = l.priced[o]
				l.option[i][a] = o
			}
		}
	}
}

func (l *Lagrangian) pricePair(e int) {
	p := &l.Net.Pairs[e]
	edge := &l.inst.Edges[l.linkOf[e]]
	perGiB := l.Lambda * l.Flow.edge[l.linkOf[e]] * edge.MaxGiB
	if l.dense {
		p.More = perGiB
		return
	}
	to := l.Net.Nodes[p.V].Values
	for a, from := range l.Net.Nodes[p.U].Values {
		usd := l.inst.USD[int(from)*l.inst.NPlace:][:l.inst.NPlace]
		hrs := l.inst.Hrs[int(from)*l.inst.NPlace:][:l.inst.NPlace]
		row := p.Table[a*len(to):][:len(to)]
		for b, q := range to {
			row[b] = edge.SumGiB*usd[q] + perGiB*hrs[q]
		}
	}
}

func addTo(dst, src []float64) {
	for i, x := range src {
		dst[i] += x
	}
}

// Excess returns a lower bound on the amount that option o of task t adds to value.
func (l *Lagrangian) Excess(t, o int32) float64 {
	i := l.nodeOf[t]
	nd := &l.Net.Nodes[i]
	a, ok := slices.BinarySearch(nd.Values, l.inst.Opts[o].Place)
	if !ok {
		return search.Inf
	}
	return nd.Reduced[a] + l.priced[o] - l.priced[l.option[i][a]]
}

// Round returns the plan that the network suggests.
func (l *Lagrangian) Round() problem.Plan {
	value, _ := l.Net.Round(&l.Buf)
	p := make(problem.Plan, len(l.nodeOf))
	for i, t := range l.inst.Topo {
		p[t] = l.option[i][value[i]] - l.inst.First[t]
	}
	return p
}
