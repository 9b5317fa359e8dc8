package session

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A gang is a set of tasks of one job that run together or not at all. A session admits all of them in one
// transaction. The machines of each task are then bought as usual. Machines that are up wait until all are up, and
// execute starts all tasks of the gang in one transaction. If one task fails or is interrupted, gang.broken makes the
// others save their work, release their machines, and wait in the queue until all can be admitted again.

const (
	// GangItems is the number of transaction items for admitting one task of a gang: waiting entry, task, attempt and
	// event.
	GangItems = 4
	// GangLeaveItems is the number of items for one task that releases its machines: cluster, attempt, task, waiting
	// entry, pool partition and event.
	GangLeaveItems = 6
	// GangOtherItems is the number of other items in a transaction that admits a gang while it handles one event: the
	// event's marker; hold, ledger, market and event of a settled job, or an announced task; and the gang's ledger,
	// the budget's ledger, and the event that continues the session.
	GangOtherItems = 12
)

// A task that joins a gang gets its machines separately, while the gang runs. It is admitted after all other waiting
// tasks and evicted before all other running tasks. So a gang shrinks before other tasks lose machines, and grows
// only with capacity that no other task wants.

// joinsBy is the amount by which the priority of a joining task is lowered, so that it is below the lowest priority
// of a job.
const joinsBy = 2*dag.MaxPriority + 1

// leadOf returns the key of the cluster that runs the gang's task with the lead role, or nil if it does not run.
func (s *Session) leadOf(a *admission) (*record.Key, error) {
	index := a.spec.Lead(a.waiting.Task)
	lead, _, err := recordcache.Get[record.Task](s.u, record.TaskKey(a.job.ID, index))
	if err != nil || lead.Attempt == 0 {
		return nil, err
	}
	key := record.ClusterKey(record.ClusterID(a.job.ID, index, lead.Attempt))
	cl, found, err := recordcache.Get[record.Cluster](s.u, key)
	if err != nil || !found || !cl.Started || cl.State != record.ClusterUp || cl.Outcome != "" ||
		cl.Leaving != "" {
		return nil, err
	}
	return &key, nil
}

// activeMemberOf returns the key of another task of the gang that is admitted, launching or running. It returns nil
// if there is none: then the whole gang starts together.
func (s *Session) activeMemberOf(a *admission) (*record.Key, error) {
	var lacks error
	for _, i := range a.spec.Gang(a.waiting.Task) {
		key := record.TaskKey(a.job.ID, i)
		t, _, err := recordcache.Get[record.Task](s.u, key)
		if lacks = cmp.Or(lacks, err); err == nil && i != a.waiting.Task &&
			(t.State == record.TaskAdmitted || t.State == record.TaskLaunching || t.State == record.TaskRunning) {
			return &key, nil
		}
	}
	return nil, lacks
}

// gang returns the gang with which a waiting task starts. It is empty for a task without a gang, or a task that
// restarts alone.
func (a *admission) gang() string {
	if a.activeMember != nil {
		return ""
	}
	return a.task.Gang
}

// together is a set of tasks that are admitted together or not at all: the tasks of a gang that have not succeeded,
// or a single task.
type together struct {
	name    string // of the gang
	members []*admission
	waits   int // number of tasks that are not in the queue yet: not announced, or still releasing their machines
}

// gangOf loads the gang of a waiting task.
func (s *Session) gangOf(a *admission) (*together, error) {
	spec, err := s.u.Spec(a.job)
	if err != nil {
		return nil, err
	}
	t := &together{name: a.task.Gang}
	for _, i := range spec.Gang(a.waiting.Task) {
		err = cmp.Or(err, s.join(t, a, i)) // the loop continues after an error, so that all missing records are noted
	}
	if err == nil {
		err = s.clashWithin(t)
	}
	return t, err
}

