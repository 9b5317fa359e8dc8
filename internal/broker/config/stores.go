package config

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Stores are the stores for outputs and checkpoints by place, CLOUD:REGION, in addition to Config.StoreURL. Without
// them, everything is in Config.StoreURL.
type Stores struct {
	URLs map[string]string
	// Moves is used to find the nearest store for a place that has none.
	Moves Mover
}

// For returns the store for the outputs of a task that runs in a place. It is the store there, or else the one with
// the lowest cost of moving a GiB there and back. If the job allows only some regions, only stores in these count. ok
// is false if there is none. An empty URL means Config.StoreURL, which has no place.
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

// distance returns the cost of moving a GiB from one place to another and back, in USD.
func (s Stores) distance(a, b string) float64 {
	if a == b {
		return -1 // nearer than another place with free transfers
	}
	there, _, ok := s.Moves.Move(a, b)
	back, _, also := s.Moves.Move(b, a)
	if !ok || !also {
		return math.MaxFloat64
	}
	return there + back
}

// PlaceOf returns the place of a store or any other bucket. It is empty if the bucket has none.
func (s Stores) PlaceOf(bucket string) string {
	for _, place := range slices.Sorted(maps.Keys(s.URLs)) {
		url := s.URLs[place]
		if url == bucket || strings.HasPrefix(url, bucket+"/") || strings.HasPrefix(url, bucket+"?") {
			return place
		}
	}
	return s.Moves.PlaceOf(bucket)
}

// Mover returns the cost of moving data between places, CLOUD:REGION. *egress.Prices implements it.
type Mover interface {
	// Move returns the cost in USD and the time in hours of moving a GiB between places. ok is false if a place is
	// unknown.
	Move(from, to string) (usdPerGiB, hoursPerGiB float64, ok bool)
	// PlaceOf returns the place of a bucket by the bucket's URL. It is empty if the bucket has none.
	PlaceOf(uri string) string
}

// At returns the URI of an object of a job, given a URI or a path below Config.StoreURL.
func (c Config) At(where string) string {
	if strings.Contains(where, "://") {
		return where
	}
	uri, _ := grant.Below(c.StoreURL, where) // names were checked before
	return uri
}

// StoreURLs returns the URLs of all stores with data of jobs.
func (c Config) StoreURLs() []string {
	urls := []string{c.StoreURL}
	for _, place := range slices.Sorted(maps.Keys(c.Stores.URLs)) {
		if url := c.Stores.URLs[place]; !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	return urls
}
