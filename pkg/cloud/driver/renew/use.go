package renew

import (
	"github.com/tradewind-broker/tradewind/pkg/catalog"
)

// Use takes what a machine of others (REGION/TYPE) takes of the first of some plans of USD an hour that covers it and
// is not used up. What a plan covers in part only uses it up, and is not looked for in the next one.
func Use(plans []*catalog.Reserved, what string) {
	for _, p := range plans {
		takes, ok := p.Commitment.Takes[what]
		if ok && p.Commitment.Has.MicroUSD > 0 {
			p.Commitment.Has.MicroUSD = max(p.Commitment.Has.MicroUSD-takes.MicroUSD, 0)
			return
		}
	}
}
