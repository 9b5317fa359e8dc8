package broker

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// release terminates a cluster and tells what it cost: intent, act, outcome. It may be asked any number of times. The record of the cluster goes when schedule
// has booked that.
func (b *Broker) release(ctx context.Context, cause, id string) error {
	var cl Cluster
	err := b.transact(ctx, events.FnProvision, cause+"/release", false, func(u *unit) error {
		var found bool
		var err error
		if cl, found, err = get[Cluster](u, clusterKey(id)); err != nil || !found {
			cl = Cluster{}
			return orSkip(err)
		}
		if cl.released() {
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
		cl, attempt, found, err := loadReleased(u, id, u.now)
		if err != nil || !found {
			return orSkip(err)
		}
		return u.apply(decideReleased(cl, attempt, b.cfg.MinBilled, u.now))
	})
}

// released says that nothing goes on with the cluster, so that it may be terminated: it is decided, or its work is done.
func (cl *Cluster) released() bool {
	return cl.State == ClusterReleasing || cl.Outcome == OutcomeSucceeded
}

// loadReleased loads a cluster that is terminated, charged by the price of now, with its attempt.
func loadReleased(u reader, id string, now time.Time) (cl Cluster, attempt Attempt, found bool, err error) {
	task, number, _ := clusterAttempt(id)
	key := attemptKey(ClusterJob(id), task, number)
	if err := u.preload(clusterKey(id), key); err != nil {
		return cl, attempt, false, err
	}
	if cl, found, err = get[Cluster](u, clusterKey(id)); err != nil || !found {
		return cl, attempt, found, err
	}
	if attempt, _, err = get[Attempt](u, key); err != nil {
		return cl, attempt, true, err
	}
	if err := reprice(u, &cl, attempt, now); err != nil {
		return cl, attempt, true, err
	}
	cl.tell(&attempt)
	return cl, attempt, true, nil
}

func decideReleasing(cl *Cluster, now time.Time) (d Decision) {
	cl.State, cl.Since = ClusterReleasing, now
	cl.Seq++
	cl.Command = "disconnect"
	d.put(clusterKey(cl.ID), *cl)
	return d
}

// decideReleased tells what an attempt cost whose machines are gone.
func decideReleased(cl Cluster, attempt Attempt, minBilled time.Duration, now time.Time) (d Decision) {
	if !cl.released() {
		return d
	}
	held, usd := booked(cl, minBilled, now)
	attempt.USD, attempt.ReservedUSD = usd, cl.ReservedUSD
	told := freed(cl.Queue, attempt)
	told.Cluster = cl.ID
	if cl.Offer.Spot && held > 0 {
		told.Spot, told.Hours = marketID(attempt.OfferID), hours(held)*float64(len(cl.Nodes))
		told.Outcome = string(cl.over(attempt))
	}
	d.emit(told)
	return d
}

// over is how the attempt of a cluster that is gone has ended.
func (cl *Cluster) over(attempt Attempt) Outcome {
	return cmp.Or(attempt.Outcome, cl.Outcome, OutcomeCancelled)
}

// decideGone ends the records of an attempt whose machines are gone, at what they cost.
func decideGone(cl Cluster, attempt Attempt, usd float64, now time.Time) (d Decision) {
	if attempt.Outcome == "" {
		attempt.Outcome, attempt.Reason = cl.over(attempt), cl.Reason
	}
	if attempt.Ended.IsZero() {
		attempt.Ended = now
	}
	attempt.USD, attempt.ReservedUSD = usd, cl.ReservedUSD
	d.put(attemptKey(cl.Job, cl.Task, cl.Attempt), attempt)
	d.del(clusterKey(cl.ID))
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
func reprice(u reader, cl *Cluster, attempt Attempt, now time.Time) error {
	m, err := marketOf(u, attempt)
	if err == nil {
		cl.reprice(m, attempt.SurchargeUSD, now)
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
