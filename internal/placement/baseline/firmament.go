package baseline

import (
	"container/heap"

	"github.com/tradewind-broker/tradewind/pkg/placement"
)

// Rounds is the number of rounds after which Firmament gives up on clashing instances: its timeout.
const Rounds = 8

// detour is the additional cost of a machine after a clash, so that the next flow takes another path.
const detour = 1e-6

// Firmament is a plain min-cost flow in rounds. The network's capacities are scalars: the largest part of a machine
// that an instance takes. An edge to a machine is more expensive the fuller the machine is, so that load spreads. The
// network knows neither rules nor other resources. Edges from apps to racks all have the same cost and no limit, so
// the shortest path always ends at the cheapest machine with free capacity, and successive shortest paths take the
// machines from a heap. After each round, clashing and overflowing instances are removed and flow again. Priorities
// are ignored.
func Firmament(p *placement.Problem) placement.Assignment {
	c := newCluster(p)
	used := make([]float64, len(c.machines))
	var flows []int32
	for i := range p.Instances {
		flows = append(flows, int32(i)) //nolint:gosec // rows in memory
	}
	for range Rounds {
		q := &byLoad{load: used}
		for k := range c.machines {
			q.machine = append(q.machine, k)
		}
		heap.Init(q)
		var again []int32
		for _, i := range flows {
			a := p.Instances[i].App
			k := q.machine[0]
			if used[k]+c.size[a] > 1 {
				again = append(again, i)
				continue
			}
			if c.fits(k, a) {
				used[k] += c.size[a]
				c.put(k, i)
			} else { // Firmament detects this when the task is about to start
				used[k] += detour
				again = append(again, i)
			}
			heap.Fix(q, 0)
		}
		if len(again) == 0 || len(again) == len(flows) {
			break
		}
		flows = again
	}
	return c.at
}

// byLoad is a heap of machines, least loaded first.
type byLoad struct {
	machine []int
	load    []float64
}

func (q *byLoad) Len() int { return len(q.machine) }
func (q *byLoad) Less(i, j int) bool {
	a, b := q.machine[i], q.machine[j]
	return q.load[a] < q.load[b] || q.load[a] == q.load[b] && a < b
}
func (q *byLoad) Swap(i, j int) { q.machine[i], q.machine[j] = q.machine[j], q.machine[i] }
func (q *byLoad) Push(x any)    { q.machine = append(q.machine, x.(int)) }
func (q *byLoad) Pop() any {
	k := q.machine[len(q.machine)-1]
	q.machine = q.machine[:len(q.machine)-1]
	return k
}
