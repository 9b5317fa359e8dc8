package catalog

import (
	"math/bits"
)

// selectiveEntries is the limit between two ways to run a query. If the matching machines have at
// most this number of entries, the query looks at each of them. Otherwise it walks the price order
// until it has enough matches, which is then faster. With m matching of n entries, a walk leaves
// each of b lists after about n/m steps. So looking at each entry costs m and walking costs b·n/m;
// they are equal near √(b·n).
const selectiveEntries = 6000

// selectiveScoped is the same limit for queries with CheapestPer, whose walks end at the first match of each place.
const selectiveScoped = 2500

// scratch is the working memory of one query, reused between queries.
type scratch struct {
	filter filter
	// marked is a set of ranks, empty between queries; low and high are its first and last words in use.
	marked    []uint64
	low, high int
	// groups is the set of groups and markets for which CheapestPer has yielded a match.
	groups []uint64
	// fastest has for each group and market the speeds that a match must exceed with Faster: Speed and SlowSpeed.
	fastest []speeds
	// found has the entries that a Find has matched.
	found []uint32
	// match is the Match that visit and Keep receive.
	match Match
}

func newScratch(c *Catalog) *scratch {
	words := newBitset(2 * c.cols.Len())
	return &scratch{
		filter: filter{
			machineSet: newBitset(len(c.cols.Machines)),
			placeSet:   newBitset(len(c.cols.Places)),
			cloudSet:   newBitset(len(c.clouds)),
		},
		marked: words,
		low:    len(words),
		high:   -1,
		groups: newBitset(2 * len(c.cols.Places)),
	}
}

// Find returns the matches of q, cheapest first; equal prices are in the order of offer IDs, on-demand before spot.
// If nothing matches, it returns a [*NoOfferError] that names the filters to relax; if q is invalid, a [*QueryError].
func (c *Catalog) Find(q Query) ([]Match, error) {
	s, _ := c.scratch.Get().(*scratch)
	s.found = s.found[:0]
	err := s.search(c, &q, func(e uint32) bool {
		s.found = append(s.found, e)
		return true
	})
	found := make([]Match, len(s.found))
	for i, e := range s.found {
		s.fill(c, &found[i], e)
	}
	c.scratch.Put(s)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, c.explain(q)
	default:
		return found, nil
	}
}

// Visit calls visit for each match of q in the order of [Catalog.Find], until visit returns false. It does not
// allocate: the Match is only valid during the call. It returns no error if nothing matches.
func (c *Catalog) Visit(q Query, visit func(*Match) bool) error {
	s, _ := c.scratch.Get().(*scratch)
	err := s.search(c, &q, func(e uint32) bool {
		s.fill(c, &s.match, e)
		return visit(&s.match)
	})
	// Not deferred: if visit panics, the scratch still has marks and must not be reused.
	c.scratch.Put(s)
	return err
}

// search calls yield for the matching entries, in order, until yield returns false.
func (s *scratch) search(c *Catalog, q *Query, yield func(e uint32) bool) error {
	if err := s.filter.compile(c, q); err != nil {
		return err
	}
	s.run(c, q, yield)
	return nil
}

// run chooses the fastest way to find the matches.
func (s *scratch) run(c *Catalog, q *Query, yield func(e uint32) bool) {
	f := &s.filter
	v := f.view
	switch {
	case len(f.machines) == 0 || len(f.places) == 0:
		return
	case f.machineEntries <= selectiveScoped || q.CheapestPer == PerOffer && f.machineEntries <= selectiveEntries:
		s.markMachines(c, q, 0)
	case q.CheapestPer == PerOffer && f.entriesForLimit(q.Limit) <= selectiveEntries:
		s.markMachines(c, q, q.Limit)
	case q.CheapestPer != PerOffer:
		s.markCheapest(c, q)
	case f.placeEntries <= selectiveEntries:
		s.markPlaces(c, q)
	default:
		s.walk(c, q, v.skips.from(f.minSize), yield)
		return
	}
	s.emit(c, q, yield)
}

// markMachines marks the matching entries of each matching machine. With a limit it marks only the first limit
// entries of each machine, because no others can be among the first limit matches.
func (s *scratch) markMachines(c *Catalog, q *Query, limit int) {
	f := &s.filter
	for _, m := range f.machines {
		marked := 0
		for _, rank := range f.view.machineRanks[f.view.machineStart[m]:f.view.machineStart[m+1]] {
			e := f.view.entries[rank]
			if f.placeSet.has(int(c.cols.Place[e>>1])) && s.admits(c, q, e) {
				s.mark(rank)
				if marked++; marked == limit {
					break
				}
			}
		}
	}
}

// markPlaces marks all matching entries of each matching place.
func (s *scratch) markPlaces(c *Catalog, q *Query) {
	s.eachBucket(c, q, func(rank uint32) bool {
		s.mark(rank)
		return true
	})
}

// markCheapest marks the cheapest matching entry of each place on each market, and with Faster also those that are
// faster than all cheaper ones.
func (s *scratch) markCheapest(c *Catalog, q *Query) {
	if !q.Faster {
		s.eachBucket(c, q, func(rank uint32) bool {
			s.mark(rank)
			return false
		})
		return
	}
	s.startFastest(c)
	s.eachBucket(c, q, func(rank uint32) bool {
		e := s.filter.view.entries[rank]
		s.recordSpeed(2*int(c.cols.Place[e>>1])+int(e&spotBit), c.speeds()[c.cols.Machine[e>>1]])
		s.mark(rank)
		return true
	})
}

// startFastest clears the recorded speeds of all groups.
func (s *scratch) startFastest(c *Catalog) {
	if s.fastest == nil {
		s.fastest = make([]speeds, 2*len(c.cols.Places))
	}
	clear(s.fastest)
}

