package pack

// leveler finds exchanges between two machines that lower the energy.
type leveler struct {
	*state
	slope       []float32 // change of the energy when a unit of a feature moves from the first machine to the second
	curve       []float32 // second-order part of that change
	here, there []offer
}

// offer is an instance on a machine, with the first-order (gain) and second-order (square) energy change of moving
// it.
type offer struct {
	position int
	app      int32
	gain     float32
	square   float32
}

// exchange is a move or a swap of instances. In a move, the other index is -1.
type exchange struct {
	here, there int
	change      float32
}

func newLeveler(s *state) *leveler {
	return &leveler{state: s, slope: make([]float32, s.features.N), curve: make([]float32, s.features.N)}
}

// patience is the number of infeasible exchanges after which the search gives up on two machines.
const patience = 6

// level performs exchanges between machines j and k, those that lower the energy most first, until none does. It
// returns how many it performed (at most 8).
func (l *leveler) level(j, k int32) int {
	done := 0
	for done < 8 && l.once(j, k) {
		done++
	}
	return done
}

func (l *leveler) once(j, k int32) bool {
	pj, pk := l.priceOf(j), l.priceOf(k)
	wj, wk := l.features.For(l.shape[j]), l.features.For(l.shape[k])
	for f := range l.slope {
		l.slope[f] = pk[f] - pj[f]
		l.curve[f] = wj[f] + wk[f]
	}
	l.here = l.offers(l.here[:0], j)
	l.there = l.offers(l.there[:0], k)
	var tried [patience]exchange
	for n := range tried {
		e := l.best(tried[:n])
		if e.change >= -1e-7 {
			return false
		}
		if l.try(j, k, e) {
			return true
		}
		tried[n] = e
	}
	return false
}

func (l *leveler) offers(to []offer, k int32) []offer {
	for position, i := range l.on[k] {
		a := l.app[i]
		f := l.features.Of(a)
		var gain, square float32
		slope, curve := l.slope[:len(f)], l.curve[:len(f)]
		for d, x := range f {
			gain += slope[d] * x
			square += curve[d] * x * x
		}
		to = append(to, offer{position, a, gain, square})
	}
	return to
}

// best returns the untried exchange that lowers the energy most.
func (l *leveler) best(tried []exchange) exchange {
	b := exchange{-1, -1, 0}
	better := func(h, t int, change float32) {
		if change >= b.change {
			return
		}
		for _, e := range tried {
			if e.here == h && e.there == t {
				return
			}
		}
		b = exchange{h, t, change}
	}
	for h := range l.here {
		better(h, -1, l.here[h].gain+l.here[h].square)
	}
	for t := range l.there {
		better(-1, t, l.there[t].square-l.there[t].gain)
	}
	for h := range l.here {
		x := &l.here[h]
		for t := range l.there {
			y := &l.there[t]
			if x.gain-y.gain >= b.change || x.app == y.app {
				continue // the second-order part can only increase the energy
			}
			better(h, t, x.gain-y.gain+l.apart(x.app, y.app))
		}
	}
	return b
}

// apart returns the second-order part of a swap of two apps.
func (l *leveler) apart(a, b int32) float32 {
	x, y, c := l.features.Of(a), l.features.Of(b), l.curve
	y, c = y[:len(x)], c[:len(x)]
	s := float32(0)
	for f := range x {
		d := x[f] - y[f]
		s += c[f] * d * d
	}
	return s
}

// try performs an exchange if it fits.
func (l *leveler) try(j, k int32, e exchange) bool {
	switch {
	case e.there < 0:
		x := l.here[e.here]
		if !l.fits(k, x.app) {
			return false
		}
		l.add(k, l.remove(j, x.position))
	case e.here < 0:
		y := l.there[e.there]
		if !l.fits(j, y.app) {
			return false
		}
		l.add(j, l.remove(k, y.position))
	default:
		x, y := l.here[e.here], l.there[e.there]
		if !l.fitsFor(k, x.app, y.app) || !l.fitsFor(j, y.app, x.app) {
			return false
		}
		ix, iy := l.remove(j, x.position), l.remove(k, y.position)
		l.add(k, ix)
		l.add(j, iy)
	}
	return true
}
