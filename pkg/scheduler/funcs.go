package scheduler

import (
	"cmp"
	"slices"
)

// Plugin teaches a session how to order, where to place and whom to evict.
type Plugin interface {
	// Open registers the plugin's functions. The session has its nodes, queues, jobs and tasks, with what they hold,
	// and nothing has been decided yet.
	Open(s *Session)
}

// Reason says why something is not done: which plugin says so, and what it says.
type Reason struct {
	Plugin string `json:"plugin"`
	Text   string `json:"text"`
}

// Functions that a policy may disable of a plugin, by name.
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

// VoteFn returns an empty string for yes, else why not.
type VoteFn func(j *JobInfo) string

// functions are what plugins registered, in the order of tiers.
type functions struct {
	queueOrders     []func(a, b *QueueInfo) int
	namespaceOrders []func(a, b *NamespaceInfo) int
	jobOrders       []func(a, b *JobInfo) int
	taskOrders      []func(a, b *TaskInfo) int
	predicates      []predicate
	preferences     []func(c *Class, n *NodeInfo) float64 // never change in a session
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

// predicate says why a task can not go to a node, empty if it can: always looks at what does not change in a session,
// now at what does; later asks about the time when what is releasing is released. Either may be nil.
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

// LimitFn says why a queue may not hold so much more, and which queue that or one above it is of whose part there is
// not enough left; an empty string if it may.
type LimitFn func(q *QueueInfo, request *Vector) (why string, of *QueueInfo)

// Victim is a task to be evicted for what it is, not for another.
type Victim struct {
	Task *TaskInfo
	Why  string
}

// Handler is told of each change, when what the task holds is already counted.
type Handler struct {
	// Allocated is called when a task gets resources, or is to have those that are being released; Deallocated when it
	// is to lose them.
	Allocated, Deallocated func(t *TaskInfo)
}

// enabled says whether the policy lets the plugin that is being opened register a function.
func (s *Session) enabled(fn string) bool { return !slices.Contains(s.opening.Disable, fn) }

// OrderQueues registers an order of sibling queues: negative puts a first.
func (s *Session) OrderQueues(f func(a, b *QueueInfo) int) {
	if s.enabled(fnQueueOrder) {
		s.fn.queueOrders = append(s.fn.queueOrders, f)
	}
}

// OrderNamespaces registers an order of namespaces within a queue. Without any, namespaces do not matter.
func (s *Session) OrderNamespaces(f func(a, b *NamespaceInfo) int) {
	if s.enabled(fnNamespaceOrder) {
		s.fn.namespaceOrders = append(s.fn.namespaceOrders, f)
		s.fn.spaces = true
	}
}

// OrderJobs registers an order of the jobs of a queue and namespace. It may depend on what each of both jobs holds, not
// on what others do.
func (s *Session) OrderJobs(f func(a, b *JobInfo) int) {
	if s.enabled(fnJobOrder) {
		s.fn.jobOrders = append(s.fn.jobOrders, f)
	}
}

// OrderTasks registers an order of the tasks of a job. It must not depend on states.
func (s *Session) OrderTasks(f func(a, b *TaskInfo) int) {
	if s.enabled(fnTaskOrder) {
		s.fn.taskOrders = append(s.fn.taskOrders, f)
	}
}

// Require registers a predicate; either function may be nil.
func (s *Session) Require(always func(c *Class, n *NodeInfo) string,
	now func(c *Class, n *NodeInfo, later bool) string) {
	if s.enabled(fnPredicate) {
		s.fn.predicates = append(s.fn.predicates, predicate{s.opening.Name, always, now})
	}
}

// Prefer registers a score of nodes that does not change in a session. Scores of all plugins are added.
func (s *Session) Prefer(f func(c *Class, n *NodeInfo) float64) {
	if s.enabled(fnNodeOrder) {
		s.fn.preferences = append(s.fn.preferences, f)
	}
}

// OrderNodes registers a score of nodes, of what they are and hold, the higher the better. Scores of all plugins are
// added.
func (s *Session) OrderNodes(f func(c *Class, n *NodeInfo) float64) {
	if s.enabled(fnNodeOrder) {
		s.fn.nodeOrders = append(s.fn.nodeOrders, f)
	}
}

// Limit registers a bound on what a queue may hold.
func (s *Session) Limit(f LimitFn) {
	if s.enabled(fnAllocatable) {
		s.fn.allocatable = append(s.fn.allocatable, limitFn{s.opening.Name, f})
	}
}

// Validate registers why a job can not be scheduled, whatever there is room for.
func (s *Session) Validate(f VoteFn) {
	if s.enabled(fnJobValid) {
		s.fn.valid = append(s.fn.valid, vote{s.opening.Name, f})
	}
}

// Ready registers whether a job may be bound as it is; all have to agree.
func (s *Session) Ready(f func(j *JobInfo) bool) {
	if s.enabled(fnJobReady) {
		s.fn.ready = append(s.fn.ready, f)
	}
}

// PipelinedWhen registers whether a job could be bound once what is releasing is released; all have to agree.
func (s *Session) PipelinedWhen(f func(j *JobInfo) bool) {
	if s.enabled(fnJobPipelined) {
		s.fn.pipelined = append(s.fn.pipelined, f)
	}
}

// Admit registers why a job is not let in by enqueue, empty if it is.
func (s *Session) Admit(f VoteFn) {
	if s.enabled(fnEnqueueable) {
		s.fn.enqueueable = append(s.fn.enqueueable, vote{s.opening.Name, f})
	}
}

// Preemptable registers who may be evicted for a task of the same queue. Functions of a tier have to agree on a victim;
// the first tier that has any such function decides.
func (s *Session) Preemptable(f VictimsFn) {
	if s.enabled(fnPreemptable) {
		s.fn.preemptable[s.tier] = append(s.fn.preemptable[s.tier], f)
	}
}

// Reclaimable registers who may be evicted for a task of another queue, as Preemptable does.
func (s *Session) Reclaimable(f VictimsFn) {
	if s.enabled(fnReclaimable) {
		s.fn.reclaimable[s.tier] = append(s.fn.reclaimable[s.tier], f)
	}
}

// Evict registers tasks that preempt evicts for what they are.
func (s *Session) Evict(f func() []Victim) {
	if s.enabled(fnVictims) {
		s.fn.victims = append(s.fn.victims, f)
	}
}

// Reservable registers that a job has waited for so long that nodes are to be kept for it; one is enough.
func (s *Session) Reservable(f func(j *JobInfo) bool) {
	if s.enabled(fnReservable) {
		s.fn.reservable = append(s.fn.reservable, f)
	}
}

// Gather registers how close together a job's members are to stand; the first that asks for something decides.
func (s *Session) Gather(f func(j *JobInfo) Closeness) {
	if s.enabled(fnCloseness) {
		s.fn.closeness = append(s.fn.closeness, f)
	}
}

// Handle registers what is told of each change.
func (s *Session) Handle(h Handler) { s.fn.handlers = append(s.fn.handlers, h) }

// first is what the first of some orders says that sees a difference, 0 if none does.
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

// compareJobs falls back to age.
func (s *Session) compareJobs(a, b *JobInfo) int {
	return cmp.Or(first(s.fn.jobOrders, a, b), a.Job.Created.Compare(b.Job.Created), cmp.Compare(a.Index, b.Index))
}

func (s *Session) compareTasks(a, b *TaskInfo) int { return first(s.fn.taskOrders, a, b) }

// limited says why a queue may not hold so much more.
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

// JobReady says whether a job may be bound as it is.
func (s *Session) JobReady(j *JobInfo) bool {
	for _, f := range s.fn.ready {
		if !f(j) {
			return false
		}
	}
	return true
}

// JobPipelined says whether a job could be bound once what is releasing is released.
func (s *Session) JobPipelined(j *JobInfo) bool {
	for _, f := range s.fn.pipelined {
		if !f(j) {
			return false
		}
	}
	return true
}

// victimsOf asks the tiers which candidates may be evicted. Without a function that says so, nobody may.
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
