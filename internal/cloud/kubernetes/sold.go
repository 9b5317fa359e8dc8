package kubernetes

import (
	"cmp"
	"context"
	"slices"
)

// Sold is a type of node in a zone of a place. Parts of such a node can be bought.
type Sold struct {
	Place string
	Node  Node // the largest node of its type; its Spot is not used
	// Spot and OnDemand report which kinds of such nodes exist, or could be added.
	Spot, OnDemand bool
}

// Shapes returns the parts in which it is sold.
func (s Sold) Shapes() []Shape {
	const gib = 1 << 30
	all := Shapes(s.Node.Type, float64(s.Node.Whole.MilliCPU)/1000, float64(s.Node.Whole.Bytes)/gib, s.Node.Whole.GPUs)
	for i := range all {
		all[i].Part = s.Node.Part
	}
	return all
}

// Sells returns the existing nodes of every place, and nodes that the place could add. failed has the error of each
// place that does not answer.
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

// gather merges nodes of the same type and zone.
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
