package scheduler

import (
	"cmp"
	"fmt"
	"slices"
)

// preempt makes room for jobs by evicting tasks of other jobs in the same queue. The plugins decide which tasks may be
// evicted.
type preempt struct{}

func (preempt) Run(s *Session) {
	s.evictForThemselves()
	s.makeRoom(s.fn.preemptable, (*JobInfo).starving,
		func(j, victim *JobInfo) bool { return j.Queue == victim.Queue }, "preempted by job ")
}

// reclaim takes back resources that a queue deserves from queues that hold more than they deserve.
type reclaim struct{}

func (reclaim) Run(s *Session) {
	s.makeRoom(s.fn.reclaimable, (*JobInfo).grows,
		func(j, victim *JobInfo) bool { return j.Queue != victim.Queue }, "reclaimed for job ")
}

// evictForThemselves evicts the tasks that plugins want to evict even if no other task needs their resources. If a
// job cannot continue without such tasks, its other tasks are evicted, too.
func (s *Session) evictForThemselves() {
	for _, f := range s.fn.victims {
		st := s.Statement()
		for _, v := range f() {
			if !v.Task.evictable() {
				continue
			}
			for _, t := range v.Task.unit() {
				st.Evict(t, nil, v.Why)
			}
		}
		st.Commit()
	}
}

// room is an attempt to make room for jobs by evicting tasks of others.
type room struct {
	s        *Session
	tiers    [][]VictimsFn
	mayEvict func(j, victim *JobInfo) bool
	why      string
	// hopeless has the kinds of jobs that found no room since the last commit, with the queue whose limit stopped them.
	// Similar jobs are not tried again.
	hopeless map[hopelessKey]*QueueInfo
	commits  int
}

type hopelessKey struct {
	queue    *QueueInfo
	space    *NamespaceInfo
	class    *Class
	priority int
	members  int
	holds    bool
}

// makeRoom tries each job that wants room, in turn order. If a task of a job cannot be placed, the job is skipped,
// and the other jobs of its queue are still tried.
func (s *Session) makeRoom(tiers [][]VictimsFn, wants func(j *JobInfo) bool, whom func(j, victim *JobInfo) bool,
	why string) {
	if !s.held || !slices.ContainsFunc(tiers, func(t []VictimsFn) bool { return len(t) > 0 }) {
		return
	}
	r := &room{s: s, tiers: tiers, mayEvict: whom, why: why, commits: s.commits}
	l := s.lineUp(func(j *JobInfo) bool {
		if !j.schedulable() || !wants(j) {
			return false
		}
		_, ok := voted(s.fn.valid, j)
		return ok
	})
	for j := l.next(); j != nil; j = l.next() {
		made := r.turn(j)
		if !made && j.limit != nil && s.overdue(j) {
			l.drop(j.limit) // as in allocate: jobs behind an overdue job must not get the freed capacity
			continue
		}
		l.done(made && wants(j))
	}
}

// turn makes room for the tasks that a job needs to be ready, or for one more task of a ready job, and reports
// whether it did.
func (r *room) turn(j *JobInfo) bool {
	key := r.key(j)
	if r.commits != r.s.commits || r.hopeless == nil {
		r.hopeless, r.commits = map[hopelessKey]*QueueInfo{}, r.s.commits
	}
	if limit, ok := r.hopeless[key]; ok {
		j.limit = limit
		return false
	}
	st := r.s.Statement()
	if !r.fill(st, j) {
		st.Discard()
		if len(j.Job.Spares) == 0 {
			r.hopeless[key] = j.limit
		}
		return false
	}
	st.Commit()
	return true
}

func (r *room) key(j *JobInfo) hopelessKey {
	k := hopelessKey{queue: j.Queue, space: j.Namespace, priority: j.Job.Priority, members: j.Min() - j.Coming(),
		holds: j.Coming() > 0}
	j.pending(func(t *TaskInfo) bool {
		k.class = t.Class
		return false
	})
	return k
}

// fill places one task after the other on idle or releasing resources, and evicts others if neither suffices.
func (r *room) fill(st *Statement, j *JobInfo) bool {
	s := r.s
	ready, done := s.JobPipelined(j), false
	where := s.anywhere(j)
	var failed *Class
	j.pending(func(t *TaskInfo) bool {
		if t.Class == failed || !j.wants(t) {
			return true
		}
		if !s.offer(st, t, where) && !s.pipeline(st, t, where) && !r.evictFor(st, t, where) {
			failed = t.Class
			return j.limit == nil || !s.overdue(j) // as in allocate: an overdue job must find out which queue limits it
		}
		done = ready || s.JobPipelined(j)
		return !done
	})
	return done
}

// pipeline gives a task resources that are being released anyway.
func (s *Session) pipeline(st *Statement, t *TaskInfo, where search) bool {
	if _, of := s.limited(t.Job.Queue, &t.Class.request); of != nil {
		return false
	}
	for _, n := range s.Nodes[where.from:where.to] {
		if n.Future != n.Idle && s.roomLater(t.Class, n) {
			st.Pipeline(t, n)
			return true
		}
	}
	return false
}

// price is the cost of making room on a node; lower is better.
type price struct {
	priority int // highest priority among the victims
	tasks    int
}

func (p price) below(o price) bool {
	return cmp.Or(cmp.Compare(p.priority, o.priority), cmp.Compare(p.tasks, o.tasks)) < 0
}

