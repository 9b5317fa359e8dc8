package session

import (
	"errors"
	"fmt"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// A gang is several tasks of a job that run together or not at all. schedule admits all of it in one transaction
// (schedule_gang.go); each task is then bought like any other. What is up waits until all is, and execute tells all of
// it to run in one transaction. Where one does not go on, gang.broken has the others give back what they have, saving
// their work first, and wait in their queue until all can be admitted again.

const (
	// GangItems is what the admission of one task of a gang adds to a transaction: its waiting entry, task, attempt and
	// event.
	GangItems = 4
	// GangLeaveItems is what one that gives back adds: cluster, attempt, task, waiting entry, partition of a pool,
	// event.
	GangLeaveItems = 6
	// GangBeside is what stands beside a gang's admission in a transaction that handles one event: its marker, a
	// settled job's hold, ledger, market and event, or a task that was announced; and the gang's ledger, its budget's,
	// and the event that goes on.
	GangBeside = 12
)

// together is a gang that a session decides on: all of its tasks that have not succeeded, each of which is an
// admission.
type together struct {
	name    string
	members []admission
	waits   int // tasks that are not in the queue: announced later, or giving back what they have
}

// unit names what an admission is a member of, as the scheduler is told: its job, or its gang.
func (a admission) unit() string {
	if a.gang != nil {
		return a.job.ID + record.GangMark + a.gang.name
	}
	return a.job.ID
}

// together loads the gang of a waiting task.
func (s *Session) together(a admission) (*together, error) {
	spec, err := s.u.Spec(a.job)
	if err != nil {
		return nil, err
	}
	t := &together{name: a.task.Gang}
	for _, i := range spec.Gang(a.waiting.Task) {
		task, _, err := book.Get[record.Task](s.u, record.TaskKey(a.job.ID, i))
		if err != nil {
			return nil, err
		}
		if task.State == record.TaskSucceeded {
			continue
		}
		w := record.Waiting{Job: a.job.ID, Task: i, Priority: a.job.Priority, Since: task.ReadyAt,
			MinPlan: task.MinPlan}
		_, queued, err := book.Get[record.Waiting](s.u, record.WaitKey(a.queue.Name, w))
		if err != nil {
			return nil, err
		}
		if task.State != record.TaskQueued || !queued {
			t.waits++
			continue
		}
		m, err := s.facts(a.queue, w)
		if err != nil {
			return nil, err
		}
		m.gang = t
		t.members = append(t.members, m)
	}
	return t, nil
}

// collectGang sorts out whether a gang can go as a whole, and makes candidates of its tasks if it can. It returns how
// many.
func (s *Session) collectGang(a admission) (taken int, err error) {
	if s.gangs[a.job.ID+record.GangMark+a.task.Gang] {
		return 0, nil
	}
	s.gangs[a.job.ID+record.GangMark+a.task.Gang] = true
	t, err := s.together(a)
	if err != nil {
		return 0, err
	}
	switch v, of := s.judgeGang(t); v {
	case verdictAdmit:
		s.candidates = append(s.candidates, t.members...)
		return len(t.members), nil
	case verdictDrop:
		for _, m := range t.members {
			if s.judge(m) == verdictDrop {
				if err := s.act(verdictDrop, m); err != nil || s.stop() {
					return 0, err
				}
			}
		}
		return 0, nil
	default:
		return 0, s.act(v, of)
	}
}

// judgeGang decides on a gang as far as that does not depend on others, and says which of its tasks the verdict is
// about.
func (s *Session) judgeGang(t *together) (verdict, admission) {
	worst, of := verdictAdmit, admission{}
	for _, m := range t.members {
		if v := s.judge(m); v != verdictAdmit && (worst == verdictAdmit || worst == verdictSkip) {
			worst, of = v, m
		}
	}
	if worst != verdictAdmit || t.waits > 0 || len(t.members) == 0 {
		if worst == verdictAdmit {
			worst = verdictSkip
		}
		return worst, of
	}
	first := t.members[0]
	if t.tooLarge(s) != "" {
		return verdictNever, first
	}
	return t.affordable(first.ledger), first
}

// tooLarge says why a gang can never be admitted; it is empty if it can.
func (t *together) tooLarge(s *Session) string {
	vcpu, first := t.vcpu(), t.members[0]
	if of, most := s.most(first.queue); vcpu > most {
		return fmt.Sprintf("its gang %s needs %g vCPUs at once and queue %s allows %g", t.name, vcpu, of.Name, most)
	}
	for _, q := range s.above(first.queue) {
		if q.MaxRunning > 0 && len(t.members) > q.MaxRunning {
			return fmt.Sprintf("its gang %s is %d tasks at once and queue %s allows %d", t.name, len(t.members), q.Name,
				q.MaxRunning)
		}
	}
	return ""
}

// vcpu is what all of a gang would hold.
func (t *together) vcpu() (sum float64) {
	for _, m := range t.members {
		sum += m.vcpu()
	}
	return sum
}

// affordable says whether the job's budget has enough left for all of a gang.
func (t *together) affordable(ledger record.Ledger) verdict {
	first, usd := t.members[0], 0.0
	for _, m := range t.members {
		usd += m.plan.TaskUSD[m.waiting.Task]
	}
	first.ledger = ledger
	if first.job.BudgetUSD > 0 && usd > first.left()+record.CentsEps {
		if ledger.Outstanding > 0 {
			return verdictSkip
		}
		return verdictReplan
	}
	return verdictAdmit
}

// errCrowded says that a gang does not fit a transaction beside the events that share it: each is then handled by
// itself.
var errCrowded = errors.New("broker: a gang needs a transaction of its own")

// admitGang admits all of a gang that a session has bound, or nothing of it. done is false where the transaction has no
// room left for it.
func (s *Session) admitGang(binds []scheduler.Bind, byTask map[string]admission) (done bool, err error) {
	t := byTask[taskOf(binds[0])].gang
	if len(binds) != len(t.members) {
		return true, nil // never of a session under its guards
	}
	room := record.MaxItems - len(s.tree) - GangBeside/2
	if s.u.Items()+GangItems*len(binds) > room {
		if s.u.Crowded {
			return false, errCrowded
		}
		return false, nil
	}
	ledger, _, err := book.Get[record.Ledger](s.u, record.LedgerKey(t.members[0].job.ID))
	if err != nil {
		return false, err
	}
	if v := t.affordable(ledger); v != verdictAdmit {
		return true, s.act(v, t.members[0])
	}
	for i, bind := range binds {
		a := byTask[taskOf(bind)]
		if a.ledger, _, err = book.Get[record.Ledger](s.u, record.LedgerKey(a.job.ID)); err != nil {
			return false, err
		}
		if a.pool != nil && s.u.Items()+GangItems*(len(binds)-i)+len(a.pool.hosts) > room {
			a.pool = nil // what is there already would cost more of the transaction than there is
		}
		if err := s.act(verdictAdmit, a); err != nil {
			return false, err
		}
	}
	return true, nil
}

// tell says what keeps a task that is in a gang; it is empty if nothing of its gang or its quota does.
func (t *together) tell(s *Session) string {
	if t.waits > 0 {
		return fmt.Sprintf("it waits for its gang %s: %d of its %d tasks are not in the queue yet", t.name, t.waits,
			t.waits+len(t.members))
	}
	for _, m := range t.members {
		if v := s.judge(m); v != verdictAdmit && v != verdictDrop {
			return fmt.Sprintf("it waits for its gang %s: task %s can not go: %s", t.name, m.name, s.tell(m, nil)[0])
		}
	}
	vcpu := t.vcpu()
	for _, q := range s.above(t.members[0].queue) {
		running, used := s.use(q)
		switch {
		case q.MaxVCPU > 0 && used+vcpu > q.MaxVCPU:
			return fmt.Sprintf("it waits for its gang %s, which needs %g vCPUs at once: queue %s has %g of %g in use",
				t.name, vcpu, q.Name, used, q.MaxVCPU)
		case q.MaxRunning > 0 && running+len(t.members) > q.MaxRunning:
			return fmt.Sprintf("it waits for its gang %s of %d tasks: queue %s runs %d of %d", t.name, len(t.members),
				q.Name, running, q.MaxRunning)
		}
	}
	return ""
}

// use is what a queue holds with those below it.
func (s *Session) use(q *record.Queue) (running int, vcpu float64) {
	running, vcpu = q.Running, q.VCPU
	for _, x := range s.tree {
		if x.Parent == q.Name && x != q {
			r, v := s.use(x)
			running, vcpu = running+r, vcpu+v
		}
	}
	return running, vcpu
}

// neverGang fails a task whose gang is more than its queue allows.
func (s *Session) neverGang(a admission) (d record.Decision) {
	d.Del(record.WaitKey(a.queue.Name, a.waiting))
	a.task.State, a.task.EndedAt = record.TaskFailed, s.u.Now
	d.Put(record.TaskKey(a.job.ID, a.waiting.Task), a.task)
	d.Emit(events.TaskFailed{
		Job: a.job.ID, Task: a.waiting.Task, Attempt: a.task.Attempt, ExitCode: -1, Final: true,
		Message: a.gang.tooLarge(s),
	})
	return d
}
