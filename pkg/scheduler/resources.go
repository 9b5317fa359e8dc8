package scheduler

// maxResources is the maximum number of resources in a snapshot.
const maxResources = 8

// Vector is an amount of each resource, in the order of [Snapshot.Resources], as an integer in the smallest unit in
// use: thousandths of a core or of a GPU, MiB of memory.
type Vector [maxResources]int64

// Whole is one whole GPU, in thousandths.
const Whole = 1000

// Plus returns the sum.
func (v Vector) Plus(w Vector) Vector {
	v.Add(&w)
	return v
}

// Minus returns the difference.
func (v Vector) Minus(w Vector) Vector {
	v.Sub(&w)
	return v
}

// Times returns the vector multiplied by n.
func (v Vector) Times(n int) Vector {
	for i := range v {
		v[i] *= int64(n)
	}
	return v
}

// Fits reports whether v is at most w in every resource.
func (v Vector) Fits(w Vector) bool { return v.FitsIn(&w) }

// IsZero reports whether every amount is zero.
func (v Vector) IsZero() bool { return v == Vector{} }

// Add adds w.
func (v *Vector) Add(w *Vector) {
	for i := range v {
		v[i] += w[i]
	}
}

// Sub subtracts w.
func (v *Vector) Sub(w *Vector) {
	for i := range v {
		v[i] -= w[i]
	}
}

// FitsIn is Fits without a copy.
func (v *Vector) FitsIn(w *Vector) bool {
	for i := range v {
		if v[i] > w[i] {
			return false
		}
	}
	return true
}

// Max returns the larger amount in every resource.
func (v Vector) Max(w Vector) Vector {
	for i := range v {
		v[i] = max(v[i], w[i])
	}
	return v
}

// Positive returns v with negative amounts set to zero.
func (v Vector) Positive() Vector { return v.Max(Vector{}) }

// Share returns the dominant share: the largest ratio v[i]/total[i] over all resources. A resource with a total of zero
// is skipped if v has none of it; otherwise the share is larger than any other.
func Share(v, total *Vector) float64 {
	s := 0.0
	for i := range v {
		if v[i] <= 0 {
			continue
		}
		if total[i] <= 0 {
			return infinite
		}
		s = max(s, float64(v[i])/float64(total[i]))
	}
	return s
}

// infinite is a share larger than all others.
const infinite = 1e18

// Limit is a maximum for each resource that has Set; the others are unlimited.
type Limit struct {
	Amount Vector
	Set    [maxResources]bool
}

// LimitOf returns a limit of amount for each of the first n resources.
func LimitOf(amount Vector, n int) Limit {
	l := Limit{Amount: amount}
	for i := range n {
		l.Set[i] = true
	}
	return l
}

// Within reports whether v is within the limit, and if not, the first resource that exceeds it.
func (l *Limit) Within(v *Vector) (bool, int) {
	for i := range v {
		if l.Set[i] && v[i] > l.Amount[i] {
			return false, i
		}
	}
	return true, 0
}
