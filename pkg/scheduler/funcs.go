package scheduler

import (
	"cmp"
	"slices"
)

// Plugin extends a session with rules for order, placement and eviction.
type Plugin interface {
	// Open registers the plugin's functions. The session already has its nodes, queues, jobs and tasks with their
	// resources; nothing has been decided yet.
	Open(s *Session)
}

// Reason explains why something is not done: the plugin that decided it, and its explanation.
type Reason struct {
	Plugin string `json:"plugin"`
	Text   string `json:"text"`
}

// Names of the functions that a policy may disable for a plugin.
const (
	fnQueueOrder     = "queueOrder"
	fnNamespaceOrder = "namespaceOrder"
	fnJobOrder       = "jobOrder"
	fnTaskOrder      = "taskOrder"
	fnPredicate      = "predicate"
	fnNodeOrder      = "nodeOrder"
	fnAllocatable    = "allocatable"
	fnJobValid       = "jobValid"
	fnJobReady       = "jobReady"
	fnJobPipelined   = "jobPipelined"
	fnEnqueueable    = "jobEnqueueable"
	fnPreemptable    = "preemptable"
	fnReclaimable    = "reclaimable"
	fnVictims        = "victims"
	fnReservable     = "reservable"
	fnCloseness      = "closeness"
)

func functionNames() []string {
	return []string{
		fnQueueOrder, fnNamespaceOrder, fnJobOrder, fnTaskOrder, fnPredicate, fnNodeOrder, fnAllocatable, fnJobValid,
		fnJobReady, fnJobPipelined, fnEnqueueable, fnPreemptable, fnReclaimable, fnVictims, fnReservable, fnCloseness,
	}
}

// VictimsFn returns those of the candidates that may be evicted for a task.
type VictimsFn func(for_ *TaskInfo, candidates []*TaskInfo) []*TaskInfo //nolint:revive // the word is Go's

// VoteFn returns an empty string for yes, otherwise the reason against it.
type VoteFn func(j *JobInfo) string

// functions are the functions that plugins registered, in the order of tiers.
type functions struct {
	queueOrders     []func(a, b *QueueInfo) int
	namespaceOrders []func(a, b *NamespaceInfo) int
	jobOrders       []func(a, b *JobInfo) int
	taskOrders      []func(a, b *TaskInfo) int
	predicates      []predicate
	preferences     []func(c *Class, n *NodeInfo) float64 // constant within a session
	nodeOrders      []func(c *Class, n *NodeInfo) float64
	allocatable     []limitFn
	valid           []vote
	ready           []func(j *JobInfo) bool
	pipelined       []func(j *JobInfo) bool
	enqueueable     []vote
	preemptable     [][]VictimsFn // by tier
	reclaimable     [][]VictimsFn
	victims         []func() []Victim
	reservable      []func(j *JobInfo) bool
	closeness       []func(j *JobInfo) Closeness
	handlers        []Handler
	spaces          bool
}

// predicate returns why a task cannot be placed on a node, or an empty string if it can. always checks facts that are
// constant within a session, and now checks those that change. If later is set, now assumes that releasing tasks have
// stopped. Either function may be nil.
type predicate struct {
	plugin string
	always func(c *Class, n *NodeInfo) string
	now    func(c *Class, n *NodeInfo, later bool) string
}

type vote struct {
	plugin string
	f      VoteFn
}

type limitFn struct {
	plugin string
	f      LimitFn
}

// LimitFn returns the reason why queue q may not hold the additional request, and the queue (q or an ancestor) whose
// limit is exceeded. The reason is empty if the request is allowed.
type LimitFn func(q *QueueInfo, request *Vector) (why string, of *QueueInfo)

// Victim is a task to be evicted for its own sake, not to make room for another task.
type Victim struct {
	Task *TaskInfo
	Why  string
}

// Handler is called for each change, after the resources of the task have been counted.
type Handler struct {
	// Allocated is called when a task gets resources or will get those that are being released; Deallocated when it
	// loses them or will lose them.
	Allocated, Deallocated func(t *TaskInfo)
}

