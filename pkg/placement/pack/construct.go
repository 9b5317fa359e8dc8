package pack

import "github.com/tradewind-broker/tradewind/internal/placement/energy"

// construct places instances on the open machines, largest apps first, each where it raises the energy least, so that
// all machines stay level. Instances that do not fit go to the pool. Once stopped returns true, all others go there,
// too.
func (s *state) construct(stopped func() bool) {
	q := &energy.Queue{}
	for _, a := range s.ordered {
		if stopped() {
			s.pool = append(s.pool, s.instancesOf[a]...)
			continue
		}
		q.Reset()
		for k := range s.open {
			q.Push(s.rise(int32(k), a), int32(k)) //nolint:gosec // machines in memory
		}
		q.Order()
		for _, i := range s.instancesOf[a] {
			for q.Len() > 0 && !s.fits(q.Least(), a) {
				q.Drop() // machines only fill up, so it will not fit here later either
			}
			if q.Len() == 0 {
				s.pool = append(s.pool, i)
				continue
			}
			k := q.Least()
			s.add(k, i)
			q.Raise(s.rise(k, a))
		}
	}
}
