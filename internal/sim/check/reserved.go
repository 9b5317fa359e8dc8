package check

import "github.com/tradewind-broker/tradewind/pkg/broker/record"

// checkReserved adds up who is at work on reserved capacity, by the clusters of the jobs that the transaction touched
// and of all others.
func (c *Checker) checkReserved() {
	touched := false
	for _, s := range c.touched {
		for _, cl := range s.clusters {
			touched = touched || cl.Offer.Reservation != ""
		}
	}
	if !touched {
		return
	}
	used, there := map[string]int{}, map[string]int{}
	for _, s := range c.order {
		for _, cl := range s.clusters {
			if id, reserved := record.HeldBy(cl.Offer); reserved && cl.Holds() {
				used[id] += len(cl.Nodes)
				there[id] = cl.Offer.Reserved
			}
		}
	}
	for _, s := range c.touched {
		for _, cl := range s.clusters {
			if id, _ := record.HeldBy(cl.Offer); used[id] > there[id] {
				c.Violatef(InvReserved, "%d machines are at work on the %d of %s", used[id], there[id], id)
				return
			}
		}
	}
}
