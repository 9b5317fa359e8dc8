package session

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A gang is several tasks of a job that run together or not at all. schedule admits all of it in one transaction;
// each task is then bought like any other. What is up waits until all is, and execute tells all of
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

// A task that joins a gang is bought by itself while the gang runs, comes after all else that waits, and goes before
// all else that runs: a gang shrinks before anything is taken from others, and grows by what nobody else wants.

// joinsBy is by how much one that joins is less urgent than the least urgent of jobs.
const joinsBy = 2*dag.MaxPriority + 1

// leadOf finds the cluster of the gang's task that has the role of one that joins; nil unless it runs.
func (s *Session) leadOf(a *admission) (*record.Key, error) {
	index := a.spec.Lead(a.waiting.Task)
	lead, _, err := book.Get[record.Task](s.u, record.TaskKey(a.job.ID, index))
	if err != nil || lead.Attempt == 0 {
		return nil, err
	}
	key := record.ClusterKey(record.ClusterID(a.job.ID, index, lead.Attempt))
	cl, found, err := book.Get[record.Cluster](s.u, key)
	if err != nil || !found || !cl.Started || cl.State != record.ClusterUp || cl.Outcome != "" ||
		cl.Leaving != "" {
		return nil, err
	}
	return &key, nil
}

// besideOf finds another of a task's gang that is admitted, launched or runs; nil where none does, so that all of the
// gang begins together.
func (s *Session) besideOf(a *admission) (*record.Key, error) {
	var lacks error
	for _, i := range a.spec.Gang(a.waiting.Task) {
		key := record.TaskKey(a.job.ID, i)
		t, _, err := book.Get[record.Task](s.u, key)
		if lacks = cmp.Or(lacks, err); err == nil && i != a.waiting.Task &&
			(t.State == record.TaskAdmitted || t.State == record.TaskLaunching || t.State == record.TaskRunning) {
			return &key, nil
		}
	}
	return nil, lacks
}

// gang is the gang that a waiting task begins together with; empty of one that is in none, or that begins anew alone.
func (a *admission) gang() string {
	if a.beside != nil {
		return ""
	}
	return a.task.Gang
}

// together are tasks that go together or not at all: those of a gang that have not succeeded, or one by itself.
type together struct {
	name    string // of the gang
	members []*admission
	waits   int // tasks that are not in the queue: announced later, or giving back what they have
}

// gangOf loads the gang of a waiting task.
func (s *Session) gangOf(a *admission) (*together, error) {
	spec, err := s.u.Spec(a.job)
	if err != nil {
		return nil, err
	}
	t := &together{name: a.task.Gang}
	for _, i := range spec.Gang(a.waiting.Task) {
		err = cmp.Or(err, s.join(t, a, i)) // what is lacking of all is noted
	}
	if err == nil {
		err = s.clashWithin(t)
	}
	return t, err
}

// join loads a task of a gang that is not done, as one of those that wait or as a member.
func (s *Session) join(t *together, of *admission, index int) error {
	task, _, err := book.Get[record.Task](s.u, record.TaskKey(of.job.ID, index))
	if err != nil || task.State == record.TaskSucceeded {
		return err
	}
	w, queued := record.WaitingOf(of.job, task), false
	if task.State == record.TaskQueued {
		if _, queued, err = book.Get[apitypes.Waiting](s.u, record.WaitKey(of.queue.Name, w)); err != nil {
			return err
		}
	}
	if !queued {
		t.waits++
		return nil
	}
	m, err := s.facts(of.queue, w)
	if err == nil {
		m.with = t
		t.members = append(t.members, m)
	}
	return err
}

// judgeAll decides on tasks that go together as far as that does not depend on others, and says which of them the
// verdict is about.
func (s *Session) judgeAll(t *together) (worst verdict, of *admission) {
	for _, m := range t.members {
		if v := s.judge(m); v != verdictAdmit && (worst == verdictAdmit || worst == verdictSkip) {
			worst, of = v, m
		}
	}
	switch {
	case worst != verdictAdmit:
		return worst, of
	case t.waits > 0 || len(t.members) == 0:
		return verdictSkip, nil
	case t.tooLarge(s) != "":
		return verdictNever, t.members[0]
	}
	if v := t.affordable(); v != verdictAdmit {
		return v, t.members[0]
	}
	if t.short(s) != nil {
		return verdictSkip, t.members[0]
	}
	return verdictAdmit, t.members[0]
}

// short is the month's budget that has too little left for all of them; nil where none has.
func (t *together) short(s *Session) *record.Purse {
	return s.short(t.members[0].job.Queue, s.costsOf(t.members))
}

