package recordcache

import (
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Occupying reports, for each cluster, whether it still occupies the location to which it was admitted. It does until
// its attempt has ended and its machines, if any, are released.
func Occupying(r Reader, clusters []string) (standing []bool, err error) {
	var keys []store.Key
	for _, id := range clusters {
		task, attempt, _ := record.ClusterAttempt(id)
		keys = append(keys, record.AttemptKey(record.ClusterJob(id), task, attempt), record.ClusterKey(id))
	}
	if err := r.Preload(keys...); err != nil {
		return nil, err
	}
	standing = make([]bool, len(clusters))
	for i, id := range clusters {
		a, found, err := Get[apitypes.Attempt](r, keys[2*i])
		if err != nil {
			return nil, err
		}
		cl, there, err := Get[record.Cluster](r, keys[2*i+1])
		if err != nil {
			return nil, err
		}
		standing[i] = found && a.Outcome == "" || there && cl.ID == id && !cl.Released()
	}
	return standing, nil
}

// Staying returns those of placed that still occupy their location. clusters are their cluster IDs.
func Staying(r Reader, placed []record.Placed, clusters []string) (out []record.Placed, err error) {
	standing, err := Occupying(r, clusters)
	if err != nil {
		return nil, err
	}
	for i, p := range placed {
		if standing[i] {
			out = append(out, p)
		}
	}
	return out, nil
}

// Others loads the locations of the tasks to which a task's placement rules may apply, with their cluster IDs. Some
// may have left meanwhile: see Occupying.
func Others(r Reader, job string, keys []store.Key) (out []record.Placed, clusters []string, err error) {
	keys = append([]store.Key{record.StandsKey(job)}, keys...)
	if err := r.Preload(keys...); err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{}
	for _, key := range keys {
		s, _, err := Get[record.Locations](r, key)
		if err != nil {
			return nil, nil, err
		}
		placed, ids := s.PlacedAt()
		for i, id := range ids {
			if !seen[id] {
				seen[id] = true
				out, clusters = append(out, placed[i]), append(clusters, id)
			}
		}
	}
	return out, clusters, nil
}
