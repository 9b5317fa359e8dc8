package session

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// A task that has waited too long is late. A late task makes the tasks behind it wait, so that they cannot overtake
// it for ever. If the policy has the actions reserve and backfill, a session still admits tasks behind it that will
// finish before the first late task of each queue can start. That start is estimated from the expected ends of the
// running tasks (Lifka, The ANL/IBM SP Scheduling System, 1995, known as EASY). Estimates may be wrong, so
// backfilling stops when a task has waited four times too long.

// The policy actions that enable backfilling. Both are needed.
const (
	actionBackfill = "backfill"
	actionReserve  = "reserve"
)

// Overtaken is the maximum time for which backfilling may overtake a task, as a multiple of the time after which it
// is late.
const Overtaken = 4

// backfill admits tasks behind a late task that will finish before the late task can start. It returns their number.
func (s *Session) backfill() (admitted int, err error) {
	if !s.follows(actionBackfill) || !s.follows(actionReserve) {
		return 0, nil
	}
	waiting := notAdmitted(s.candidates)
	heads := map[*apitypes.Queue]*admission{} // the first late task of each queue
	for _, a := range waiting {
		if s.late(a, Overtaken) {
			return 0, nil
		}
		if first := heads[a.queue]; s.late(a, 1) && (first == nil || a.inLine().Compare(first.inLine()) < 0) {
			heads[a.queue] = a
		}
	}
	if len(heads) == 0 || len(heads) == len(waiting) {
		return 0, nil
	}
	clusters, err := s.clusters()
	if err != nil {
		return 0, err
	}
	var ends []ending
	for _, id := range slices.Sorted(maps.Keys(clusters)) {
		e, err := s.expectedEnd(clusters[id])
		if lacking(err) != nil {
			return 0, err
		}
		ends = append(ends, e)
	}
	if s.u.Missing.Any() {
		return 0, recordcache.ErrMissing
	}
	slices.SortStableFunc(ends, func(a, b ending) int { return a.at.Compare(b.at) })
	var goes time.Time
	for _, a := range heads {
		if at := s.earliestStart(a.with, ends); goes.IsZero() || at.Before(goes) {
			goes = at
		}
	}
	short := slices.DeleteFunc(waiting, func(a *admission) bool {
		return heads[a.queue] != nil && heads[a.queue].with == a.with ||
			slices.ContainsFunc(a.with.members, func(m *admission) bool { return s.finishBy(m).After(goes) })
	})
	claimed, others := splitClaimed(short, s.u.Now)
	if len(others) == 0 {
		return 0, nil
	}
	return s.admitOf(others, claimed)
}

// inLine returns the task's queue entry, with the time from which it counts as waiting.
func (a *admission) inLine() apitypes.Waiting {
	w := a.waiting
	w.Since = a.since()
	return w
}

// late reports whether the task has waited longer than times the patience of the policy. A task that joins a gang is
// never late.
func (s *Session) late(a *admission, times time.Duration) bool {
	return a.task.Joins == "" && s.u.Now.Sub(a.since()) >= times*s.patience()
}

// patience returns the waiting time after which a task is late.
func (s *Session) patience() time.Duration {
	for _, tier := range s.Policy.Tiers {
		for _, conf := range tier {
			if conf.Name == "sla" {
				return conf.Args.Duration("maxWait", s.Config.OverdueAfter)
			}
		}
	}
	return s.Config.OverdueAfter
}

// finishBy returns a safe estimate of the time at which the task would finish if it were admitted now.
func (s *Session) finishBy(a *admission) time.Time {
	hours := a.plan.TaskHours[a.waiting.Task] * (1 - a.task.Progress)
	return s.u.Now.Add(record.Duration(hours*reserveSlack) + s.Config.Overhead)
}

// ending is the time at which a running cluster is expected to release its capacity.
type ending struct {
	at    time.Time
	queue *apitypes.Queue
	held  apitypes.Amounts
}

func (s *Session) expectedEnd(h holding) (e ending, err error) {
	e = ending{at: s.u.Now, queue: h.queue,
		held: h.Attempt.Hold.Plus(apitypes.Amounts{apitypes.VCPUs: h.Cluster.VCPU})}
	of, err := s.sideOf(h.Job.ID)
	if err != nil {
		return e, err
	}
	if ok, err := s.planned(of); err != nil || !ok {
		return e, err
	}
	hours := cmp.Or(h.Task.Hours, of.plan.TaskHours[h.Cluster.Task])
	begun := h.Cluster.Running
	if begun.IsZero() {
		begun = s.u.Now
	}
	if at := begun.Add(record.Duration(hours)); at.After(s.u.Now) {
		e.at = at
	}
	return e, nil
}

// earliestStart returns the estimated earliest start of a waiting task or gang, if running tasks end when expected.
// It returns the current time if that cannot be estimated.
func (s *Session) earliestStart(t *together, ends []ending) time.Time {
	need, freed, count := t.needs(), map[*apitypes.Queue]apitypes.Amounts{}, map[*apitypes.Queue]int{}
	fits := func() bool {
		for _, q := range s.above(t.members[0].queue) {
			running, used := record.UseOf(s.tree, q)
			if _, lacks := need.Exceeds(q.Limits(), used.Minus(freed[q])); lacks ||
				q.MaxRunning > 0 && running-count[q]+len(t.members) > q.MaxRunning {
				return false
			}
		}
		return true
	}
	for i, e := range ends {
		for _, q := range s.above(e.queue) {
			freed[q] = freed[q].Plus(e.held)
			count[q]++
		}
		if same := i+1 < len(ends) && ends[i+1].at.Equal(e.at); !same && fits() {
			return e.at
		}
	}
	return s.u.Now
}
