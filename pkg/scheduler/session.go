package scheduler

import (
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/scheduler/internal/rank"
)

// Session is one cycle of scheduling over a snapshot. It is for one goroutine.
type Session struct {
	Snapshot *Snapshot
	Now      time.Time
	// Total is the capacity of all nodes that are not closed.
	Total      Vector
	Nodes      []*NodeInfo  // those that stand close are next to each other
	Queues     []*QueueInfo // the first is the cluster, of which all others are below
	Namespaces []*NamespaceInfo
	Jobs       []*JobInfo

	fn      functions
	policy  *Policy
	actions []namedAction
	opening PluginConfig // whose functions are being registered
	tier    int

	queues     map[string]*QueueInfo
	nodes      map[string]*NodeInfo
	namespaces map[string]*NamespaceInfo
	jobs       map[string]*JobInfo

	specs     map[*Spec]string
	classes   map[classKey]*Class
	classList []*Class
	trees     []*Class // that have one, the oldest first
	changes   []int32  // nodes that changed, in the order of time
	latest    []int32  // by node, where it is the last time in changes: what was before need not be looked at
	seen      int      // how many changes any class has taken up
	quiet     bool     // what is tried now will be undone
	held      bool     // any task held resources when the session was opened

	reservations []Reservation // those in force, by number; made ones come after
	evicted      []eviction
	commits      int
	// turnStatement is that of the turn under way: one for all, as there are many.
	turnStatement Statement
	turns         int32
	ran           bool
}

// Run runs the policy's actions. It may be called once.
func (s *Session) Run() {
	if s.ran {
		return
	}
	s.ran = true
	s.resume()
	for _, a := range s.actions {
		a.action.Run(s)
	}
}

// Action is a step of a session.
type Action interface {
	// Run decides through statements of the session.
	Run(s *Session)
}

type namedAction struct {
	name   string
	action Action
}

// Job returns a job of the snapshot by its ID, nil if there is none.
func (s *Session) Job(id string) *JobInfo { return s.jobs[id] }

// Queue returns a queue by its name, nil if there is none.
func (s *Session) Queue(name string) *QueueInfo { return s.queues[name] }

// Node returns a node by its name, nil if there is none.
func (s *Session) Node(name string) *NodeInfo { return s.nodes[name] }

// Namespace returns a namespace by its name, nil if no job and no snapshot names it.
func (s *Session) Namespace(name string) *NamespaceInfo { return s.namespaces[name] }

// setState moves a task between states, with what its job counts.
func (t *TaskInfo) setState(to State) {
	j := t.Job
	j.count[t.State]--
	j.count[to]++
	if t.role >= 0 {
		if t.comes() {
			j.roles[t.role]--
		}
		if to.Occupies() || to == Pipelined {
			j.roles[t.role]++
		}
	}
	t.State = to
	if to == Pending {
		j.next = min(j.next, t.rank)
	}
}

func (t *TaskInfo) comes() bool { return t.State.Occupies() || t.State == Pipelined }

// charge adds what a task holds to its job, queues and namespace, or takes it away with sign -1.
func (t *TaskInfo) charge(sign int) {
	req := t.Class.request
	if sign < 0 {
		req = Vector{}.Minus(req)
	}
	t.Job.Allocated.Add(&req)
	for q := t.Job.Queue; q != nil; q = q.Parent {
		q.Allocated.Add(&req)
	}
	t.Job.Namespace.Allocated.Add(&req)
	t.Job.Namespace.version++
}

// give lets a pending task have idle resources of a node, or with to Pipelined those that will be.
func (s *Session) give(t *TaskInfo, n *NodeInfo, to State) {
	t.on = n.choose(t.Class, to == Pipelined)
	t.setState(to)
	s.turns++
	t.turn = s.turns
	n.take(t)
	t.charge(+1)
	s.changed(n)
	for _, h := range s.fn.handlers {
		h.Allocated(t)
	}
}

// takeBack undoes give.
func (s *Session) takeBack(t *TaskInfo) {
	n := t.Node
	n.leave(t)
	t.on = 0
	t.setState(Pending)
	t.charge(-1)
	s.changed(n)
	for _, h := range s.fn.handlers {
		h.Deallocated(t)
	}
}

