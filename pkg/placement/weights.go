package placement

import (
	"math/big"
	"slices"
)

// Weights returns the priorities in use, in ascending order, and the weights of their flows (paper, section III.B,
// equations 3 to 5). w_1 = 1, and each class weighs more than all instances of the classes below it together, so that
// no number of them outweighs one instance of it.
//
// The weights grow like the product of the class sizes. [Network] avoids such large numbers: it compares the number
// of placed instances in each class, from the highest class down. The order is the same.
func Weights(p *Problem) (priorities []int, weights []*big.Int) {
	perClass := map[int]int64{}
	for _, in := range p.Instances {
		perClass[p.Apps[in.App].Priority]++
	}
	for priority := range perClass {
		priorities = append(priorities, priority)
	}
	slices.Sort(priorities)
	below := new(big.Int)
	for _, priority := range priorities {
		w := new(big.Int).Add(below, big.NewInt(1))
		weights = append(weights, w)
		below = new(big.Int).Add(below, new(big.Int).Mul(w, big.NewInt(perClass[priority])))
	}
	return priorities, weights
}

// Value returns the weighted flow of an assignment: the sum of the weights of the placed instances.
func Value(p *Problem, a Assignment) *big.Int {
	priorities, weights := Weights(p)
	sum := new(big.Int)
	for i, m := range a {
		if m != Unplaced {
			at, _ := slices.BinarySearch(priorities, p.Apps[p.Instances[i].App].Priority)
			sum.Add(sum, weights[at])
		}
	}
	return sum
}
