package scheduler

import (
	"slices"
	"time"
)

// Session is one scheduling cycle over a snapshot. It must be used by one goroutine only.
type Session struct {
	Snapshot *Snapshot
	Now      time.Time
	// Total is the capacity of all nodes that are not closed.
	Total      Vector
	Nodes      []*NodeInfo  // sorted by topology, so that close nodes are adjacent
	Queues     []*QueueInfo // the first is the cluster, the root of all others
	Namespaces []*NamespaceInfo
	Jobs       []*JobInfo

	fn      functions
	policy  *Policy
	actions []namedAction
	opening PluginConfig // the plugin that is registering functions
	tier    int

	queues     map[string]*QueueInfo
	nodes      map[string]*NodeInfo
	namespaces map[string]*NamespaceInfo
	jobs       map[string]*JobInfo

	specs     map[*Spec]string
	classes   map[classKey]*Class
	classList []*Class
	trees     []*Class // classes that have a tree, the oldest first
	changes   []int32  // changed nodes, in order of time
	latest    []int32  // by node, its last index in changes; earlier entries are obsolete
	seen      int      // number of changes that any class has applied
	trying    bool     // set while changes are tried that will be undone
	held      bool     // some task held resources when the session was opened

	reservations []Reservation // by number; those made in this session come last
	evicted      []eviction
	commits      int
	// turnStatement is the statement of the current turn, reused because there are many turns.
	turnStatement Statement
	turns         int32
	ran           bool
}

// Run runs the policy's actions. Further calls do nothing.
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
	// Run decides by means of the session's statements.
	Run(s *Session)
}

// Waiting returns the jobs that an action may give resources, in the order of the policy's plugins. Their tasks in the
// state Pending have none yet.
func (s *Session) Waiting() []*JobInfo {
	jobs := slices.DeleteFunc(slices.Clone(s.Jobs), func(j *JobInfo) bool { return !j.schedulable() || !j.grows() })
	slices.SortStableFunc(jobs, s.compareJobs)
	return jobs
}

// Score returns the current score of a node for a task, or Never if the task cannot start there now.
func (s *Session) Score(t *TaskInfo, n *NodeInfo) float64 {
	s.computeStatic(t.Class)
	return s.score(t.Class, n)
}

// Limited reports whether the limit of a queue forbids that the task starts now.
func (s *Session) Limited(t *TaskInfo) bool {
	_, of := s.limited(t.Job.Queue, &t.Class.request)
	return of != nil
}

type namedAction struct {
	name   string
	action Action
}

// Job returns the job with an ID, or nil.
func (s *Session) Job(id string) *JobInfo { return s.jobs[id] }

// Queue returns the queue with a name, or nil.
func (s *Session) Queue(name string) *QueueInfo { return s.queues[name] }

// Node returns the node with a name, or nil.
func (s *Session) Node(name string) *NodeInfo { return s.nodes[name] }

// Namespace returns the namespace with a name, or nil if neither a job nor the snapshot has it.
func (s *Session) Namespace(name string) *NamespaceInfo { return s.namespaces[name] }

// setState changes the state of a task and the counts of its job.
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

// charge adds a task's resources to its job, queues and namespace, or subtracts them if sign is -1.
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

// give gives a pending task idle resources of a node or, if to is Pipelined, those that are being released.
func (s *Session) give(t *TaskInfo, n *NodeInfo, to State) {
	t.devices = n.choose(t.Class, to == Pipelined)
	t.setState(to)
	s.turns++
	t.turn = s.turns
	n.add(t)
	t.charge(+1)
	s.changed(n)
	for _, h := range s.fn.handlers {
		h.Allocated(t)
	}
}

// takeBack undoes give.
func (s *Session) takeBack(t *TaskInfo) {
	n := t.Node
	n.remove(t)
	t.devices = 0
	t.setState(Pending)
	t.charge(-1)
	s.changed(n)
	for _, h := range s.fn.handlers {
		h.Deallocated(t)
	}
}

// evict marks a task as releasing: it still holds its resources until it has stopped.
func (s *Session) evict(t *TaskInfo) {
	n := t.Node
	if n != nil {
		n.move(t, false, true, +1) // it still holds its place, but others may plan with it
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

// schedulable reports whether allocate and later actions consider the job.
func (j *JobInfo) schedulable() bool {
	return (j.Phase == Inqueue || j.Phase == Started) && !j.blocked && j.stopped == Ignore && !j.Queue.Queue.Closed
}

// react applies the consequences of failures to jobs and their dependents, and counts the requests of the other jobs.
func (s *Session) react() error {
	for _, j := range s.Jobs {
		if !j.Phase.Ended() && j.count[Failed] > 0 && j.Job.OnFailure != Ignore {
			s.failed(j)
		}
	}
	for again := true; again; { // an abort may propagate along a chain of jobs
		again = false
		for _, j := range s.Jobs {
			if j.Phase == Waiting && j.stopped == Ignore && s.depend(j) {
				again = true
			}
		}
	}
	for _, j := range s.Jobs {
		if j.Phase.Ended() || j.blocked || j.stopped != Ignore {
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

// failed restarts or aborts a job with a failed task.
func (s *Session) failed(j *JobInfo) {
	to, why := j.Job.OnFailure, "a member failed"
	if to == Restart && j.Job.MaxRestarts > 0 && j.Job.Restarts >= j.Job.MaxRestarts {
		to, why = Abort, "a member failed and the job has used all its restarts"
	}
	s.stop(j, to, why)
}

// stop evicts all tasks of a job.
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

// depend reports whether a job was aborted because a job that it depends on failed.
func (s *Session) depend(j *JobInfo) bool {
	j.blocked = false
	for _, d := range j.Job.After {
		before := s.jobs[d.Job]
		switch {
		case before == nil || before.Phase == Finished:
		case before.Phase != Aborted:
			j.blocked, j.why = true, Reason{"session", "it waits for job " + d.Job + ", which has not finished"}
		case d.OnFailure != Ignore:
			s.stop(j, Abort, "job "+d.Job+", which it waits for, has failed")
			return true
		}
	}
	return false
}

// resume gives jobs for which an earlier session evicted others the resources released since, and keeps the rest of
// those resources for them.
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
			case s.allowed(t.Class, n) && s.score(t.Class, n) != Never:
				st.Allocate(t, n)
			case s.roomLater(t.Class, n):
				st.Pipeline(t, n)
			}
		}
		if !s.JobPipelined(j) {
			st.Discard() // its room no longer exists: it competes like other jobs
			continue
		}
		st.Commit()
	}
}
