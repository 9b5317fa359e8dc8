package attempt

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// LoadReleased loads a terminated cluster, charged at the current price, with its attempt.
func LoadReleased(u recordcache.Reader, id string,
	now time.Time) (cl record.Cluster, attempt apitypes.Attempt, found bool, err error) {
	task, number, _ := record.ClusterAttempt(id)
	key := record.AttemptKey(record.ClusterJob(id), task, number)
	if err := u.Preload(record.ClusterKey(id), key); err != nil {
		return cl, attempt, false, err
	}
	if cl, found, err = recordcache.Get[record.Cluster](u, record.ClusterKey(id)); err != nil || !found {
		return cl, attempt, found, err
	}
	if attempt, _, err = recordcache.Get[apitypes.Attempt](u, key); err != nil {
		return cl, attempt, true, err
	}
	if err := reprice(u, &cl, attempt, now); err != nil {
		return cl, attempt, true, err
	}
	cl.UpdateAttempt(&attempt)
	return cl, attempt, true, nil
}

// DecideReleaseKept releases a cluster that was kept for users to examine.
func DecideReleaseKept(cl record.Cluster, why string, now time.Time) (d record.Decision) {
	cl.KeptUntil = now
	d.Put(record.ClusterKey(cl.ID), cl)
	d.Emit(events.ClusterRelease{Cluster: cl.ID, Job: cl.Job, Reason: why})
	return d
}

// DecideReleasing records that a cluster will be terminated.
func DecideReleasing(cl *record.Cluster, now time.Time) (d record.Decision) {
	cl.State, cl.Since = record.ClusterReleasing, now
	cl.Seq++
	cl.Command = "disconnect"
	d.Put(record.ClusterKey(cl.ID), *cl)
	return d
}

// ReleasedByOther reports whether another event repeats the release of a cluster, so that this event has nothing to
// do. While a cloud does not answer, each dead letter and each check of reconcile adds an event for the same cluster.
// If all of them called that cloud, the releases of other clouds would wait behind them for an hour. An event that has
// not succeeded after the time stuck is replaced.
func ReleasedByOther(cl record.Cluster, event string, stuck time.Duration, now time.Time) bool {
	return cl.Releaser != "" && cl.Releaser != event && now.Sub(cl.ReleaserSince) <= stuck
}

// DecideReleaseFailed records that an event repeats the release of a cluster until it succeeds.
func DecideReleaseFailed(cl record.Cluster, event string, now time.Time) (d record.Decision) {
	if cl.Releaser != event {
		cl.Releaser, cl.ReleaserSince = event, now
		d.Put(record.ClusterKey(cl.ID), cl)
	}
	return d
}

// DecideReleased emits the cost of an attempt whose machines are gone.
func DecideReleased(cl record.Cluster, attempt apitypes.Attempt, now time.Time) (d record.Decision) {
	if !cl.Released() {
		return d
	}
	held, usd := booked(cl, now)
	attempt.USD, attempt.ReservedUSD = usd, cl.ReservedUSD
	told := freed(cl.Queue, attempt)
	told.Cluster = cl.ID
	if cl.Offer.Spot && held > 0 {
		told.Spot, told.Hours = record.MarketID(attempt.OfferID), record.Hours(held)*float64(len(cl.Nodes))
		told.Outcome = string(cl.FinalOutcome(attempt))
	}
	d.Emit(told)
	return d
}

// DecideGone completes the record of an attempt whose machines are gone, with its cost, and removes the record of its
// cluster.
func DecideGone(cl record.Cluster, attempt apitypes.Attempt, usd float64, now time.Time) (d record.Decision) {
	if attempt.Outcome == "" {
		attempt.Outcome, attempt.Reason = cl.FinalOutcome(attempt), cl.Reason
	}
	if attempt.Ended.IsZero() {
		attempt.Ended = now
	}
	if attempt.KeptUntil.After(now) {
		attempt.KeptUntil = now
	}
	attempt.USD, attempt.ReservedUSD = usd, cl.ReservedUSD
	d.Put(record.AttemptKey(cl.Job, cl.Task, cl.Attempt), attempt)
	d.Del(record.ClusterKey(cl.ID))
	return d
}

// booked returns the time for which the cloud bills a cluster, and its cost in USD.
func booked(cl record.Cluster, now time.Time) (held time.Duration, usd float64) {
	from, ok := cl.ChargedFrom()
	if !ok {
		return 0, 0
	}
	held = hardware.BillingOf(cl.Offer.Cloud).Billed(max(now.Sub(from), 1)) // billed from the first moment on
	return held, cl.Charged(from.Add(held))
}

// reprice updates a cluster with the current price of its offer's market.
func reprice(u recordcache.Reader, cl *record.Cluster, attempt apitypes.Attempt, now time.Time) error {
	m, err := MarketOf(u, attempt)
	if err == nil {
		cl.Reprice(m, attempt.SurchargeUSD, now)
	}
	return err
}

// MarketOf returns the record of the spot market on which an attempt was bought. It is empty for an attempt on
// demand.
func MarketOf(u recordcache.Reader, attempt apitypes.Attempt) (m record.MarketRecord, err error) {
	if attempt.Offer.Spot {
		m, _, err = recordcache.Get[record.MarketRecord](u, record.MarketKey(record.MarketID(attempt.OfferID)))
	}
	return m, err
}

// quotaFreeAfter is the maximum time for which a cloud counts an ended machine against the quota.
const quotaFreeAfter = time.Minute

// DecideQuotaFreed ends the blocks for the quota that an offer's machines used, because those machines have ended. A
// block of a whole region has another cause, and stays.
func DecideQuotaFreed(o apitypes.Offer, known []apitypes.Block, now time.Time) (d record.Decision) {
	ends := now.Add(quotaFreeAfter)
	for _, k := range known {
		if k.Kind == string(cloud.Quota) && k.Family != "" && record.Covers(k, o, now) && ends.Before(k.Until) {
			d.EndBlock(k, ends)
		}
	}
	return d
}