// enabled reports whether the policy lets the plugin being opened register this function.
func (s *Session) enabled(fn string) bool { return !slices.Contains(s.opening.Disable, fn) }

// OrderQueues registers an order of sibling queues: negative puts a first.
func (s *Session) OrderQueues(f func(a, b *QueueInfo) int) {
	if s.enabled(fnQueueOrder) {
		s.fn.queueOrders = append(s.fn.queueOrders, f)
	}
}

// OrderNamespaces registers an order of namespaces within a queue. Without any, namespaces are ignored.
func (s *Session) OrderNamespaces(f func(a, b *NamespaceInfo) int) {
	if s.enabled(fnNamespaceOrder) {
		s.fn.namespaceOrders = append(s.fn.namespaceOrders, f)
		s.fn.spaces = true
	}
}

// OrderJobs registers an order of the jobs of a queue and namespace. It may depend on the resources that the two
// compared jobs hold, but not on other jobs.
func (s *Session) OrderJobs(f func(a, b *JobInfo) int) {
	if s.enabled(fnJobOrder) {
		s.fn.jobOrders = append(s.fn.jobOrders, f)
	}
}

// OrderTasks registers an order of the tasks of a job. It must not depend on task states.
func (s *Session) OrderTasks(f func(a, b *TaskInfo) int) {
	if s.enabled(fnTaskOrder) {
		s.fn.taskOrders = append(s.fn.taskOrders, f)
	}
}

// Require registers a predicate (see predicate); either function may be nil.
func (s *Session) Require(always func(c *Class, n *NodeInfo) string,
	now func(c *Class, n *NodeInfo, later bool) string) {
	if s.enabled(fnPredicate) {
		s.fn.predicates = append(s.fn.predicates, predicate{s.opening.Name, always, now})
	}
}

// Prefer registers a score of nodes that is constant within a session. The scores of all plugins are added.
func (s *Session) Prefer(f func(c *Class, n *NodeInfo) float64) {
	if s.enabled(fnNodeOrder) {
		s.fn.preferences = append(s.fn.preferences, f)
	}
}

// OrderNodes registers a score of nodes that may depend on the tasks that run there; higher is better. The scores of
// all plugins are added.
func (s *Session) OrderNodes(f func(c *Class, n *NodeInfo) float64) {
	if s.enabled(fnNodeOrder) {
		s.fn.nodeOrders = append(s.fn.nodeOrders, f)
	}
}

// Limit registers a limit on the resources that a queue may hold.
func (s *Session) Limit(f LimitFn) {
	if s.enabled(fnAllocatable) {
		s.fn.allocatable = append(s.fn.allocatable, limitFn{s.opening.Name, f})
	}
}

// Validate registers a check that a job can be scheduled at all, regardless of free resources.
func (s *Session) Validate(f VoteFn) {
	if s.enabled(fnJobValid) {
		s.fn.valid = append(s.fn.valid, vote{s.opening.Name, f})
	}
}

// Ready registers a check that a job may be bound with its current members; all checks must pass.
func (s *Session) Ready(f func(j *JobInfo) bool) {
	if s.enabled(fnJobReady) {
		s.fn.ready = append(s.fn.ready, f)
	}
}

// PipelinedWhen registers a check that a job could be bound once releasing tasks have stopped; all checks must pass.
func (s *Session) PipelinedWhen(f func(j *JobInfo) bool) {
	if s.enabled(fnJobPipelined) {
		s.fn.pipelined = append(s.fn.pipelined, f)
	}
}

// Admit registers a check that enqueue may admit a job.
func (s *Session) Admit(f VoteFn) {
	if s.enabled(fnEnqueueable) {
		s.fn.enqueueable = append(s.fn.enqueueable, vote{s.opening.Name, f})
	}
}

// Preemptable registers which tasks may be evicted for a task of the same queue. All functions of a tier must agree
// on a victim; the first tier with any such function decides.
func (s *Session) Preemptable(f VictimsFn) {
	if s.enabled(fnPreemptable) {
		s.fn.preemptable[s.tier] = append(s.fn.preemptable[s.tier], f)
	}
}

