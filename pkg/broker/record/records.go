package record

import (
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// PlaceOf is where an attempt runs, as the optimizer knows it.
func PlaceOf(a apitypes.Attempt) string {
	if a.Place != "" {
		return a.Place
	}
	return Place(a.Offer)
}

// Tell completes the record of an attempt by what its cluster has seen of it. That it succeeded is written to it with
// what it cost.
func (cl *Cluster) Tell(a *apitypes.Attempt) {
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

// TellTask completes the record of a task by what the cluster of its last attempt has seen of it: that it runs. Only of
// tasks in gangs, which look at each other, it is written to the task itself.
func (cl *Cluster) TellTask(t *Task) {
	if cl.Task == t.Index && cl.Attempt == t.Attempt && cl.Started && t.State == TaskLaunching {
		t.State, t.StartedAt = TaskRunning, cl.Running
	}
}

// Covers says whether a block keeps an offer from being tried at a time.
func Covers(b apitypes.Block, o apitypes.Offer, now time.Time) bool {
	if b.Reservation != o.Reservation && (b.Reservation != "" || b.Kind == string(cloud.Capacity)) {
		return false // what is full for all others has room for those who have it already
	}
	return now.Before(b.Until) && b.Cloud == o.Cloud &&
		(b.Region == "" || b.Region == o.Region) &&
		(b.Zone == "" || b.Zone == o.Zone) &&
		(b.InstanceType == "" || b.InstanceType == o.InstanceType) &&
		(b.Family == "" || b.Family == Family(o.InstanceType)) &&
		(b.Market == "" || b.Market == string(Market(o)))
}
