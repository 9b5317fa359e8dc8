package record

import (
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
)

// A cluster is charged in segments, because the price of a spot machine follows the market. The cluster's record has
// the amount paid up to a time, and the price since then. tick reads prices, and updates the record when the price of
// a market in use has changed. release calculates the final cost from it.

// Rate returns the current price of one machine in USD per hour. It is the planned price until the market reports
// another.
func (cl *Cluster) Rate() float64 {
	if cl.PricedAt.IsZero() {
		return cl.Offer.USDPerHour
	}
	return cl.RateUSD
}

// Ceiling returns the maximum price of one machine in USD per hour. No cloud charges more than the bid.
func (cl *Cluster) Ceiling() float64 {
	if !cl.Offer.Spot {
		return cl.Rate()
	}
	return max(cl.MaxUSD, cl.Rate())
}

// BillsStart reports whether a service bills the time until the application starts, as clouds do for machines. An
// empty name means a machine. Serverless services bill workers only while these run the application
// ("ResourceUtilization" in the API reference of EMR Serverless; cloud.google.com/dataproc-serverless/pricing).
func BillsStart(service string) bool { return !strings.HasSuffix(service, "-serverless") }

// ChargedFrom returns the time from which a cluster is charged: the purchase, or on a serverless service the start of
// its application. Until the broker knows that start, it charges from the time at which the place was ready. If the
// broker does not know whether the cluster was bought, a job with a budget is charged from the intent on, so that an
// unobserved launch cannot exceed the budget.
func (cl *Cluster) ChargedFrom() (from time.Time, ok bool) {
	switch {
	case cl.Launched.IsZero():
		return cl.Intended, !cl.LeaseUntil.IsZero()
	case BillsStart(cl.Offer.Service):
		return cl.Launched, true
	}
	from = cl.Running
	if from.IsZero() {
		from = cl.Up
	}
	return from, !from.IsZero()
}

// machines returns the number of charged machines.
func (cl *Cluster) machines() float64 {
	if cl.Made > 0 {
		return float64(cl.Made)
	}
	return float64(len(cl.Nodes))
}

// pricedSince returns the time since which the current price is valid.
func (cl *Cluster) pricedSince() time.Time {
	if !cl.PricedAt.IsZero() {
		return cl.PricedAt
	}
	from, _ := cl.ChargedFrom()
	return from
}

// Charged returns the cost of a cluster until a time, in USD: its machines, and the data that they have moved.
func (cl *Cluster) Charged(until time.Time) float64 { return cl.machinesUSD(until) + cl.EgressUSD() }

// machinesUSD returns the cost of the machines until a time, in USD. An unobserved launch is charged at the bid.
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

// Reprice applies a new market price. It adds the amount paid until the change, and sets the price from then on. It
// reports whether anything changed.
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

// Covered returns the time until which the reserved money of a cluster certainly lasts, even if its price has been
// the maximum since the last reads and stays so.
func (cl *Cluster) Covered(tickEvery time.Duration, now time.Time) time.Time {
	nodes := cl.machines()
	most := cl.Ceiling() * nodes
	unseen := min(max(now.Sub(cl.pricedSince()), 0), looksUnseen*tickEvery)
	spent := cl.Charged(now)
	if !cl.Launched.IsZero() {
		spent += Hours(unseen) * (cl.Ceiling() - cl.Rate()) * nodes
	}
	return cl.wholeIncrements(now.Add(Duration((cl.ReservedUSD - spent) / most)))
}

// wholeIncrements returns the last time, at most until, at which a machine has been up for a whole number of billing
// increments. The cloud charges an increment in full.
func (cl *Cluster) wholeIncrements(until time.Time) time.Time {
	increment := hardware.BillingOf(cl.Offer.Cloud).Increment
	from, ok := cl.ChargedFrom()
	if !ok || increment <= 0 || until.Before(from) {
		return until
	}
	return from.Add(until.Sub(from).Truncate(increment))
}

// Expected returns the part of a cluster's reserved money that it is expected to use. The reservation assumed the
// maximum price. When the cluster has finished, its unused money is released soon.
func (cl *Cluster) Expected(overhead time.Duration, now time.Time) float64 {
	most := cl.Ceiling()
	switch {
	case cl.Outcome != "" || cl.State == ClusterReleasing || cl.State == ClusterDoomed:
		return min(cl.ReservedUSD, cl.Charged(now.Add(overhead/2)))
	case most <= 0:
		return cl.ReservedUSD
	}
	return cl.ReservedUSD * cl.Rate() / most
}

// looksUnseen is the maximum number of reads of prices before the broker learns of a new price.
const looksUnseen = 2
