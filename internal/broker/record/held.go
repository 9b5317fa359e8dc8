package record

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Occupancy records the clusters that run on reserved capacity of an account, with the number of machines of each. How
// much of it they take follows from the offers they were bought on. A launch adds its cluster in the same transaction.
// Entries are not removed when a cluster ends: the cluster's record shows that, and the next launch drops the entry.
type Occupancy struct {
	ID       string         `json:"id"` // ReservedID
	Clusters map[string]int `json:"clusters"`
}

// ReservedID is the ID of reserved capacity in a cloud.
func ReservedID(cloud, reservation string) string { return cloud + "/" + reservation }

// HeldBy is the ID of the Occupancy that an offer counts in; ok is false if it uses no reserved capacity.
func HeldBy(o apitypes.Offer) (id string, ok bool) {
	return ReservedID(o.Cloud, o.Reservation), o.Reservation != ""
}

// Holding is a task that runs on reserved capacity, and how much of it its machines take.
type Holding struct {
	Job   string
	Task  int
	Takes apitypes.Amount
}

// Holds reports whether a cluster still takes the reserved capacity that it was bought on: until its work has ended
// and it is being terminated.
func (cl *Cluster) Holds() bool { return cl.Offer.Reservation != "" && !cl.Released() }

// Now is the occupancy reduced to the existing clusters in there, and how much of the capacity they take.
func (h Occupancy) Now(there []Cluster) (now Occupancy, used apitypes.Amount) {
	now = Occupancy{ID: h.ID, Clusters: map[string]int{}}
	for id, n := range h.Clusters {
		if at := slices.IndexFunc(there, func(cl Cluster) bool { return cl.ID == id && cl.Holds() }); at >= 0 {
			now.Clusters[id] = n
			_, takes := there[at].Offer.Room(n)
			used = used.Plus(takes)
		}
	}
	return now, used
}
