package renew

import (
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Deduct deducts a machine of another user (what is REGION/TYPE) from the first savings plan, counted in USD an hour,
// that covers it and is not used up. A plan that covers only part of the machine is used up; the rest is not deducted
// from the next plan.
func Deduct(plans []*catalog.Reserved, what string) {
	for _, p := range plans {
		takes, ok := p.Commitment.Takes[what]
		if ok && p.Commitment.Has.MicroUSD > 0 {
			p.Commitment.Has.MicroUSD = max(p.Commitment.Has.MicroUSD-takes.MicroUSD, 0)
			return
		}
	}
}