// join loads a task of a gang, unless it has succeeded. It adds the task to the members, or counts it as not in the
// queue yet.
func (s *Session) join(t *together, of *admission, index int) error {
	task, _, err := recordcache.Get[record.Task](s.u, record.TaskKey(of.job.ID, index))
	if err != nil || task.State == record.TaskSucceeded {
		return err
	}
	w, queued := record.WaitingOf(of.job, task), false
	if task.State == record.TaskQueued {
		if _, queued, err = recordcache.Get[apitypes.Waiting](s.u, record.WaitKey(of.queue.Name, w)); err != nil {
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

// judgeAll decides on tasks that are admitted together, as far as the decision does not depend on other tasks. It also
// returns the task that the verdict is about.
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

// short returns a monthly budget that has too little left for all of the tasks, or nil.
func (t *together) short(s *Session) *record.Purse {
	return s.shortPurse(t.members[0].job.Queue, s.costsOf(t.members))
}

// tooLarge returns the reason why a gang can never be admitted, or "".
func (t *together) tooLarge(s *Session) string {
	first := t.members[0]
	if b := s.beyond(first.queue, t.needs()); b != nil {
		return fmt.Sprintf("its gang %s needs %s at once and queue %s allows %s", t.name,
			readable.Amount(b.resource, b.need), b.queue.Name, fault.Number(b.most))
	}
	if b := s.overMonthlyBudget(first.queue, s.costsOf(t.members)); b != nil {
		return fmt.Sprintf("its gang %s needs %s", t.name, b.message())
	}
	if over := s.beyondLimit(t.members...); over != "" {
		return fmt.Sprintf("its gang %s needs %s", t.name, over)
	}
	for _, q := range s.above(first.queue) {
		if q.MaxRunning > 0 && len(t.members) > q.MaxRunning {
			return fmt.Sprintf("its gang %s is %d tasks at once and queue %s allows %d", t.name, len(t.members), q.Name,
				q.MaxRunning)
		}
	}
	return ""
}

// needs returns the amounts that the whole gang would hold.
func (t *together) needs() (sum apitypes.Amounts) {
	for _, m := range t.members {
		sum = sum.Plus(m.needs())
	}
	return sum
}

// affordable is admission.affordable for the total cost of all members.
func (t *together) affordable() verdict {
	usd := 0.0
	for _, m := range t.members {
		usd += m.usd()
	}
	return t.members[0].affordable(usd)
}

// errCrowded means that an admission does not fit into a transaction that handles several events. The caller then
// handles each event in a separate transaction.
var errCrowded = errors.New("broker: an admission needs a transaction of its own")

// admitAll admits tasks that the scheduler has bound, all or none, and returns their number. full means that they do
// not fit into the transaction.
func (s *Session) admitAll(t *together, bound []*admission) (admitted int, full bool, err error) {
	if len(bound) != len(t.members) {
		return 0, false, nil // the scheduler's guards exclude this
	}
	room := record.MaxItems - len(s.tree) - GangOtherItems/2
	if slices.ContainsFunc(bound, (*admission).isRuled) {
		room -= locationItems
	}
	if s.u.Items()+GangItems*len(bound) > room {
		return s.noRoom()
	}
	if v := t.affordable(); v != verdictAdmit { // earlier admissions of this session have reserved money
		return 0, false, s.act(v, t.members[0])
	}
	if !s.holdsPools(bound, room) {
		return s.noRoom()
	}
	if slices.ContainsFunc(bound, (*admission).lacksWorker) {
		s.more = s.more || s.u.Items() > 0
		return 0, false, nil
	}
	fits, err := s.fitsRules(bound)
	if err == nil && fits && s.scarce(t) && s.leaveExpensivePools(bound) {
		fits, err = s.fitsRules(bound)
	}
	if err != nil || !fits {
		s.more = s.more || err == nil // earlier admissions may be in the way: a later session tries again
		return 0, false, err
	}
	if t.short(s) != nil {
		return 0, false, nil
	}
	if waits, err := s.waitsAtGate(bound); err != nil || waits {
		return 0, false, err
	}
	for _, a := range bound {
		if err := s.act(verdictAdmit, a); err != nil {
			return 0, false, err
		}
	}
	return len(bound), false, nil
}

// noRoom is the result of an admission that does not fit into the transaction.
func (s *Session) noRoom() (admitted int, full bool, err error) {
	if s.u.Crowded {
		return 0, false, errCrowded
	}
	return 0, true, nil
}

// holdsPools removes tasks from their pools if writes of their machines would not fit into the transaction. It
// returns false if one of them has promised machines: such a task needs a separate transaction.
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

// explain returns the reason why a gang waits. It returns "" if the reason is neither the gang itself nor its quota.
func (t *together) explain(s *Session) string {
	if t.waits > 0 {
		return fmt.Sprintf("it waits for its gang %s: %d of its %d tasks are not in the queue yet", t.name, t.waits,
			t.waits+len(t.members))
	}
	for _, m := range t.members {
		if v := s.judge(m); v != verdictAdmit && v != verdictDrop {
			return fmt.Sprintf(
				"it waits for its gang %s: task %s cannot start: %s",
				t.name,
				m.name,
				s.explain(m, nil)[0],
			)
		}
	}
	if p := t.short(s); p != nil {
		return fmt.Sprintf("it waits for its gang %s: %s", t.name, shortMessage(p, s.costsOf(t.members)))
	}
	if over, err := s.overLimit(t.members); err == nil && over != "" {
		return fmt.Sprintf("it waits for its gang %s, which needs %s", t.name, over)
	}
	needs := t.needs()
	for _, q := range s.above(t.members[0].queue) {
		running, used := record.UseOf(s.tree, q)
		lacks, is := needs.Exceeds(q.Limits(), used)
		switch {
		case is:
			return fmt.Sprintf("it waits for its gang %s, which needs %s at once: queue %s has %s of %s in use",
				t.name, readable.Amount(lacks, needs[lacks]), q.Name, fault.Number(used[lacks]),
				fault.Number(q.Limits()[lacks]))
		case q.MaxRunning > 0 && running+len(t.members) > q.MaxRunning:
			return fmt.Sprintf("it waits for its gang %s of %d tasks: queue %s runs %d of %d", t.name, len(t.members),
				q.Name, running, q.MaxRunning)
		}
	}
	return ""
}
