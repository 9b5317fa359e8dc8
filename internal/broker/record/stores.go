package record

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Stores are the stores for outputs and checkpoints by place, CLOUD:REGION, in addition to Config.StoreURL. If there
// are none, everything is in Config.StoreURL.
type Stores struct {
	URLs map[string]string
	// Moves determines the nearest store for a place without one.
	Moves Mover
}

// For returns the output store for a task that runs in a place: the store there, or else the one with the lowest cost
// of moving a GiB there and back. If the job allows only some regions, only stores there count; ok is false if there
// is none. An empty URL means Config.StoreURL, which has no place.
func (s Stores) For(place string, allowed []string) (url, at string, ok bool) {
	if len(s.URLs) == 0 {
		return "", "", true
	}
	best := math.Inf(1)
	for _, there := range slices.Sorted(maps.Keys(s.URLs)) {
		cloud, region, _ := strings.Cut(there, ":")
		if !dag.InPlaces(allowed, cloud, region) {
			continue
		}
		if usd := s.distance(place, there); usd < best || !ok {
			best, url, at, ok = usd, s.URLs[there], there, true
		}
	}
	return url, at, ok
}

// distance is the cost of moving a GiB from one place to another and back, in USD.
func (s Stores) distance(a, b string) float64 {
	if a == b {
		return -1 // nearer than a different place with free transfer
	}
	there, _, ok := s.Moves.Move(a, b)
	back, _, also := s.Moves.Move(b, a)
	if !ok || !also {
		return math.MaxFloat64
	}
	return there + back
}

// At is the URI of something of a job, given a URI or a path below Config.StoreURL.
func (c Config) At(where string) string {
	if strings.Contains(where, "://") {
		return where
	}
	uri, _ := grant.Below(c.StoreURL, where) // names were checked before
	return uri
}

// StoreURLs are the URLs of all stores with data of jobs.
func (c Config) StoreURLs() []string {
	urls := []string{c.StoreURL}
	for _, place := range slices.Sorted(maps.Keys(c.Stores.URLs)) {
		if url := c.Stores.URLs[place]; !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	return urls
}

// Keeps converts a path of a cluster's job to where it is in the cluster's store: unchanged for Config.StoreURL,
// otherwise a URI.
func (cl *Cluster) Keeps(path string) string {
	if cl.Store == "" || path == "" {
		return path
	}
	uri, _ := grant.Below(cl.Store, path) // names were checked before
	return uri
}
