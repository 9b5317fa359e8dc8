package check

import (
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// checkReserved adds up the use of reserved capacity, if the transaction has changed a cluster on it.
func (c *Checker) checkReserved() {
	if !c.reserves {
		return
	}
	c.reserves = false
	used, there := map[string]apitypes.Amount{}, map[string]apitypes.Amount{}
	for _, s := range c.order {
		for _, cl := range s.clusters {
			if id, reserved := record.HeldBy(cl.Offer); reserved && cl.Holds() {
				has, takes := cl.Offer.Room(len(cl.Nodes))
				used[id], there[id] = used[id].Plus(takes), has
			}
		}
	}
	for _, s := range c.touched {
		for _, cl := range s.clusters {
			if id, _ := record.HeldBy(cl.Offer); !used[id].Within(there[id]) {
				c.Violatef(InvReserved, "%s are in use, but there are %s of %s", used[id], there[id], id)
				return
			}
		}
	}
}
