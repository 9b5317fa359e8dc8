package record

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Occupancy records the clusters that run on reserved capacity of an account, with the number of machines of each.
// Their offers state how much of the capacity they take. A launch adds its cluster in the same transaction. The entry
// is not removed when the cluster ends: the next launch drops it, because the cluster's record shows the end.
type Occupancy struct {
	ID       string         `json:"id"` // ReservedID
	Clusters map[string]int `json:"clusters"`
}

// ReservedID is the ID of reserved capacity in a cloud.
func ReservedID(cloud, reservation string) string { return cloud + "/" + reservation }

// HeldBy returns the ID of the Occupancy in which an offer counts. ok is false if the offer uses no reserved
// capacity.
func HeldBy(o apitypes.Offer) (id string, ok bool) {
	return ReservedID(o.Cloud, o.Reservation), o.Reservation != ""
}

// Holds reports whether a cluster still takes its reserved capacity. It does until its work has ended and it is being
// terminated.
func (cl *Cluster) Holds() bool { return cl.Offer.Reservation != "" && !cl.Released() }

// Now returns the occupancy with only the existing clusters in there, and the amount of the capacity that they take.
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
