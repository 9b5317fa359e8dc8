package session

import (
	"cmp"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// The limit of a deployment counts the machines that all queues have bought, not only those of the session's tree. A
// session sums up the records of all queues, and writes the gate if it admits anything. So of two sessions that admit
// at the same time, one is repeated with the other's sum.

// gate is a session's data about the limit.
type gate struct {
	record.Gate
	others  apitypes.Bought // the purchases of the queues outside of the tree
	loaded  bool
	changed bool
	overdue bool // a task that has waited too long for the limit comes first
}

// buys returns what the admission of tasks would buy.
func (s *Session) buys(tasks []*admission) (sum apitypes.Bought, err error) {
	for _, a := range tasks {
		bidUSD, err := s.bidFor(a)
		if err != nil {
			return sum, err
		}
		sum = sum.Plus(a.buysAt(bidUSD))
	}
	return sum, nil
}

// buysAt returns what the admission of a task would buy with a bid. On machines of a pool and on a worker of its job,
// it buys nothing. With a bid of 0, it is the minimum, at the planned price.
func (a *admission) buysAt(bidUSD float64) apitypes.Bought {
	if a.pool != nil || a.shares() {
		return apitypes.Bought{}
	}
	rate := max(a.plan.Of(a.waiting.Task).Offer.USDPerHour, bidUSD)
	return apitypes.Bought{Machines: a.nodes, USDPerHour: rate * float64(a.nodes)}
}

// least returns what the admission of tasks would buy at their planned prices. Bids are not used, because a bid may
// be lowered to the remaining money, so it does not show what tasks can never get.
func least(tasks []*admission) (sum apitypes.Bought) {
	for _, a := range tasks {
		sum = sum.Plus(a.buysAt(0))
	}
	return sum
}

// bidUnderLimit lowers the bid of a spot machine, so that all tasks that are admitted together are within the limit
// of the deployment if nothing else is bought. Otherwise the task would wait for ever.
func (s *Session) bidUnderLimit(a *admission, bidUSD float64) float64 {
	most, together := s.Config.Limit.USDPerHour, []*admission{a}
	if most <= 0 {
		return bidUSD
	}
	if a.with != nil {
		together = a.with.members
	}
	need, rate := least(together).USDPerHour, a.plan.Of(a.waiting.Task).Offer.USDPerHour
	if need <= 0 || need > most {
		return bidUSD
	}
	return max(min(bidUSD, rate*most/need), rate)
}

// beyondLimit returns a text about the part of the limit that tasks which are admitted together exceed even if
// nothing else is bought, or "".
func (s *Session) beyondLimit(tasks ...*admission) string {
	return s.Config.Limit.Excess(least(tasks), apitypes.Bought{})
}

// overLimit returns a text about the part of the limit that tasks which are admitted together exceed now, or "" if
// there is room for them.
func (s *Session) overLimit(tasks []*admission) (string, error) {
	if s.Config.Limit.None() {
		return "", nil
	}
	need, err := s.buys(tasks)
	if err != nil || need.Machines == 0 {
		return "", err
	}
	if err := s.loadGate(); err != nil {
		return "", err
	}
	if s.gate.overdue && !replicas(tasks) {
		return "capacity for a task that has waited longer", nil
	}
	used := s.gate.others
	for _, q := range s.tree {
		used = used.Plus(q.Bought)
	}
	return s.Config.Limit.Excess(need, used), nil
}

// replicas reports whether tasks are replicas of services. A replica that returns does not wait behind a task that
// waits for the limit. The other replicas of its service do not end by themselves, so both could wait for ever.
func replicas(tasks []*admission) bool {
	return !slices.ContainsFunc(tasks, func(a *admission) bool { return a.spec.Tasks[a.waiting.Task].Service == nil })
}

// loadGate uses the gate that New has loaded before the queues.
func (s *Session) loadGate() error {
	if s.gate.loaded {
		return nil
	}
	g, _, lacks := recordcache.Get[record.Gate](s.u, record.GateKey())
	all, err := recordcache.List[apitypes.Queue](s.u, record.PartQueues, "", 0)
	if err = cmp.Or(lacks, err); err != nil {
		return err
	}
	s.gate.Gate, s.gate.loaded = g, true
	for i := range all {
		if !slices.ContainsFunc(s.tree, func(q *apitypes.Queue) bool { return q.Name == all[i].Name }) {
			s.gate.others = s.gate.others.Plus(all[i].Bought)
		}
	}
	return nil
}

// waitsAtGate reports whether tasks have to wait for the limit, and records that they wait. Smaller tasks may
// overtake them, but not for ever.
func (s *Session) waitsAtGate(tasks []*admission) (bool, error) {
	over, err := s.overLimit(tasks)
	if err != nil || over == "" {
		return false, err
	}
	s.gate.changed = s.gate.Wait(s.tree[0].Name) || s.gate.changed
	s.gate.overdue = s.gate.overdue || s.u.Now.Sub(tasks[0].since()) > s.patience()
	return true, nil
}