// evict has a task give back what it holds, once it has stopped.
func (s *Session) evict(t *TaskInfo) {
	n := t.Node
	if n != nil {
		n.move(t, false, true, +1) // its place is kept: it holds it still, but others may count on it
	}
	t.setState(Releasing)
	t.charge(-1)
	if n != nil {
		s.changed(n)
	}
	for _, h := range s.fn.handlers {
		h.Deallocated(t)
	}
}

// unevict undoes evict.
func (s *Session) unevict(t *TaskInfo, to State) {
	n := t.Node
	if n != nil {
		n.move(t, false, true, -1)
	}
	t.setState(to)
	t.charge(+1)
	if n != nil {
		s.changed(n)
	}
	for _, h := range s.fn.handlers {
		h.Allocated(t)
	}
}

// schedulable says whether allocate and those after it look at a job.
func (j *JobInfo) schedulable() bool {
	return (j.Phase == Inqueue || j.Phase == Started) && !j.blocked && j.stopped == Ignore && !j.Queue.Queue.Closed
}

// react sets off what failures mean to jobs and those that wait for them, and counts what the others want.
func (s *Session) react() error {
	for _, j := range s.Jobs {
		if !j.Phase.Over() && j.count[Failed] > 0 && j.Job.OnFailure != Ignore {
			s.failed(j)
		}
	}
	for again := true; again; { // an abort may go through a chain of jobs
		again = false
		for _, j := range s.Jobs {
			if j.Phase == Waiting && j.stopped == Ignore && s.depend(j) {
				again = true
			}
		}
	}
	for _, j := range s.Jobs {
		if j.Phase.Over() || j.blocked || j.stopped != Ignore {
			continue
		}
		for i := range j.Tasks {
			if t := &j.Tasks[i]; t.State == Pending {
				for q := j.Queue; q != nil; q = q.Parent {
					q.Wanted.Add(&t.Class.request)
				}
			}
		}
	}
	return nil
}

// failed restarts a job one of whose tasks has failed, or aborts it.
func (s *Session) failed(j *JobInfo) {
	to, why := j.Job.OnFailure, "a member failed"
	if to == Restart && j.Job.MaxRestarts > 0 && j.Job.Restarts >= j.Job.MaxRestarts {
		to, why = Abort, "a member failed, after as many restarts as it may have"
	}
	s.stop(j, to, why)
}

// stop evicts all of a job.
func (s *Session) stop(j *JobInfo, to Reaction, why string) {
	j.stopped, j.why = to, Reason{"session", why}
	if to == Abort {
		j.Phase = Aborted
	}
	for _, t := range j.evictable() {
		s.evict(t)
		s.evicted = append(s.evicted, eviction{task: t, why: why})
	}
}

// depend says whether a job was aborted because of what it waits for.
func (s *Session) depend(j *JobInfo) bool {
	j.blocked = false
	for _, d := range j.Job.After {
		before := s.jobs[d.Job]
		switch {
		case before == nil || before.Phase == Finished:
		case before.Phase != Aborted:
			j.blocked, j.why = true, Reason{"session", "it waits for job " + d.Job + ", which is not over"}
		case d.OnFailure != Ignore:
			s.stop(j, Abort, "job "+d.Job+", which it waits for, has failed")
			return true
		}
	}
	return false
}

// resume gives those that an earlier session evicted others for what was released since, and keeps the rest of it for
// them.
func (s *Session) resume() {
	jobs := slices.DeleteFunc(slices.Clone(s.Jobs), func(j *JobInfo) bool {
		return !j.schedulable() || !j.nominated
	})
	slices.SortStableFunc(jobs, s.compareJobs)
	for _, j := range jobs {
		st := s.Statement()
		for i := range j.Tasks {
			t := j.task(i)
			if t.nominated == nil || t.State != Pending {
				continue
			}
			if _, of := s.limited(j.Queue, &t.Class.request); of != nil {
				continue
			}
			switch n := t.nominated; {
			case s.allowed(t.Class, n) && s.score(t.Class, n) != rank.Never:
				st.Allocate(t, n)
			case s.roomLater(t.Class, n):
				st.Pipeline(t, n)
			}
		}
		if !s.JobPipelined(j) {
			st.Discard() // its place is gone: it is as others are
			continue
		}
		st.Commit()
	}
}
