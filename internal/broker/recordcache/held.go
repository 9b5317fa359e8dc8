package recordcache

import (
	"maps"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Holders loads the existing clusters that hold reserved capacity.
func Holders(r Reader, held ...record.Occupancy) (there []record.Cluster, err error) {
	var keys []store.Key
	for _, h := range held {
		for _, id := range slices.Sorted(maps.Keys(h.Clusters)) {
			keys = append(keys, record.ClusterKey(id))
		}
	}
	if err := r.Preload(keys...); err != nil {
		return nil, err
	}
	for _, key := range keys {
		cl, found, err := Get[record.Cluster](r, key)
		if err != nil {
			return nil, err
		}
		if found {
			there = append(there, cl)
		}
	}
	return there, nil
}
