package record

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// Stores are where jobs keep outputs and checkpoints, beside Config.StoreURL: a URL by place, CLOUD:REGION. None has
// everything in that one, wherever it lies.
type Stores struct {
	URLs map[string]string
	// Moves says which store is the nearest to a place without one.
	Moves Mover
}

// For returns where a task that runs in a place keeps what it leaves: in the store there, else in the one that a GiB
// costs least to be moved to and back. A job that allows some places alone keeps its data in those. ok is false where
// no store lies in them. An empty URL is Config.StoreURL, which lies nowhere in particular.
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

// distance is what moving a GiB from one place to another and back costs, USD.
func (s Stores) distance(a, b string) float64 {
	if a == b {
		return -1 // nearer than what costs nothing, such as another zone's
	}
	there, _, ok := s.Moves.Move(a, b)
	back, _, also := s.Moves.Move(b, a)
	if !ok || !also {
		return math.MaxFloat64
	}
	return there + back
}

// At is where something of a job lies: a URI, or a path below Config.StoreURL.
func (c Config) At(where string) string {
	if strings.Contains(where, "://") {
		return where
	}
	uri, _ := grant.Below(c.StoreURL, where) // of names that are checked
	return uri
}

// StoreURLs are the URLs of all stores that jobs keep data in.
func (c Config) StoreURLs() []string {
	urls := []string{c.StoreURL}
	for _, place := range slices.Sorted(maps.Keys(c.Stores.URLs)) {
		if url := c.Stores.URLs[place]; !slices.Contains(urls, url) {
			urls = append(urls, url)
		}
	}
	return urls
}

// Keeps is where a path of a cluster's job lies in the store that the cluster keeps its data in: a path, in
// Config.StoreURL, else a URI.
func (cl *Cluster) Keeps(path string) string {
	if cl.Store == "" || path == "" {
		return path
	}
	uri, _ := grant.Below(cl.Store, path) // of names that are checked
	return uri
}
