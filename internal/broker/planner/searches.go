package planner

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// search is a search of the catalogue for the best offers of each region or zone. Steady excludes burstable types.
// Unbanded excludes offers with an interruption band.
type search struct {
	catalog.Query
	Steady, Unbanded bool
}

func (s *search) keeps(m *catalog.Match) bool {
	return (!s.Steady || !m.Burstable) && (!s.Unbanded || unbanded(m))
}

// searches remembers the catalogue's answers to some searches, before the exclusions of deployments and jobs. The
// jobs of a broker search for the same few sizes again and again.
type searches struct {
	mu    sync.Mutex
	found map[string][]catalog.Match // by search, as JSON
}

// mostSearches is the maximum number of remembered answers. A machine size needs up to six.
const mostSearches = 128

func (s *searches) find(c *catalog.Catalog, what search) ([]catalog.Match, error) {
	text, err := json.Marshal(what)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	found, ok := s.found[string(text)]
	s.mu.Unlock()
	if ok {
		return found, nil
	}
	what.Keep = what.keeps
	if err := c.Visit(what.Query, func(m *catalog.Match) bool {
		found = append(found, *m)
		return true
	}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found == nil {
		s.found = map[string][]catalog.Match{}
	}
	if len(s.found) >= mostSearches {
		for other := range s.found { // any one
			delete(s.found, other)
			break
		}
	}
	s.found[string(text)] = found
	return found, nil
}

// best calls visit for the matches of a search of those that keep accepts, in no order. A Match is only valid during
// the call.
//
// If keep rejects none of a region's remembered matches, the answer stands. Other regions are searched again.
func (m *market) best(s search, keep func(*catalog.Match) bool, visit func(*catalog.Match)) error {
	all, err := m.searches.find(m.catalog, s)
	if err != nil {
		return err
	}
	again := map[string]bool{}
	for i := range all {
		if !keep(&all[i]) {
			again[all[i].Place()] = true
		}
	}
	for i := range all {
		if len(again) == 0 || !again[all[i].Place()] {
			visit(&all[i])
		}
	}
	if len(again) == 0 {
		return nil
	}
	s.Regions = slices.Sorted(maps.Keys(again))
	s.Keep = func(m *catalog.Match) bool { return s.keeps(m) && keep(m) }
	return m.catalog.Visit(s.Query, func(m *catalog.Match) bool {
		visit(m)
		return true
	})
}
