package parsync

import "fmt"

// Quota is what a group of queues may use of a resource, in the resource's own unit (ATC '21, §2): at least Min while it
// has work, and up to Max while others leave room.
type Quota struct {
	Group    string
	Min, Max float64
}

// Validate fails with ErrInvalid, naming the field.
func (q Quota) Validate() error {
	switch {
	case q.Group == "":
		return fmt.Errorf("%w: group: a quota needs a name", ErrInvalid)
	case !(q.Min >= 0):
		return fmt.Errorf("%w: %s.min: %v is not a quantity", ErrInvalid, q.Group, q.Min)
	case !(q.Max >= q.Min):
		return fmt.Errorf("%w: %s.max: %v is below min, %v", ErrInvalid, q.Group, q.Max, q.Min)
	}
	return nil
}

// Usage is what a group uses and waits for at a moment.
type Usage struct{ Used, Waiting float64 }

// Entitled returns how much each group may use in all, in the order of quotas: first its minimum as far as it has
// use for it, then what is left of capacity, shared equally up to each group's maximum and want
// (max-min fairness). The sum is at most capacity unless the minima already exceed it: they are then cut in proportion.
func Entitled(capacity float64, quotas []Quota, usage []Usage) []float64 {
	out := make([]float64, len(quotas))
	want := make([]float64, len(quotas))
	sum := 0.0
	for i, q := range quotas {
		want[i] = min(usage[i].Used+usage[i].Waiting, q.Max)
		out[i] = min(q.Min, want[i])
		sum += out[i]
	}
	if sum > capacity {
		for i := range out {
			out[i] *= capacity / sum
		}
		return out
	}
	share(capacity-sum, out, want)
	return out
}

// share raises have towards want by equal steps until left is used up.
func share(left float64, have, want []float64) {
	for left > 0 {
		open, least := 0, 0.0
		for i := range have {
			if gap := want[i] - have[i]; gap > 0 {
				if open++; open == 1 || gap < least {
					least = gap
				}
			}
		}
		if open == 0 {
			return
		}
		step := min(least, left/float64(open))
		for i := range have {
			if gap := want[i] - have[i]; gap > 0 {
				if gap <= step {
					have[i] = want[i] // exactly, so that it is closed
				} else {
					have[i] += step
				}
			}
		}
		if step < least {
			return
		}
		left -= step * float64(open)
	}
}
