package baseline

import (
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// stretches is the number of means that represent a curve in a dot product.
const stretches = 14

// DotProduct fills one machine after another. Each step places the fitting instance whose demand has the largest dot
// product with the machine's free capacity (Panigrahy et al., Heuristics for Vector Bin Packing, 2011).
func DotProduct(p *placement.Problem) placement.Assignment {
	c := newCluster(p)
	need := make([][]float32, len(p.Apps))
	for a := range p.Apps {
		need[a] = c.means(p.Apps[a].Demand)
	}
	apps := c.decreasing()
	left := make([]int, len(p.Apps)) // instances before this one are placed
	for k := range c.machines {
		var open []int32
		for _, a := range apps {
			if left[a] < len(c.instancesOf[a]) {
				open = append(open, a)
			}
		}
		for len(open) > 0 {
			free := c.means(c.freeOf(k))
			best, most := int32(-1), float32(-1)
			kept := open[:0]
			for _, a := range open {
				if left[a] == len(c.instancesOf[a]) {
					continue
				}
				score := dot(free, need[a])
				if score > most {
					if !c.fits(k, a) {
						continue // it will not fit on this machine later either
					}
					best, most = a, score
				}
				kept = append(kept, a)
			}
			open = kept
			if best < 0 {
				break
			}
			c.put(k, c.instancesOf[best][left[best]])
			left[best]++
		}
	}
	return c.at
}

// means converts a vector to parts of a machine and reduces each curve to the means of its stretches.
func (c *cluster) means(v []int64) []float32 {
	var m []float32
	begin := 0
	for _, r := range c.p.Resources {
		parts := min(stretches, r.Points)
		for i := range parts {
			from, to := begin+i*r.Points/parts, begin+(i+1)*r.Points/parts
			sum := 0.0
			for d := from; d < to; d++ {
				sum += float64(v[d]) * c.scale[d]
			}
			m = append(m, float32(sum/float64(to-from)))
		}
		begin += r.Points
	}
	return m
}

func dot(x, y []float32) float32 {
	s := float32(0)
	for i := range x {
		s += x[i] * y[i]
	}
	return s
}
