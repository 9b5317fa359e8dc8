package renew

import (
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Deduct deducts the use by a machine of another user from savings plans, which are counted in USD per hour. what is
// REGION/TYPE of the machine. The first plan that covers the machine and is not used up pays for it. If the plan
// covers only a part of the machine, it is used up, and the rest is not deducted from the next plan.
func Deduct(plans []*catalog.Reserved, what string) {
	for _, p := range plans {
		takes, ok := p.Commitment.Takes[what]
		if ok && p.Commitment.Has.MicroUSD > 0 {
			p.Commitment.Has.MicroUSD = max(p.Commitment.Has.MicroUSD-takes.MicroUSD, 0)
			return
		}
	}
}
