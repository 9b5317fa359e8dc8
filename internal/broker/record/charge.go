package record

import (
	"fmt"
	"math"
	"time"
)

// A cluster is charged by segments. A spot machine costs the market's price of the moment, so its cluster's record has
// what was paid until a moment and the price since. tick, which learns of prices, writes it when that of a market in
// use has changed, and release settles by it.

// Rate is what an hour of one machine costs now, USD: what was planned, until the market has been seen to say
// otherwise.
func (cl *Cluster) Rate() float64 {
	if cl.PricedAt.IsZero() {
		return cl.Offer.USDPerHour
	}
	return cl.RateUSD
}

// Ceiling is what an hour of one machine can cost at most, USD: no cloud charges more than was bid.
func (cl *Cluster) Ceiling() float64 {
	if !cl.Offer.Spot {
		return cl.Rate()
	}
	return max(cl.MaxUSD, cl.Rate())
}

// ChargedFrom is since when a cluster is charged: since it was bought. One that may have been bought is charged to a
// job with a budget since the intent, so that what nobody saw cannot overspend it.
func (cl *Cluster) ChargedFrom() (from time.Time, ok bool) {
	if !cl.Launched.IsZero() {
		return cl.Launched, true
	}
	return cl.Intended, !cl.LeaseUntil.IsZero()
}

// machines is how many are charged.
func (cl *Cluster) machines() float64 {
	if cl.Made > 0 {
		return float64(cl.Made)
	}
	return float64(len(cl.Nodes))
}

// pricedSince is since when the price is that of now.
func (cl *Cluster) pricedSince() time.Time {
	if !cl.PricedAt.IsZero() {
		return cl.PricedAt
	}
	from, _ := cl.ChargedFrom()
	return from
}

// Charged is what a cluster has cost until a moment, USD: its machines, and the data that they have moved.
func (cl *Cluster) Charged(until time.Time) float64 { return cl.machinesUSD(until) + cl.EgressUSD() }

// machinesUSD is what the machines have cost until a moment, USD. What nobody saw may have cost as much as was bid.
func (cl *Cluster) machinesUSD(until time.Time) float64 {
	if _, ok := cl.ChargedFrom(); !ok {
		return 0
	}
	rate := cl.Rate()
	if cl.Launched.IsZero() {
		rate = cl.Ceiling()
	}
	return cl.PaidUSD + Hours(max(until.Sub(cl.pricedSince()), 0))*rate*cl.machines()
}

// Reprice takes in what the market says: what was paid until its price changed, and the price since. It reports whether
// there was anything new.
func (cl *Cluster) Reprice(m MarketRecord, surcharge float64, now time.Time) bool {
	if !cl.Offer.Spot || !(m.USD > 0) || cl.Launched.IsZero() {
		return false
	}
	usd := m.USD + surcharge
	if cl.MaxUSD > 0 {
		usd = min(usd, cl.MaxUSD)
	}
	if usd == cl.Rate() {
		return false
	}
	at := cl.pricedSince()
	if m.At.After(at) {
		at = m.At
	}
	if at.After(now) {
		at = now
	}
	cl.PaidUSD, cl.PricedAt, cl.RateUSD = cl.machinesUSD(at), at, usd
	return true
}

// Covered is until when what was set aside for a cluster lasts for certain: even if its price has been the highest
// since the last looks, and stays so.
func (cl *Cluster) Covered(tickEvery time.Duration, now time.Time) time.Time {
	nodes := cl.machines()
	most := cl.Ceiling() * nodes
	unseen := min(max(now.Sub(cl.pricedSince()), 0), looksUnseen*tickEvery)
	spent := cl.Charged(now)
	if !cl.Launched.IsZero() {
		spent += Hours(unseen) * (cl.Ceiling() - cl.Rate()) * nodes
	}
	return now.Add(Duration((cl.ReservedUSD - spent) / most))
}

// expected is what of what was set aside for a cluster it is expected to use: it was set aside at the most that an hour
// may cost, and what one that is over leaves comes back soon.
func (cl *Cluster) expected(overhead time.Duration, now time.Time) float64 {
	most := cl.Ceiling()
	switch {
	case cl.Outcome != "" || cl.State == ClusterReleasing || cl.State == ClusterDoomed:
		return min(cl.ReservedUSD, cl.Charged(now.Add(overhead/2)))
	case most <= 0:
		return cl.ReservedUSD
	}
	return cl.ReservedUSD * cl.Rate() / most
}

// looksUnseen is for how many looks a price may have been another one before the broker hears of it.
const looksUnseen = 2

// TellUSD writes an amount of money: cents from one dollar on, hundredths of a cent below.
func TellUSD(v float64) string {
	const least = 0.0001
	switch abs := math.Abs(v); {
	case v == 0 || abs >= 0.995:
		return fmt.Sprintf("%.2f", v)
	case v > 0 && v < least/2:
		return fmt.Sprintf("<%.4f", least)
	default:
		return fmt.Sprintf("%.4f", v)
	}
}
