package network

// Push computes dst[b] = min over a of h[a] + cost(a, b): the best offer of node self to each value b of its peer,
// where h is the cost of each own value. Excluded values (h = +Inf) never win.
//
// Table entries are not negative. So a value whose h is at least the worst offer of the cheapest value cannot improve
// any offer. Transfers are usually small, so nearly all values are skipped, and a push costs little more than one
// row. It returns the number of entries touched.
func (s *Side) Push(dst, h []float64) int {
	best := 0
	for a, x := range h {
		if x < h[best] {
			best = a
		}
	}
	switch {
	case s.Second != nil:
		return s.pushBoth(dst, h, best)
	case s.Table != nil:
		return s.pushRows(dst, h, best)
	}
	return s.pushColumns(dst, h, best)
}

// below appends the indices, except skip, whose h is below worst.
func below(list []int32, h []float64, worst float64, skip int) []int32 {
	for a, x := range h {
		if x < worst && a != skip {
			list = append(list, int32(a)) // #nosec G115 -- at most MaxCandidates
		}
	}
	return list
}

func (s *Side) pushRows(dst, h []float64, best int) int {
	n := len(dst)
	row := s.Table[best*n:][:n]
	x, scale := h[best], s.Scale
	worst := x
	for b := range dst {
		y := x + scale*row[b]
		dst[b] = y
		if y > worst {
			worst = y
		}
	}
	var buf [64]int32
	rest := below(buf[:0], h, worst, best)
	work := len(h) + n*(1+len(rest))
	// four rows at a time, which keeps dst in a register longer
	for ; len(rest) >= 4; rest = rest[4:] {
		i, j, k, l := int(rest[0]), int(rest[1]), int(rest[2]), int(rest[3])
		ri, rj, rk, rl := s.Table[i*n:][:n], s.Table[j*n:][:n], s.Table[k*n:][:n], s.Table[l*n:][:n]
		hi, hj, hk, hl := h[i], h[j], h[k], h[l]
		for b := range dst {
			dst[b] = min(dst[b], min(min(hi+scale*ri[b], hj+scale*rj[b]), min(hk+scale*rk[b], hl+scale*rl[b])))
		}
	}
	for _, a := range rest {
		x, row := h[a], s.Table[int(a)*n:][:n]
		for b, t := range row {
			if y := x + scale*t; y < dst[b] {
				dst[b] = y
			}
		}
	}
	return work
}

// pushBoth is pushRows for two matrices.
func (s *Side) pushBoth(dst, h []float64, best int) int {
	n := len(dst)
	scale, more := s.Scale, s.More
	x, row, second := h[best], s.Table[best*n:][:n], s.Second[best*n:][:n]
	worst := x
	for b := range dst {
		dst[b] = x + scale*row[b] + more*second[b]
		worst = max(worst, dst[b])
	}
	var buf [64]int32
	rest := below(buf[:0], h, worst, best)
	for _, a := range rest {
		x, row, second := h[a], s.Table[int(a)*n:][:n], s.Second[int(a)*n:][:n]
		for b := range dst {
			if y := x + scale*row[b] + more*second[b]; y < dst[b] {
				dst[b] = y
			}
		}
	}
	return len(h) + n*(1+len(rest))
}

func (s *Side) pushColumns(dst, h []float64, best int) int {
	n := len(h)
	worst := h[best]
	for b := range dst {
		dst[b] = h[best] + s.Scale*s.Transposed[b*n+best]
		worst = max(worst, dst[b])
	}
	var buf [64]int32
	rest := below(buf[:0], h, worst, best)
	if 3*len(rest) > n {
		for b := range dst {
			low := dst[b]
			for a, t := range s.Transposed[b*n:][:n] {
				if y := h[a] + s.Scale*t; y < low {
					low = y
				}
			}
			dst[b] = low
		}
		return n * len(dst)
	}
	for b := range dst {
		column := s.Transposed[b*n:][:n]
		low := dst[b]
		for _, a := range rest {
			if y := h[a] + s.Scale*column[a]; y < low {
				low = y
			}
		}
		dst[b] = low
	}
	return n + len(rest)*len(dst)
}
