package kubernetes

import (
	"cmp"
	"context"
	"slices"
)

// Sold is a type of node in a zone of a place, parts of which can be bought.
type Sold struct {
	Place string
	Node  Node // the largest of its type; Spot means nothing here
	// Spot and OnDemand say which kinds of such nodes there are, or could be.
	Spot, OnDemand bool
}

// Shapes are the parts that it is sold in.
func (s Sold) Shapes() []Shape {
	const gib = 1 << 30
	all := Shapes(s.Node.Type, float64(s.Node.Whole.MilliCPU)/1000, float64(s.Node.Whole.Bytes)/gib, s.Node.Whole.GPUs)
	for i := range all {
		all[i].Part = s.Node.Part
	}
	return all
}

// Sells asks every place what it has, and what it could grow to. A place that does not answer is named in failed.
func (c *Cloud) Sells(ctx context.Context) (sold []Sold, failed map[string]error) {
	failed = map[string]error{}
	for i := range c.cfg.Places {
		p := &c.cfg.Places[i]
		nodes, _, _, err := c.look(ctx, p)
		if err == nil {
			var pools []Pool
			if pools, err = p.growing(ctx); err == nil {
				for _, pool := range pools {
					nodes = append(nodes, pool.Node)
				}
			}
		}
		if err != nil {
			failed[p.Name] = Typed(err)
			continue
		}
		sold = append(sold, gather(p.Name, nodes)...)
	}
	return sold, failed
}

// gather puts nodes of one type in one zone together.
func gather(place string, nodes []Node) []Sold {
	type key struct{ kind, zone, share string }
	byType := map[key]Sold{}
	for _, n := range nodes {
		k := key{n.Type, n.Zone, n.Part}
		s, there := byType[k]
		if !there || n.Whole.MilliCPU > s.Node.Whole.MilliCPU {
			s.Place, s.Node = place, n
		}
		s.Spot, s.OnDemand = s.Spot || n.Spot, s.OnDemand || !n.Spot
		byType[k] = s
	}
	all := make([]Sold, 0, len(byType))
	for _, s := range byType {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b Sold) int {
		return cmp.Or(cmp.Compare(a.Node.Type, b.Node.Type), cmp.Compare(a.Node.Zone, b.Node.Zone),
			cmp.Compare(a.Node.Part, b.Node.Part))
	})
	return all
}
