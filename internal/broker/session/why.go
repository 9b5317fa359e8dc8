package session

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// whyTasks is the maximum number of tasks that ExplainTasks explains.
const whyTasks = 20

// ExplainTasks adds the waiting tasks of a job to w, and the reason why each waits.
func (s *Session) ExplainTasks(w *apitypes.Why, job record.Job) error {
	q := s.queues[job.Queue]
	if q == nil {
		return nil
	}
	waiting, err := recordcache.List[apitypes.Waiting](s.u, record.WaitPart(q.Name), "wait#", sessionMost)
	if err != nil {
		return err
	}
	waiting, err = record.WaitingOrder(waiting, job.ID, func(id string) (record.Job, error) {
		of, err := s.sideOf(id)
		return of.job, err
	})
	if err != nil {
		return err
	}
	var mine []*admission
	w.Tasks, w.Waiting = []apitypes.WhyTask{}, 0
	ahead := 0
	for _, x := range waiting {
		if x.Job != job.ID {
			ahead++
			continue
		}
		if w.Waiting++; len(mine) == whyTasks {
			continue
		}
		a, lacks := s.facts(q, x)
		if err = cmp.Or(err, lacks); err == nil {
			w.Tasks = append(w.Tasks, apitypes.WhyTask{Task: a.name, Since: x.Since, Ahead: ahead})
		}
		mine = append(mine, a)
	}
	if err != nil || len(mine) == 0 {
		return err
	}
	said, err := s.schedulerReasons(mine[0])
	if err != nil {
		return err
	}
	for i, a := range mine {
		if a.gang() != "" {
			if a.with, err = s.gangOf(a); err != nil {
				return err
			}
			if said := a.with.explain(s); said != "" && s.judge(a) == verdictAdmit {
				w.Tasks[i].Reasons = []string{said}
				continue
			}
		}
		w.Tasks[i].Reasons = append([]string{}, s.explain(a, said)...)
	}
	return nil
}

// schedulerReasons returns the scheduler's reasons why the job of a waiting task waits, among all tasks on which it
// would decide. The decisions that are made meanwhile are discarded with the draft.
func (s *Session) schedulerReasons(a *admission) (said []string, err error) {
	if err := s.collect(1); err != nil {
		return nil, err
	}
	ours := func(c *admission) bool { return c.job.ID == a.job.ID }
	if !slices.ContainsFunc(s.candidates, ours) {
		if _, err := s.consider(a.queue, a.waiting); err != nil {
			return nil, err
		}
	}
	claimed, _ := splitClaimed(s.candidates, s.u.Now)
	snap, _ := s.snapshot(s.candidates, slices.DeleteFunc(claimed, ours))
	session, err := s.open(snap, allocate)
	if err != nil {
		return nil, err
	}
	session.Run()
	for _, r := range session.Why(a.unit()) {
		if aboutQueues(r) {
			said = append(said, r.Text)
		}
	}
	return said, nil
}

// explain returns the reasons why a task waits. said is the scheduler's explanation for its job.
func (s *Session) explain(a *admission, said []string) []string {
	switch s.judge(a) {
	case verdictDrop:
		return []string{"it is no longer waiting"}
	case verdictNever:
		if much := s.tooMuch(a); much != "" {
			return []string{"it needs " + much}
		}
		return []string{"its gang needs more than its queue can ever allow"}
	case verdictReplan:
		if a.plan.Of(a.waiting.Task) == nil {
			return []string{"the plan has no place for it: it is being replanned"}
		}
		if a.clash != nil && !a.blocked {
			return []string{"its planned location would violate a placement rule: " + a.clash.text +
				": it is being replanned"}
		}
		if !a.blocked && a.price != nil && a.affordable(a.usd()) == verdictAdmit {
			return []string{a.price.ReplanReason() + ": it is being replanned"}
		}
		if a.blocked {
			return []string{fmt.Sprintf("its planned location %s is blocked for now: it is being replanned",
				record.Where(a.plan.Of(a.waiting.Task).Offer))}
		}
		return []string{"the remaining budget is less than it needs: it is being replanned"}
	case verdictSkip:
		return []string{s.explainSkip(a)}
	case verdictWait:
		return []string{"it " + a.price.Describe(s.u.Now)}
	case verdictAdmit:
	}
	if pool := a.queue.ClaimedIn(a.claim(), s.u.Now); pool != "" {
		return []string{"machines of pool " + pool +
			" are kept for it, and it starts when the tasks on them have left"}
	}
	if over, err := s.overLimit([]*admission{a}); err == nil && over != "" {
		return []string{"it needs " + over}
	}
	if other := s.otherClaim(a); other != "" && len(said) > 0 {
		return []string{"room is being made for " + other + ", which is ahead of it"}
	}
	return said
}

// explainSkip returns the reason why a session skips a task.
func (s *Session) explainSkip(a *admission) string {
	switch {
	case a.job.State == apitypes.JobWaiting:
		return "no plan of its job is feasible now: " + a.job.Reason
	case a.job.State != apitypes.JobRunning || a.plan == nil:
		return "its job has no plan yet"
	case a.job.Suspended() != nil:
		return "its job is " + a.job.Suspended().String()
	case s.closed(a.queue) != nil:
		return closedMessage(s.closed(a.queue))
	case a.outdated(a.waiting):
		return "it is being replanned"
	case a.clash != nil:
		return "its planned location would violate a placement rule: " + a.clash.text
	case a.task.Joins != "" && a.lead == nil:
		return fmt.Sprintf("it joins gang %s once the gang runs", a.task.Joins)
	case s.u.Now.Before(a.task.NotBefore):
		return fmt.Sprintf("it has ended %d times in a row, and is retried at %s", a.task.Misses,
			a.task.NotBefore.UTC().Format(time.RFC3339))
	}
	if p := s.shortOf(a); p != nil && a.affordable(a.usd()) == verdictAdmit {
		return shortMessage(p, s.costs(a))
	}
	return fmt.Sprintf("the budget has %s USD left that is neither spent nor reserved, and it needs %s",
		readable.USD(a.left()), readable.USD(a.usd()))
}

// closedMessage returns the reason why a queue admits nothing.
func closedMessage(q *apitypes.Queue) string {
	if q.Suspended.Since.IsZero() {
		return "queue " + q.Name + " is closed"
	}
	return "queue " + q.Name + " is " + q.Suspended.String()
}
