package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/internal/catalog/quotas"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// PlaceOf returns the optimizer's name of the place where an attempt runs.
func PlaceOf(a apitypes.Attempt) string {
	if a.Place != "" {
		return a.Place
	}
	return Place(a.Offer)
}

// UpdateAttempt updates an attempt with the state of its cluster. The attempt's own record gets its success only
// together with its cost.
func (cl *Cluster) UpdateAttempt(a *apitypes.Attempt) {
	if cl.Attempt != a.Number || cl.Task != a.Task {
		return
	}
	for _, t := range []struct{ to, from *time.Time }{{&a.Launched, &cl.Launched}, {&a.Up, &cl.Up},
		{&a.Started, &cl.Running}} {
		if !t.from.IsZero() {
			*t.to = *t.from
		}
	}
	if !cl.Launched.IsZero() {
		a.MaxUSD = cl.MaxUSD
	}
	a.EgressUSD = cl.EgressUSD()
	if a.RateUSD = 0; cl.Rate() != a.Offer.USDPerHour {
		a.RateUSD = cl.Rate()
	}
	if cl.Outcome == apitypes.OutcomeSucceeded && a.Outcome == "" {
		a.Outcome, a.Ended = cl.Outcome, cl.Ended
	}
}

// UpdateTask sets a task to running if the cluster of its last attempt runs. Only tasks of gangs have that state in
// their own record, because other members of the gang read it.
func (cl *Cluster) UpdateTask(t *Task) {
	quiet := cl.Quiet && cl.State == ClusterUp && cl.Outcome == ""
	if cl.Task == t.Index && cl.Attempt == t.Attempt && (cl.Started || quiet) && t.State == TaskLaunching {
		t.State, t.StartedAt = TaskRunning, cl.Running
		if t.StartedAt.IsZero() {
			t.StartedAt = cl.Up
		}
	}
}

// IsTemporary reports whether a block ends without an action of a user. A missing right may have been granted and not
// have taken effect yet, so its block counts as temporary for the longest time that this takes. After that time, and
// for missing credentials, a user has to act.
func IsTemporary(b apitypes.Block) bool {
	return b.Kind != string(cloud.Invalid) && (b.Kind != string(cloud.Auth) || b.Count < MaxBlockDoublings)
}

// Covers reports whether a block applies to an offer at a time.
func Covers(b apitypes.Block, o apitypes.Offer, now time.Time) bool {
	if b.Reservation != o.Reservation && (b.Reservation != "" || b.Kind == string(cloud.Capacity)) {
		return false // reserved capacity is available even if the cloud has nothing more for sale
	}
	return now.Before(b.Until) && b.Cloud == o.Cloud && b.Service == o.Service &&
		(b.Region == "" || b.Region == o.Region) &&
		(b.Zone == "" || b.Zone == o.Zone) &&
		(b.InstanceType == "" || b.InstanceType == o.InstanceType) &&
		(b.Family == "" || b.Family == Family(o.InstanceType) || quotas.Counts(b.Family, o)) &&
		(b.Market == "" || b.Market == string(Market(o)))
}