// tooLarge says why a gang can never be admitted; it is empty if it can.
func (t *together) tooLarge(s *Session) string {
	first := t.members[0]
	if b := s.beyond(first.queue, t.needs()); b != nil {
		return fmt.Sprintf("its gang %s needs %s at once and queue %s allows %s", t.name,
			record.TellAmount(b.resource, b.need), b.of.Name, record.TellFigure(b.most))
	}
	if b := s.dear(first.queue, s.costsOf(t.members)); b != nil {
		return fmt.Sprintf("its gang %s needs %s", t.name, b.tell())
	}
	for _, q := range s.above(first.queue) {
		if q.MaxRunning > 0 && len(t.members) > q.MaxRunning {
			return fmt.Sprintf("its gang %s is %d tasks at once and queue %s allows %d", t.name, len(t.members), q.Name,
				q.MaxRunning)
		}
	}
	return ""
}

// needs is what all of a gang would hold.
func (t *together) needs() (sum apitypes.Amounts) {
	for _, m := range t.members {
		sum = sum.Plus(m.needs())
	}
	return sum
}

// affordable says whether the job's budget has enough left for all of them.
func (t *together) affordable() verdict {
	usd := 0.0
	for _, m := range t.members {
		usd += m.usd()
	}
	return t.members[0].affordable(usd)
}

// errCrowded says that what is to be admitted does not fit a transaction beside the events that share it: each is then
// handled by itself.
var errCrowded = errors.New("broker: an admission needs a transaction of its own")

// admitAll admits tasks that go together as the scheduler has bound them, or none of them, and returns how many. full
// says that the transaction has no room left for them.
func (s *Session) admitAll(t *together, bound []*admission) (admitted int, full bool, err error) {
	if len(bound) != len(t.members) {
		return 0, false, nil // never of a session under its guards
	}
	room := record.MaxItems - len(s.tree) - GangBeside/2
	if slices.ContainsFunc(bound, (*admission).isRuled) {
		room -= standItems
	}
	if s.u.Items()+GangItems*len(bound) > room {
		if s.u.Crowded {
			return 0, false, errCrowded
		}
		return 0, true, nil
	}
	if v := t.affordable(); v != verdictAdmit { // what was admitted before has set some aside
		return 0, false, s.act(v, t.members[0])
	}
	if !s.holdsPools(bound, room) {
		if s.u.Crowded {
			return 0, false, errCrowded
		}
		return 0, true, nil
	}
	fits, err := s.standsFree(bound)
	if err == nil && fits && s.scarce(t) && s.leaveDear(bound) {
		fits, err = s.standsFree(bound)
	}
	if err != nil || !fits {
		s.more = s.more || err == nil // what was admitted before may be in the way; it is looked at again
		return 0, false, err
	}
	if t.short(s) != nil {
		return 0, false, nil
	}
	for _, a := range bound {
		if err := s.act(verdictAdmit, a); err != nil {
			return 0, false, err
		}
	}
	return len(bound), false, nil
}

// holdsPools has those leave their pools whose machines would cost more of the transaction than there is. It is false
// where machines were kept for one: that is for a transaction of its own.
func (s *Session) holdsPools(bound []*admission, room int) bool {
	items := s.u.Items() + GangItems*len(bound)
	for _, a := range bound {
		switch {
		case a.pool == nil:
		case items+len(a.pool.hosts) <= room:
			items += len(a.pool.hosts)
		case a.pool.redeemed:
			return false
		default:
			a.pool = nil
		}
	}
	return true
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
	if p := t.short(s); p != nil {
		return fmt.Sprintf("it waits for its gang %s: %s", t.name, tellShort(p, s.costsOf(t.members)))
	}
	needs := t.needs()
	for _, q := range s.above(t.members[0].queue) {
		running, used := record.UseOf(s.tree, q)
		lacks, is := needs.Exceeds(q.Most(), used)
		switch {
		case is:
			return fmt.Sprintf("it waits for its gang %s, which needs %s at once: queue %s has %s of %s in use",
				t.name, record.TellAmount(lacks, needs[lacks]), q.Name, record.TellFigure(used[lacks]),
				record.TellFigure(q.Most()[lacks]))
		case q.MaxRunning > 0 && running+len(t.members) > q.MaxRunning:
			return fmt.Sprintf("it waits for its gang %s of %d tasks: queue %s runs %d of %d", t.name, len(t.members),
				q.Name, running, q.MaxRunning)
		}
	}
	return ""
}