// Reclaimable registers which tasks may be evicted for a task of another queue; tiers work as in Preemptable.
func (s *Session) Reclaimable(f VictimsFn) {
	if s.enabled(fnReclaimable) {
		s.fn.reclaimable[s.tier] = append(s.fn.reclaimable[s.tier], f)
	}
}

// Evict registers tasks that preempt evicts for their own sake, not to make room.
func (s *Session) Evict(f func() []Victim) {
	if s.enabled(fnVictims) {
		s.fn.victims = append(s.fn.victims, f)
	}
}

// Reservable registers a check that a job has waited so long that nodes must be kept for it; one positive check is
// enough.
func (s *Session) Reservable(f func(j *JobInfo) bool) {
	if s.enabled(fnReservable) {
		s.fn.reservable = append(s.fn.reservable, f)
	}
}

// Gather registers a function that states how close together a job's members must be. The first function that
// requests something decides.
func (s *Session) Gather(f func(j *JobInfo) Closeness) {
	if s.enabled(fnCloseness) {
		s.fn.closeness = append(s.fn.closeness, f)
	}
}

// Handle registers a handler that is called for each change.
func (s *Session) Handle(h Handler) { s.fn.handlers = append(s.fn.handlers, h) }

// first returns the result of the first order that distinguishes a and b, 0 if none does.
func first[T any](orders []func(a, b T) int, a, b T) int {
	for _, f := range orders {
		if c := f(a, b); c != 0 {
			return c
		}
	}
	return 0
}

func (s *Session) compareQueues(a, b *QueueInfo) int {
	return cmp.Or(first(s.fn.queueOrders, a, b), cmp.Compare(a.Index, b.Index))
}

func (s *Session) compareNamespaces(a, b *NamespaceInfo) int {
	return cmp.Or(first(s.fn.namespaceOrders, a, b), cmp.Compare(a.Index, b.Index))
}

// compareJobs compares by the plugins' orders, then by age.
func (s *Session) compareJobs(a, b *JobInfo) int {
	return cmp.Or(first(s.fn.jobOrders, a, b), a.Job.Created.Compare(b.Job.Created), cmp.Compare(a.Index, b.Index))
}

func (s *Session) compareTasks(a, b *TaskInfo) int { return first(s.fn.taskOrders, a, b) }

// limited returns the reason why a queue may not hold the additional request, and the queue whose limit is exceeded.
func (s *Session) limited(q *QueueInfo, request *Vector) (Reason, *QueueInfo) {
	for _, l := range s.fn.allocatable {
		if why, of := l.f(q, request); why != "" {
			return Reason{l.plugin, why}, of
		}
	}
	return Reason{}, nil
}

func voted(votes []vote, j *JobInfo) (Reason, bool) {
	for _, v := range votes {
		if why := v.f(j); why != "" {
			return Reason{v.plugin, why}, false
		}
	}
	return Reason{}, true
}

// JobReady reports whether a job may be bound with its current members.
func (s *Session) JobReady(j *JobInfo) bool {
	for _, f := range s.fn.ready {
		if !f(j) {
			return false
		}
	}
	return true
}

// JobPipelined reports whether a job could be bound once releasing tasks have stopped.
func (s *Session) JobPipelined(j *JobInfo) bool {
	for _, f := range s.fn.pipelined {
		if !f(j) {
			return false
		}
	}
	return true
}

// victimsOf returns the candidates that the tiers allow to evict for t; none if no tier has a function.
func victimsOf(tiers [][]VictimsFn, t *TaskInfo, candidates []*TaskInfo) []*TaskInfo {
	for _, tier := range tiers {
		if len(tier) == 0 {
			continue
		}
		left := candidates
		for _, f := range tier {
			if left = f(t, left); len(left) == 0 {
				return nil
			}
		}
		return left
	}
	return nil
}

func (s *Session) closeness(j *JobInfo) Closeness {
	for _, f := range s.fn.closeness {
		if c := f(j); c.Depth > 0 {
			return c
		}
	}
	return Closeness{}
}

func (s *Session) overdue(j *JobInfo) bool {
	for _, f := range s.fn.reservable {
		if f(j) {
			return true
		}
	}
	return false
}
