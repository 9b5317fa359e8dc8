package check

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Invariants of managed services. In addition, a place counts as a machine: it has a record or is about to be ended,
// nothing of it remains, and its bill equals the amount in the ledger.
const (
	// InvApp: the application of an attempt succeeds at most once.
	InvApp = "an application succeeds once"
	// InvNoticed: after a service has lost the place or application of an attempt, the attempt ends within a time
	// limit.
	InvNoticed = "a lost place is noticed"
)

// noticedWithin is the maximum time from the loss of an attempt by its service to the end of the attempt. The broker
// polls every few seconds, but a call may take minutes and fail, and the broker may crash during each. Time in which
// the service accepts no calls does not count, and neither does time in which functions get no messages.
const noticedWithin = 30 * time.Minute

// missedPlaceFor is the maximum time, if the broker's own parts work, for which a place that has ended may still be
// charged.
const missedPlaceFor = 2 * time.Minute

// onServices reports whether a task of a job may run on a managed service. Places of services need longer to start
// than machines.
func onServices(j *dag.Job) bool {
	return slices.ContainsFunc(j.Tasks, func(t dag.Task) bool { return len(t.Services) > 0 })
}

// ClusterOf returns the cluster with a place of this name, or "" if no attempt has such a place.
func (c *Checker) ClusterOf(place string) string {
	for _, s := range c.order {
		for _, a := range s.order {
			if a.Offer.Service != "" && attempt.PlaceName(a.cluster) == place {
				return a.cluster
			}
		}
	}
	return ""
}

// OfferOf returns the offer that a cluster was admitted to.
func (c *Checker) OfferOf(cluster string) (o apitypes.Offer) {
	if s := c.Jobs[record.ClusterJob(cluster)]; s != nil && s.has(cluster) {
		o = s.attemptOf(cluster).Offer
	}
	return o
}

// WatchFailed checks that a look at the managed services failed for a reason.
func (c *Checker) WatchFailed(err error) {
	all := []error{err}
	if joined, many := err.(interface{ Unwrap() []error }); many { //nolint:errorlint // the join itself
		all = joined.Unwrap()
	}
	for _, err := range all {
		if !injected(err) {
			c.Violatef(InvErrors, "watch of the managed services: %v", err)
		}
	}
}

// Submitted checks an application that a process submits which began in a step.
func (c *Checker) Submitted(m *Machine, began int) {
	s := c.Jobs[record.ClusterJob(m.Cluster)]
	task, _, _ := record.ClusterAttempt(m.Cluster)
	if step, ok := s.finished[task]; ok && step < began {
		c.Violatef(InvFinished, "task %d of %s had succeeded but is submitted to %s", task, s.ID, m.ID)
	}
	if over, ok := s.closed[m.Cluster]; ok && over.step < began {
		c.Violatef(InvAssigned, "%s has finished but is submitted to %s", m.Cluster, m.ID)
	}
	for _, p := range s.graph.Parents(task) {
		if !s.excused(int(p)) && s.Tasks[int(p)].State != record.TaskSucceeded {
			c.Violatef(InvAssigned, "%s is submitted before task %d has succeeded", m.Cluster, p)
		}
	}
}

// Succeeded checks an application that has succeeded for the n-th time.
func (c *Checker) Succeeded(m *Machine, n int) {
	if n > 1 {
		c.Violatef(InvApp, "the application of %s has succeeded %d times on %s", m.Cluster, n, m.ID)
	}
}

// checkNoticed checks that an attempt whose place is lost ends.
func (c *Checker) checkNoticed(s *Job, m *Machine) {
	cl, known := s.clusters[m.Cluster]
	if m.Lost.IsZero() || !known || cl.Outcome != "" || cl.State == record.ClusterReleasing ||
		cl.State == record.ClusterLaunching { // the broker does not know yet whether it has the place
		delete(c.unseen, m)
		return
	}
	if c.sky.Outage(m.Cloud) || c.reconcileStalled() {
		return
	}
	if c.unseen[m] += lookEvery; c.unseen[m] > noticedWithin {
		c.Violatef(InvNoticed, "%s is lost since %v, and its attempt goes on: %s %q", m.Cluster,
			c.Now.Sub(m.Lost).Round(time.Second), cl.State, cl.Command)
	}
}

// invalid reports whether a service has refused a place because its request is invalid. The service would refuse
// another place, too.
func (c *Checker) invalid(a *attemptState) bool {
	return a.Offer.Service != "" && slices.ContainsFunc(c.refusals[a.cluster], func(r refusal) bool {
		return r.text == a.Reason && r.kind == cloud.Invalid && !r.ended
	})
}

// unbilled returns the amount in USD that the broker may book for the places of an attempt although a serverless
// service does not bill it: for the time after the application, or for the whole life of the place if the application
// never started.
func (c *Checker) unbilled(s *Job, a *attemptState) (usd float64) {
	for _, m := range s.machines {
		if m.Cluster != a.cluster {
			continue
		}
		until := m.Ended
		if m.Alive() {
			until = c.Now
		}
		if a.Started.IsZero() || m.To.IsZero() {
			usd += max(m.cost(nil, m.Launched, until)-c.billBy(m, nil), 0)
		} else {
			usd += m.cost(nil, m.To, until)
		}
	}
	return usd
}
