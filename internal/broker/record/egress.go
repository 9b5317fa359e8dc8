package record

import (
	"maps"
	"slices"
	"strings"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// EgressUSD is what moving data has cost a cluster so far, as far as its nodes have told, USD.
func (cl *Cluster) EgressUSD() (usd float64) {
	for i := range cl.Nodes {
		usd += cl.Nodes[i].EgressUSD
	}
	return usd
}

// Moved takes in what a node says that it has exchanged with stores since its attempt began. What it sent leaves the
// place of the cluster, what it received that of the store. A report that is late says less than is known, and changes
// nothing.
func (cl *Cluster) Moved(rank int, moved []wire.Moved, stores Stores) {
	if stores.Moves == nil || len(moved) > wire.MaxMoved {
		return
	}
	here, usd := cl.Offer.Cloud+":"+cl.Offer.Region, 0.0
	for _, m := range moved {
		there := stores.placeOf(m.Store)
		out, _, ok := stores.Moves.Move(here, there)
		in, _, also := stores.Moves.Move(there, here)
		if ok && also { // else one of them lies nowhere in particular
			usd += out*gib(m.Sent) + in*gib(m.Received)
		}
	}
	cl.Nodes[rank].EgressUSD = max(cl.Nodes[rank].EgressUSD, usd)
}

// gib is so many bytes, GiB; none of what cannot be.
func gib(bytes int64) float64 { return float64(max(bytes, 0)) / (1 << 30) }

// placeOf is where a store or any other bucket lies; empty is nowhere in particular.
func (s Stores) placeOf(bucket string) string {
	for _, place := range slices.Sorted(maps.Keys(s.URLs)) {
		url := s.URLs[place]
		if url == bucket || strings.HasPrefix(url, bucket+"/") || strings.HasPrefix(url, bucket+"?") {
			return place
		}
	}
	return s.Moves.PlaceOf(bucket)
}