// isFaster reports whether a speed exceeds all that were recorded for a group.
func (s *scratch) isFaster(group int, of speeds) bool {
	most := &s.fastest[group]
	return of.typical > most.typical || of.slow > most.slow
}

func (s *scratch) recordSpeed(group int, of speeds) {
	most := &s.fastest[group]
	most.typical, most.slow = max(most.typical, of.typical), max(most.slow, of.slow)
}

// eachBucket calls yield for the matching ranks of each matching place and market. With Faster it does so only for
// ranks that are faster than those that yield has recorded. If yield returns false it continues with the next place or
// market.
func (s *scratch) eachBucket(c *Catalog, q *Query, yield func(rank uint32) bool) {
	f, v := &s.filter, s.filter.view
	var of []speeds
	if q.Faster && q.CheapestPer != PerOffer {
		of = c.speeds()
	}
	for _, p := range f.places {
		for bit := range uint32(2) {
			if !f.marketBits.has(int(bit)) {
				continue
			}
			bucket := 2*int(p) + int(bit)
			start, end := v.bucketStart[bucket], v.bucketStart[bucket+1]
			start += v.bucketSkips[bucket].from(f.minSize)
			machines := v.bucketMachines[start:end]
			for i, m := range machines {
				if !f.machineSet.has(int(m)) || of != nil && !s.isFaster(bucket, of[m]) {
					continue
				}
				rank := v.bucketRanks[start:end][i]
				if s.admits(c, q, v.entries[rank]) && !yield(rank) {
					break
				}
			}
		}
	}
}

// walk goes through the price order from a rank and calls yield for each match.
func (s *scratch) walk(c *Catalog, q *Query, from uint32, yield func(e uint32) bool) {
	f := &s.filter
	yielded := 0
	for _, e := range f.view.entries[from:] {
		offer := e >> 1
		if !f.machineSet.has(int(c.cols.Machine[offer])) || !f.placeSet.has(int(c.cols.Place[offer])) ||
			!s.admits(c, q, e) {
			continue
		}
		if !yield(e) {
			return
		}
		if yielded++; yielded == q.Limit {
			return
		}
	}
}

// admits applies the filters that depend on neither the machine nor the place.
func (s *scratch) admits(c *Catalog, q *Query, e uint32) bool {
	bit := e & spotBit
	if !s.filter.marketBits.has(int(bit)) {
		return false
	}
	if bit == spotBit && q.MaxInterruption != UnknownInterruption {
		if band := InterruptionBand(c.cols.Band[e>>1]); band == UnknownInterruption || band > q.MaxInterruption {
			return false
		}
	}
	if q.Keep == nil && q.MaxUSDPerHour == 0 {
		return true
	}
	s.fill(c, &s.match, e)
	if q.MaxUSDPerHour > 0 && s.match.USDPerHour > q.MaxUSDPerHour {
		return false
	}
	return q.Keep == nil || q.Keep(&s.match)
}

func (s *scratch) mark(rank uint32) {
	word := int(rank >> 6)
	s.marked[word] |= 1 << (rank & 63)
	s.low, s.high = min(s.low, word), max(s.high, word)
}

// emit calls yield for the marked entries in order, applies CheapestPer and Limit, and clears all marks.
func (s *scratch) emit(c *Catalog, q *Query, yield func(e uint32) bool) {
	yielded := 0
	clear(s.groups)
	if q.Faster && q.CheapestPer != PerOffer {
		s.startFastest(c)
	}
	done := false
	for w := s.low; w <= s.high; w++ {
		word := s.marked[w]
		s.marked[w] = 0
		for ; word != 0 && !done; word &= word - 1 {
			rank := w<<6 + bits.TrailingZeros64(word)
			e := s.filter.view.entries[rank]
			if !s.isKept(c, q, e) {
				continue
			}
			yielded++
			done = !yield(e) || yielded == q.Limit
		}
	}
	s.low, s.high = len(s.marked), -1
}

// isKept reports whether e is the first entry of its group and market, or with Faster the fastest so far, and records
// it.
func (s *scratch) isKept(c *Catalog, q *Query, e uint32) bool {
	p := c.cols.Place[e>>1]
	group := 2*int(p) + int(e&spotBit)
	switch q.CheapestPer {
	case PerOffer:
		return true
	case PerRegion:
		group = 2*int(c.cols.Places[p].RegionID) + int(e&spotBit)
	case PerCloud:
		group = 2*int(c.cols.Places[p].CloudID) + int(e&spotBit)
	}
	if q.Faster {
		of := c.speeds()[c.cols.Machine[e>>1]]
		faster := s.isFaster(group, of)
		s.recordSpeed(group, of)
		return faster
	}
	if bitset(s.groups).has(group) {
		return false
	}
	bitset(s.groups).add(group)
	return true
}

// fill writes entry e into m.
func (s *scratch) fill(c *Catalog, m *Match, e uint32) {
	offer := e >> 1
	c.fillOffer(&m.Offer, offer)
	price := c.cols.Prices[c.cols.OnDemand[offer]]
	m.Market = OnDemand
	if e&spotBit != 0 {
		price = c.cols.Prices[c.cols.Spot[offer]-1]
		m.Market = Spot
	}
	if v := s.filter.view; v.surcharge != nil {
		extra := v.surcharge[c.cols.Machine[offer]]
		m.Service, m.SurchargeUSD = s.filter.service, extra.USD()
		price += extra
	}
	m.USDPerHour = price.USD()
}

// bitset is a set of small integers.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }

func (b bitset) add(i int) { b[i>>6] |= 1 << (i & 63) }
