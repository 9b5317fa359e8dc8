package session

import (
	"cmp"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// The limit of a deployment counts the machines that all queues have bought, not only those of the session's tree. A
// session sums the records of the queues up and writes the gate if it admits anything, so of two sessions that admit
// at once one is repeated with the other's sum.

// gate is what a session knows of the limit.
type gate struct {
	record.Gate
	others  apitypes.Bought // what the queues outside of the tree have bought
	loaded  bool
	changed bool
	overdue bool // a task that has waited too long for the limit goes first
}

// buys is what the admission of tasks would buy.
func (s *Session) buys(tasks []*admission) (sum apitypes.Bought, err error) {
	for _, a := range tasks {
		b, err := s.boughtFor(a)
		if err != nil {
			return sum, err
		}
		sum = sum.Plus(b)
	}
	return sum, nil
}

// boughtFor is what the admission of a task would buy: nothing on machines of a pool and on a worker of its job.
func (s *Session) boughtFor(a *admission) (b apitypes.Bought, err error) {
	if a.pool != nil || a.shares() {
		return b, nil
	}
	bidUSD, err := s.bidFor(a)
	rate := max(a.plan.Of(a.waiting.Task).Offer.USDPerHour, bidUSD)
	return apitypes.Bought{Machines: a.nodes, USDPerHour: rate * float64(a.nodes)}, err
}

// bidUnderLimit lowers the bid of a spot machine so that all that is admitted together is within the limit of the
// deployment, if nothing else is bought. Otherwise it would wait for ever.
func (s *Session) bidUnderLimit(a *admission, bidUSD float64) float64 {
	most, together := s.Config.Limit.USDPerHour, []*admission{a}
	if most <= 0 {
		return bidUSD
	}
	if a.with != nil {
		together = a.with.members
	}
	var least apitypes.Bought
	for _, m := range together {
		least = least.Plus(m.least())
	}
	rate := a.plan.Of(a.waiting.Task).Offer.USDPerHour
	if least.USDPerHour <= 0 || least.USDPerHour > most {
		return bidUSD
	}
	return max(min(bidUSD, rate*most/least.USDPerHour), rate)
}

// least is what the admission of a task would buy at its planned price. The bid may be lowered to the remaining money,
// so it does not say what the task can never have.
func (a *admission) least() apitypes.Bought {
	if a.pool != nil || a.shares() {
		return apitypes.Bought{}
	}
	rate := a.plan.Of(a.waiting.Task).Offer.USDPerHour
	return apitypes.Bought{Machines: a.nodes, USDPerHour: rate * float64(a.nodes)}
}

// beyondLimit says what tasks that are admitted together exceed of the limit even if nothing else is bought; "" if
// nothing.
func (s *Session) beyondLimit(tasks ...*admission) string {
	var need apitypes.Bought
	for _, a := range tasks {
		need = need.Plus(a.least())
	}
	return s.Config.Limit.Excess(need, apitypes.Bought{})
}

// overLimit says what tasks that are admitted together exceed of the limit now; "" if there is room for them.
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
	if s.gate.overdue {
		return "what a task that has waited longer is waiting for", nil
	}
	used := s.gate.others
	for _, q := range s.tree {
		used = used.Plus(q.Bought)
	}
	return s.Config.Limit.Excess(need, used), nil
}

// loadGate loads the gate before the queues: what changes in between changes the gate, too.
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

// waitsAtGate reports whether tasks have to wait for the limit, and notes it. Smaller tasks pass them, but not for
// ever.
func (s *Session) waitsAtGate(tasks []*admission) (bool, error) {
	over, err := s.overLimit(tasks)
	if err != nil || over == "" {
		return false, err
	}
	s.gate.changed = s.gate.Wait(s.tree[0].Name) || s.gate.changed
	s.gate.overdue = s.gate.overdue || s.u.Now.Sub(tasks[0].since()) > s.patience()
	return true, nil
}
