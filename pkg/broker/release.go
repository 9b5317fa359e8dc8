package broker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// release terminates a cluster and books it: intent, act, outcome. It may be asked any number of times.
func (b *Broker) release(ctx context.Context, cause, id string) error {
	var cl Cluster
	err := b.transact(ctx, events.FnProvision, cause+"/release", false, func(u *unit) error {
		var found bool
		var err error
		if cl, found, err = get[Cluster](u, clusterKey(id)); err != nil || !found {
			cl = Cluster{}
			return orSkip(err)
		}
		if cl.State == ClusterReleasing {
			return errSkip
		}
		return u.apply(decideReleasing(&cl, u.now))
	})
	if err != nil || cl.ID == "" {
		return err
	}
	if c, ok := b.Clouds[cl.Offer.Cloud]; ok {
		if err := c.Terminate(ctx, id); err != nil {
			return fmt.Errorf("%w: terminate %s: %w", errAgain, id, err)
		}
	}
	return b.transact(ctx, events.FnProvision, cause+"/released", false, func(u *unit) error {
		cl, found, err := get[Cluster](u, clusterKey(id))
		if err != nil || !found {
			return orSkip(err)
		}
		attempt, _, err := get[Attempt](u, attemptKey(cl.Job, cl.Task, cl.Attempt))
		if err != nil {
			return err
		}
		if err := b.reprice(u, &cl, attempt); err != nil {
			return err
		}
		cl.tell(&attempt)
		return u.apply(decideReleased(cl, attempt, b.cfg.MinBilled, u.now))
	})
}

func decideReleasing(cl *Cluster, now time.Time) (d Decision) {
	cl.State, cl.Since = ClusterReleasing, now
	cl.Seq++
	cl.Command = "disconnect"
	d.put(clusterKey(cl.ID), *cl)
	return d
}

// decideReleased books what the attempt cost and gives back what it held.
func decideReleased(cl Cluster, attempt Attempt, minBilled time.Duration, now time.Time) (d Decision) {
	if cl.State != ClusterReleasing {
		return d
	}
	if attempt.Outcome == "" {
		attempt.Outcome, attempt.Reason = OutcomeCancelled, cl.Reason
		if cl.Outcome != "" {
			attempt.Outcome = cl.Outcome
		}
	}
	if attempt.Ended.IsZero() {
		attempt.Ended = now
	}
	attempt.ReservedUSD = cl.ReservedUSD
	held, usd := booked(cl, minBilled, now)
	attempt.USD = usd
	d.put(attemptKey(cl.Job, cl.Task, cl.Attempt), attempt)
	d.del(clusterKey(cl.ID))
	told := freed(cl.Queue, attempt)
	if cl.Offer.Spot && held > 0 {
		told.Spot, told.Hours = marketID(attempt.OfferID), hours(held)*float64(len(cl.Nodes))
		told.Outcome = string(attempt.Outcome)
	}
	d.emit(told)
	return d
}

// booked is how long a cluster is charged for, and what.
func booked(cl Cluster, minBilled time.Duration, now time.Time) (held time.Duration, usd float64) {
	from, ok := cl.chargedFrom()
	if !ok {
		return 0, 0
	}
	held = max(now.Sub(from), minBilled)
	return held, cl.charged(from.Add(held))
}

// reprice takes in what the market of a cluster's offer says now.
func (b *Broker) reprice(u *unit, cl *Cluster, attempt Attempt) error {
	m, err := marketOf(u, attempt)
	if err == nil {
		cl.reprice(m, attempt.SurchargeUSD, u.now)
	}
	return err
}

// marketOf is what is known of the spot market that an attempt bought on; nothing of one on demand.
func marketOf(u reader, attempt Attempt) (m MarketRecord, err error) {
	if attempt.Offer.Spot {
		m, _, err = get[MarketRecord](u, marketKey(marketID(attempt.OfferID)))
	}
	return m, err
}

// marketID is an offer's ID without the market it was bought on.
func marketID(offer string) string {
	offer = strings.TrimSuffix(offer, "/"+string(dag.MarketSpot))
	return strings.TrimSuffix(offer, "/"+string(dag.MarketOnDemand))
}

// releaseJob frees every cluster of an ending job.
func (b *Broker) releaseJob(ctx context.Context, cause string, e events.DAGEnding) error {
	u := b.newUnit(ctx, events.FnProvision)
	clusters, err := list[Cluster](u, jobPart(e.Job), clusterPrefix, 0)
	if err != nil {
		return err
	}
	// One event each, so that one cloud's failure does not hold up the others.
	for len(clusters) > 0 {
		n := min(len(clusters), unitFull)
		part := clusters[:n]
		clusters = clusters[n:]
		err := b.transact(ctx, events.FnProvision, cause+"/all/"+part[0].ID, false, func(u *unit) error {
			var d Decision
			for _, cl := range part {
				if cl.State != ClusterReleasing && cl.State != ClusterLaunching {
					d.emit(events.ClusterRelease{Cluster: cl.ID, Job: cl.Job, Reason: "the job is ending"})
				}
			}
			return u.apply(d)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