// tryEvict returns the units that would leave a node for a task, and their price, and evicts none. The node's score is
// the same afterwards, so no class has to compute it again.
func (r *room) tryEvict(st *Statement, t *TaskInfo, n *NodeInfo) (units [][]*TaskInfo, p price) {
	victims := r.victims(t, n)
	if len(victims) == 0 {
		return nil, price{}
	}
	defer r.s.keepScores()()
	mark := st.mark()
	units = r.evict(st, t, n, victims)
	p = priceOf(units)
	st.undoTo(mark)
	return units, p
}

// mostTried is the maximum number of nodes with possible room that are compared.
const mostTried = 64

// evictFor makes room for a task on the node where the price is lowest.
func (r *room) evictFor(st *Statement, t *TaskInfo, where search) bool {
	s := r.s
	var best *NodeInfo
	var least price
	tried := 0
	for _, n := range s.Nodes[where.from:where.to] {
		units, p := r.tryEvict(st, t, n)
		if units == nil {
			continue
		}
		if best == nil || p.below(least) {
			best, least = n, p
		}
		if tried++; tried == mostTried {
			break
		}
	}
	if best == nil {
		return false
	}
	r.undoNeedless(st, t, best, r.evict(st, t, best, r.victims(t, best)))
	st.Pipeline(t, best)
	return true
}

// victims returns the tasks on a node that may be evicted for t, in eviction order. It returns none if evicting all of
// them would not make room.
func (r *room) victims(t *TaskInfo, n *NodeInfo) []*TaskInfo {
	s := r.s
	if len(n.running) == 0 || !s.allowed(t.Class, n) {
		return nil
	}
	most := n.Future
	var candidates []*TaskInfo
	for _, v := range n.running {
		if v.evictable() && v.Class.Evictable && v.Job != t.Job && r.mayEvict(t.Job, v.Job) &&
			!slices.Contains(t.Job.Job.Spares, v.Job.Job.ID) {
			candidates = append(candidates, v)
			most.Add(&v.Class.request)
		}
	}
	if len(candidates) == 0 || !t.Class.request.FitsIn(&most) {
		return nil
	}
	victims := victimsOf(r.tiers, t, candidates)
	slices.SortStableFunc(victims, s.compareVictims)
	return victims
}

// compareVictims orders victims of different jobs by last queue, lowest priority, jobs with members to spare, and last
// job. Within a job, tasks that do not run yet come first because they lose less, then those that started last.
func (s *Session) compareVictims(a, b *TaskInfo) int {
	if a.Job != b.Job {
		if x, y := siblingAncestors(a.Job.Queue, b.Job.Queue); x != y {
			if c := s.compareQueues(y, x); c != 0 {
				return c
			}
		}
		if c := cmp.Compare(a.Job.Job.Priority, b.Job.Job.Priority); c != 0 {
			return c
		}
		if x, y := a.expendable(), b.expendable(); x != y {
			if x {
				return -1
			}
			return 1
		}
		return s.compareJobs(b.Job, a.Job)
	}
	if x, y := a.State == Running, b.State == Running; x != y {
		if x {
			return 1
		}
		return -1
	}
	return cmp.Or(b.Task.Since.Compare(a.Task.Since), cmp.Compare(b.rank, a.rank))
}

// unit returns the tasks that must be evicted together with t: only t if its job can continue without it, otherwise the
// whole job.
func (t *TaskInfo) unit() []*TaskInfo {
	if t.expendable() {
		return []*TaskInfo{t}
	}
	return t.Job.evictable()
}

// expendable reports whether the job can continue without the task.
func (t *TaskInfo) expendable() bool {
	j := t.Job
	if j.Job.Batch || j.Occupied() <= j.Min() && j.Min() > 1 {
		return false
	}
	return t.role < 0 || j.roles[t.role] > j.Job.Roles[t.role].Min
}

// evict evicts victims until the task fits on the node, and returns them by unit; nil if it does not fit in the end.
func (r *room) evict(st *Statement, t *TaskInfo, n *NodeInfo, victims []*TaskInfo) [][]*TaskInfo {
	var units [][]*TaskInfo
	for _, v := range victims {
		if !v.evictable() {
			continue // it was evicted with an earlier unit
		}
		if units != nil && len(victimsOf(r.tiers, t, []*TaskInfo{v})) == 0 {
			continue // no longer allowed
		}
		unit := v.unit()
		for _, u := range unit {
			st.Evict(u, t.Job, r.why+t.Job.Job.ID)
		}
		units = append(units, unit)
		if r.enough(t, n) {
			return units
		}
	}
	return nil
}

func (r *room) enough(t *TaskInfo, n *NodeInfo) bool {
	if !r.s.roomLater(t.Class, n) {
		return false
	}
	_, of := r.s.limited(t.Job.Queue, &t.Class.request)
	return of == nil
}

// undoNeedless undoes evictions that turned out to be unnecessary, starting with the most important task.
func (r *room) undoNeedless(st *Statement, t *TaskInfo, n *NodeInfo, units [][]*TaskInfo) {
	for i := len(units) - 2; i >= 0; i-- {
		for _, u := range units[i] {
			st.unevict(u)
		}
		// A member can not return alone if the whole gang was evicted after it.
		if !units[i][0].Job.full(false) || !r.enough(t, n) {
			for _, u := range units[i] {
				st.Evict(u, t.Job, r.why+t.Job.Job.ID)
			}
		}
	}
}

func priceOf(units [][]*TaskInfo) price {
	p := price{priority: -1 << 62}
	for _, unit := range units {
		p.tasks += len(unit)
		p.priority = max(p.priority, unit[0].Job.Job.Priority)
	}
	return p
}

// String returns "job/task".
func (t *TaskInfo) String() string { return fmt.Sprintf("%s/%s", t.Job.Job.ID, t.Task.ID) }
