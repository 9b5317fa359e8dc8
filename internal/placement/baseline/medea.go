package baseline

import (
	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// The weights of the comparison with Medea: a broken rule costs less than a machine.
const (
	MedeaRule    = 0.4
	MedeaMachine = 1.0
)

// Medea is a greedy method after Medea's heuristic: the largest apps first, each instance where the weighted sum of
// broken rules and a new machine is lowest. Capacities are respected, but rules are soft: if a machine costs more
// than a rule, rules are broken to save machines. The Aladdin paper's point is that no weights are right.
func Medea(p *placement.Problem, rule, machine float64) placement.Assignment {
	c := newCluster(p)
	used := 0
	for _, a := range c.decreasing() {
		from := 0 // machines before this one are too full
		for _, i := range c.instancesOf[a] {
			best, least := -1, 0.0
			for k := from; k < used; k++ {
				if !c.holds(k, a) {
					if k == from {
						from++
					}
					continue
				}
				cost := rule * float64(c.clashes(k, a))
				if best < 0 || cost < least {
					best, least = k, cost
				}
				if cost == 0 {
					break
				}
			}
			if best < 0 || least > machine {
				for k := used; k < len(c.machines); k++ {
					if c.holds(k, a) {
						best, used = k, k+1
						break
					}
				}
			}
			if best < 0 {
				break
			}
			c.put(best, i)
		}
	}
	return c.at
}
