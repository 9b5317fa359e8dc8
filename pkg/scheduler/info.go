package scheduler

import "slices"

// TaskInfo is a task as a session sees it. There are as many as tasks wait, and each is looked at several times: it is
// kept small.
type TaskInfo struct {
	Task  *Task
	Job   *JobInfo
	Class *Class
	// Node is where it holds, or is to hold, resources; nil if nowhere in the snapshot.
	Node *NodeInfo
	// nominated is where an earlier session made room.
	nominated *NodeInfo
	// on are the devices of the node it has a share of, a bit each.
	on    uint64
	place int32 // in Node.Tasks
	rank  int32 // in the job's order of tasks
	turn  int32 // when it was given resources in this session
	role  int16 // in Job.Job.Roles; negative if in none
	State State
}

// eviction is a task that is evicted, and why; by is nil if for no other job.
type eviction struct {
	task *TaskInfo
	by   *JobInfo
	why  string
}

// JobInfo is a job as a session sees it.
type JobInfo struct {
	Index     int
	Job       *Job
	Queue     *QueueInfo
	Namespace *NamespaceInfo
	Tasks     []TaskInfo
	count     [Unknown + 1]int32
	next      int32 // no task before it, in their order, is pending
	Phase     Phase
	uniform   bool  // all tasks are of one class
	nominated bool  // an earlier session made room for a task
	priority  int   // of Job: here, next to what else orders of jobs look at
	least     int   // Min
	roles     []int // occupied or pipelined members by role
	// order is the order of tasks; nil is that of Tasks.
	order []*TaskInfo
	// Allocated is what its members hold or are to hold, without those that are releasing.
	Allocated Vector
	// reserved is the reservation made for it; nil if none.
	reserved *Reservation
	stopped  Reaction // what is to become of it: Restart or Abort
	why      Reason
	blocked  bool       // waits for other jobs
	limit    *QueueInfo // which had not as much left when the job was last tried; nil if all had
}

// QueueInfo is a queue as a session sees it.
type QueueInfo struct {
	Index    int
	Queue    *Queue // of the cluster itself, a nameless one
	Parent   *QueueInfo
	Children []*QueueInfo
	Depth    int
	Jobs     []*JobInfo
	// Allocated is what its jobs and those of its children hold or are to hold; Wanted what they wait for
	// besides; Admitted what jobs let in need at least that have not started.
	Allocated, Wanted, Admitted Vector
}

// NamespaceInfo is a namespace as a session sees it.
type NamespaceInfo struct {
	Index     int
	Namespace *Namespace
	Allocated Vector
	version   int // changes with Allocated
}

// Count returns how many of the job's tasks are in a state.
func (j *JobInfo) Count(s State) int { return int(j.count[s]) }

// Occupied returns how many members the job has for certain.
func (j *JobInfo) Occupied() int {
	return int(j.count[Allocated] + j.count[Binding] + j.count[Bound] + j.count[Running] + j.count[Succeeded])
}

// Coming returns how many members the job has, with those that wait for what is being released.
func (j *JobInfo) Coming() int { return j.Occupied() + int(j.count[Pipelined]) }

// Min returns how many members start together at least.
func (j *JobInfo) Min() int { return j.least }

// Max returns how many members run at most.
func (j *JobInfo) Max() int {
	if j.Job.Max > 0 {
		return j.Job.Max
	}
	return len(j.Tasks)
}

// rolesMet says whether each role has its minimum; missing is how many members that takes.
func (j *JobInfo) rolesMet() (missing int) {
	for i, r := range j.Job.Roles {
		missing += max(0, r.Min-j.roles[i])
	}
	return missing
}

// Full says whether the job has its minimum of members: all of them, or with those that are coming.
func (j *JobInfo) full(coming bool) bool {
	n := j.Occupied()
	if coming {
		n += int(j.count[Pipelined])
	} else if j.count[Pipelined] > 0 && len(j.roles) > 0 {
		return n >= j.Min() && j.occupiedRolesMet()
	}
	return n >= j.Min() && j.rolesMet() == 0
}

func (j *JobInfo) occupiedRolesMet() bool {
	have := make([]int, len(j.roles))
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.role >= 0 && t.State.Occupies() {
			have[t.role]++
		}
	}
	for i, r := range j.Job.Roles {
		if have[i] < r.Min {
			return false
		}
	}
	return true
}

// wants says whether a pending task is one the job lacks: of a role below its minimum, or, where more members
// than those of such roles are missing, any. A job that has its minimum wants any up to its maximum.
func (j *JobInfo) wants(t *TaskInfo) bool {
	coming := j.Coming()
	if coming >= j.Max() {
		return false
	}
	missing := j.rolesMet()
	if missing == 0 || t.role >= 0 && j.roles[t.role] < j.Job.Roles[t.role].Min {
		return true
	}
	return j.Min()-coming > missing
}

// pending calls each with the job's pending tasks in their order until it returns false.
func (j *JobInfo) pending(each func(t *TaskInfo) bool) {
	for int(j.next) < len(j.Tasks) && j.task(int(j.next)).State != Pending {
		j.next++
	}
	for i := int(j.next); i < len(j.Tasks); i++ {
		if t := j.task(i); t.State == Pending && !each(t) {
			return
		}
	}
}

// task returns the one of a rank.
func (j *JobInfo) task(rank int) *TaskInfo {
	if j.order == nil {
		return &j.Tasks[rank]
	}
	return j.order[rank]
}

// Pending returns how many tasks wait.
func (j *JobInfo) Pending() int { return int(j.count[Pending]) }

// starving says whether the job waits to start, or has lost members that it can not be without.
func (j *JobInfo) starving() bool { return j.count[Pending] > 0 && !j.full(true) }

// grows says whether a task of the job waits, and it may have another member.
func (j *JobInfo) grows() bool { return j.count[Pending] > 0 && j.Coming() < j.Max() }

// running returns the members that hold resources and can be evicted, the last ones to start first.
func (j *JobInfo) evictable() []*TaskInfo {
	var out []*TaskInfo
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.canGo() {
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b *TaskInfo) int { return b.Task.Since.Compare(a.Task.Since) })
	return out
}

// canGo says whether a task can be evicted. What was allocated in this session is only undone.
func (t *TaskInfo) canGo() bool {
	return t.State == Binding || t.State == Bound || t.State == Running
}

// sortTasks puts tasks in the order in which they are to be scheduled.
func (s *Session) sortTasks(j *JobInfo) {
	if j.uniform {
		return
	}
	j.order = make([]*TaskInfo, len(j.Tasks))
	for i := range j.Tasks {
		j.order[i] = &j.Tasks[i]
	}
	slices.SortStableFunc(j.order, s.compareTasks)
	for i, t := range j.order {
		t.rank = int32(i) //nolint:gosec // an index
	}
}

// path returns the ancestor of a queue at a depth.
func (q *QueueInfo) at(depth int) *QueueInfo {
	for q.Depth > depth {
		q = q.Parent
	}
	return q
}

// part returns where two queues part: the siblings that they are, or are below of. Both are the same if one is an
// ancestor of the other.
func part(a, b *QueueInfo) (*QueueInfo, *QueueInfo) {
	depth := min(a.Depth, b.Depth)
	a, b = a.at(depth), b.at(depth)
	for a != b && a.Parent != b.Parent {
		a, b = a.Parent, b.Parent
	}
	return a, b
}

// weight of a queue or namespace, where none is one.
func weight(w int) float64 { return float64(max(1, w)) }
