package scheduler

import (
	"cmp"
	"slices"
)

func builtinActions() map[string]Action {
	return map[string]Action{
		"enqueue": enqueue{}, "allocate": allocate{}, "preempt": preempt{}, "reclaim": reclaim{},
		"backfill": backfill{}, "reserve": reserve{}, Moves: moves{},
	}
}

// Moves is the name of an action for policies: running tasks may be moved elsewhere, to make room for tasks that fit
// nowhere. A session moves nothing itself; the broker carries out this action (internal/broker).
const Moves = "move"

type moves struct{}

func (moves) Run(*Session) {}

// actionNames are the actions that a policy may name, in their usual order.
func actionNames() []string {
	return []string{"enqueue", "allocate", "preempt", "reclaim", "backfill", "reserve"}
}

// enqueue admits waiting jobs. allocate skips jobs that are not admitted, so a long queue costs little.
type enqueue struct{}

func (enqueue) Run(s *Session) {
	l := s.lineUp(func(j *JobInfo) bool {
		return j.Phase == Waiting && !j.blocked && j.stopped == Ignore && !j.Queue.Queue.Closed
	})
	for j := l.next(); j != nil; j = l.next() {
		why, ok := voted(s.fn.valid, j)
		if ok {
			why, ok = voted(s.fn.enqueueable, j)
		}
		if j.why = why; ok {
			j.Phase = Inqueue
			need := s.MinRequest(j)
			for q := j.Queue; q != nil; q = q.Parent {
				q.Admitted.Add(&need)
			}
		}
		l.done(false)
	}
}

// MinRequest returns the additional resources that the job needs to reach its minimum.
func (s *Session) MinRequest(j *JobInfo) Vector {
	var sum Vector
	for _, t := range j.missing() {
		sum.Add(&t.Class.request)
	}
	return sum
}

// allocate gives idle resources to jobs in their order. A job that is not ready gets all that it needs to be ready, or
// nothing. A ready job gets one more task per turn. If an overdue job exceeds the limit of its queue or of an ancestor
// queue, no other job of that queue gets resources either: whatever becomes idle is kept for the overdue job.
type allocate struct{}

func (allocate) Run(s *Session) {
	l := s.lineUp(func(j *JobInfo) bool {
		if !j.schedulable() || j.count[Pending] == 0 {
			return false
		}
		why, ok := voted(s.fn.valid, j)
		if !ok {
			j.why = why
		}
		return ok
	})
	for j := l.next(); j != nil; j = l.next() {
		again := s.turn(j)
		if !again && j.limit != nil && s.overdue(j) {
			l.drop(j.limit)
			continue
		}
		l.done(again)
	}
}

// turn gives a job its turn and reports whether the job wants another one.
func (s *Session) turn(j *JobInfo) bool {
	st := &s.turnStatement
	if s.JobReady(j) {
		if !s.fill(st, j, s.anywhere(j)) {
			return false
		}
	} else if !s.placeGang(st, j) {
		st.Discard()
		return false
	}
	st.Commit()
	return j.grows()
}

// search restricts where to look for a node.
type search struct {
	from, to int                      // range of node indices: from, up to but not including to
	class    func(t *TaskInfo) *Class // which class to use for a task; nil: the task's own
}

func (s *Session) everywhere() search { return search{to: len(s.Nodes)} }

// anywhere returns the nodes where the job's next members may be placed.
func (s *Session) anywhere(j *JobInfo) search {
	if c := s.closeness(j); c.Required {
		if n := j.memberNode(); n != nil {
			return s.around(n, c.Depth)
		}
	}
	return s.everywhere()
}

// memberNode returns a node on which the job has a member, or nil.
func (j *JobInfo) memberNode() *NodeInfo {
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.comes() && t.Node != nil {
			return t.Node
		}
	}
	return nil
}

// around returns the nodes that share the first depth levels of the topology with n.
func (s *Session) around(n *NodeInfo, depth int) search {
	from, to := n.Index, n.Index+1
	for from > 0 && s.close(n, s.Nodes[from-1], depth) {
		from--
	}
	for to < len(s.Nodes) && s.close(n, s.Nodes[to], depth) {
		to++
	}
	return search{from: from, to: to}
}

func (s *Session) close(a, b *NodeInfo, depth int) bool {
	x, y := a.Node.Topology, b.Node.Topology
	return len(x) >= depth && len(y) >= depth && slices.Equal(x[:depth], y[:depth])
}

// fill places tasks of a job that is not ready until it is ready, or a single task of a ready job. It reports whether
// it succeeded.
func (s *Session) fill(st *Statement, j *JobInfo, where search) bool {
	ready, done := s.JobReady(j), false
	var failed *Class
	j.pending(func(t *TaskInfo) bool {
		if t.Class == failed || !j.wants(t) {
			return true
		}
		if !s.offer(st, t, where) {
			failed = t.Class
			return j.limit == nil || !s.overdue(j)
		}
		done = ready || s.JobReady(j) || j.count[Pipelined] > 0 && s.JobPipelined(j)
		return !done
	})
	return done
}

// offer allocates the best node with idle room to the task. It reports whether there is one.
func (s *Session) offer(st *Statement, t *TaskInfo, where search) bool {
	why, of := s.limited(t.Job.Queue, &t.Class.request)
	if t.Job.limit = of; of != nil {
		t.Job.why = why
		return false
	}
	c := t.Class
	if where.class != nil {
		c = where.class(t)
	}
	n := s.best(c, where.from, where.to)
	if n == nil {
		t.Job.why = Reason{"predicates", noRoom}
		return false
	}
	st.Allocate(t, n)
	return true
}

const noRoom = "no node has room for it now"

// placeGang places the tasks that the job needs to be ready, as close together as the job requests.
func (s *Session) placeGang(st *Statement, j *JobInfo) bool {
	c := s.closeness(j)
	if c.Depth == 0 {
		return s.fill(st, j, s.everywhere())
	}
	need := s.MinRequest(j)
	at := j.memberNode()
	for depth := c.Depth; depth > 0; depth-- {
		var domains []search
		if at != nil {
			domains = []search{s.around(at, depth)}
		} else {
			domains = s.domains(depth, &need)
		}
		for _, d := range domains {
			if s.fill(st, j, d) {
				return true
			}
			st.Discard()
		}
		if c.Required {
			j.why = Reason{"topology", "no group of nodes that are close together has room for the whole gang now"}
			return false
		}
	}
	return s.fill(st, j, s.everywhere())
}

// domains returns the groups of nodes that share the first depth levels of the topology and have at least need idle,
// those with the least idle first.
func (s *Session) domains(depth int, need *Vector) []search {
	type domain struct {
		search
		idle float64
	}
	var found []domain
	for i := 0; i < len(s.Nodes); {
		d := domain{search: search{from: i, to: i + 1}}
		var idle Vector
		if len(s.Nodes[i].Node.Topology) >= depth {
			for d.to < len(s.Nodes) && s.close(s.Nodes[i], s.Nodes[d.to], depth) {
				d.to++
			}
		}
		for _, n := range s.Nodes[d.from:d.to] {
			have := n.Idle.Positive()
			idle.Add(&have)
		}
		if i = d.to; need.FitsIn(&idle) {
			d.idle = Share(&idle, &s.Total)
			found = append(found, d)
		}
	}
	slices.SortStableFunc(found, func(a, b domain) int { return cmp.Compare(a.idle, b.idle) })
	out := make([]search, len(found))
	for i, d := range found {
		out[i] = d.search
	}
	return out
}
