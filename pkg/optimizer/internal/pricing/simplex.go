package pricing

import (
	"github.com/tradewind-broker/tradewind/pkg/optimizer/internal/search"
)

// Program minimises Σ cost[j]·w[j] over w ≥ 0 with Σ w[j] = 1 and, for each row i, Σ row[i][j]·w[j] ≤ 1: the best
// mixture of columns that satisfies the rows. A dummy column with the given cost, which uses no row, makes it
// feasible. It is a dense tableau for some dozens of rows and columns.
type Program struct {
	m, n  int // rows without the convexity row, columns without slacks and the dummy
	width int
	// tab has the m rows, the convexity row and the row of reduced costs. Its columns are the n columns, the m
	// slacks, the dummy and the right side.
	tab   []float64
	basis []int // basic column of each of the first m+1 rows
}

// Solve builds the tableau and pivots until no column improves it. It stops early rather than cycle; the prices are
// valid even then.
func (s *Program) Solve(cost []float64, rows [][]float64, dummy float64) {
	s.m, s.n = len(rows), len(cost)
	s.width = s.n + s.m + 2
	s.tab = search.Grow(s.tab, (s.m+2)*s.width)
	clear(s.tab)
	s.basis = s.basis[:0]
	for i, row := range rows {
		r := s.row(i)
		copy(r, row)
		r[s.n+i], r[s.width-1] = 1, 1
		s.basis = append(s.basis, s.n+i)
	}
	convex, reduced := s.row(s.m), s.row(s.m+1)
	for j, c := range cost {
		convex[j], reduced[j] = 1, c-dummy
	}
	convex[s.n+s.m], convex[s.width-1] = 1, 1
	reduced[s.width-1] = -dummy
	s.basis = append(s.basis, s.n+s.m)
	most := 20 * (s.m + 2)
	for k := range most {
		j := s.entering(2*k > most)
		if j < 0 {
			return
		}
		i := s.leaving(j)
		if i < 0 {
			return
		}
		s.pivot(i, j)
	}
}

func (s *Program) row(i int) []float64 { return s.tab[i*s.width:][:s.width] }

const simplexZero = 1e-11

// entering returns the column with the most negative reduced cost. If careful, it returns the first negative one,
// which cannot cycle (Bland's rule).
func (s *Program) entering(careful bool) int {
	reduced := s.row(s.m + 1)[:s.width-1]
	best, least := -1, -simplexZero
	for j, r := range reduced {
		if r < least {
			best, least = j, r
			if careful {
				return best
			}
		}
	}
	return best
}

func (s *Program) leaving(j int) int {
	best, ratio := -1, search.Inf
	for i := range s.m + 1 {
		r := s.row(i)
		if r[j] <= simplexZero {
			continue
		}
		if x := r[s.width-1] / r[j]; x < ratio || x == ratio && s.basis[i] < s.basis[best] {
			best, ratio = i, x
		}
	}
	return best
}

func (s *Program) pivot(i, j int) {
	p := s.row(i)
	f := 1 / p[j]
	for k := range p {
		p[k] *= f
	}
	for o := range s.m + 2 {
		if o == i {
			continue
		}
		r := s.row(o)
		f := r[j]
		if f == 0 {
			continue
		}
		for k, x := range p {
			r[k] -= f * x
		}
		r[j] = 0
	}
	s.basis[i] = j
}

// Value returns the lowest cost found.
func (s *Program) Value() float64 { return -s.row(s.m + 1)[s.width-1] }

// Price returns the amount that one more unit of row i's right side would save.
func (s *Program) Price(i int) float64 { return max(0, s.row(s.m + 1)[s.n+i]) }

// Weights writes the mixture to w.
func (s *Program) Weights(w []float64) {
	clear(w)
	for i, j := range s.basis {
		if j < s.n {
			w[j] = max(0, s.row(i)[s.width-1])
		}
	}
}
