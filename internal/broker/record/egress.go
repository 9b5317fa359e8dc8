package record

import (
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
)

// EgressUSD returns the cost of moving data for a cluster so far, as reported by its nodes, in USD.
func (cl *Cluster) EgressUSD() (usd float64) {
	for i := range cl.Nodes {
		usd += cl.Nodes[i].EgressUSD
	}
	return usd
}

// Moved applies a node's report of the data that it has exchanged with stores since its attempt started. Sent data
// leave the place of the cluster, and received data leave that of the store. A late report has lower numbers and
// changes nothing.
func (cl *Cluster) Moved(rank int, moved []wire.Moved, stores config.Stores) {
	if stores.Moves == nil || len(moved) > wire.MaxMoved {
		return
	}
	here, usd := cl.Offer.Cloud+":"+cl.Offer.Region, 0.0
	for _, m := range moved {
		there := stores.PlaceOf(m.Store)
		out, _, ok := stores.Moves.Move(here, there)
		in, _, also := stores.Moves.Move(there, here)
		if ok && also { // otherwise one of the two has no known place
			usd += out*gib(m.Sent) + in*gib(m.Received)
		}
	}
	cl.Nodes[rank].EgressUSD = max(cl.Nodes[rank].EgressUSD, usd)
}

// gib converts bytes to GiB; negative numbers become 0.
func gib(bytes int64) float64 { return float64(max(bytes, 0)) / (1 << 30) }
