package record

import (
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Occupancy is who runs on capacity that an account has already: clusters, with how many machines each has on it. How
// much of it these take is said by the offer that each was bought on.
// Whoever intends to launch there adds itself in the same transaction. Nobody takes himself out: who is gone is known
// by its cluster, and is forgotten when the next one comes.
type Occupancy struct {
	ID       string         `json:"id"` // ReservedID
	Clusters map[string]int `json:"clusters"`
}

// ReservedID names capacity that the account has of a cloud.
func ReservedID(cloud, reservation string) string { return cloud + "/" + reservation }

// HeldBy is the key of the Occupancy that an offer counts in; ok is false where it is on no reserved capacity.
func HeldBy(o apitypes.Offer) (id string, ok bool) {
	return ReservedID(o.Cloud, o.Reservation), o.Reservation != ""
}

// Holding is a task that runs on reserved capacity, and how much of it its machines take.
type Holding struct {
	Job   string
	Task  int
	Takes apitypes.Amount
}

// Holds says whether a cluster counts among those that run on the reserved capacity that it was bought on: until its
// work is over, and it is being terminated.
func (cl *Cluster) Holds() bool { return cl.Offer.Reservation != "" && !cl.Released() }

// Now is who holds it of the clusters that are there, and how much they take of it.
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
