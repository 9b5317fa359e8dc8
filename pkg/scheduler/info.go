package scheduler

import "slices"

// TaskInfo is a task within a session. There is one for each task, and each is read several times, so it is kept small.
type TaskInfo struct {
	Task  *Task
	Job   *JobInfo
	Class *Class
	// Node is where the task holds or will hold resources; nil if it holds none or its node is not in the snapshot.
	Node *NodeInfo
	// nominated is the node where an earlier session made room for it.
	nominated *NodeInfo
	// devices is a bit set of the GPUs of the node of which the task has a share.
	devices uint64
	place   int32 // index in Node.Tasks
	rank    int32 // position in the job's order of tasks
	turn    int32 // when it got resources in this session
	role    int16 // index in Job.Job.Roles; negative: none
	State   State
}

// eviction is an evicted task and the reason; by is nil if it was not evicted for another job.
type eviction struct {
	task *TaskInfo
	by   *JobInfo
	why  string
}

// JobInfo is a job within a session.
type JobInfo struct {
	Index     int
	Job       *Job
	Queue     *QueueInfo
	Namespace *NamespaceInfo
	Tasks     []TaskInfo
	count     [Unknown + 1]int32
	next      int32 // no task before this rank is pending
	Phase     Phase
	uniform   bool  // all tasks have the same class
	nominated bool  // an earlier session made room for a task
	priority  int   // copy of Job.Priority, stored next to the other fields that job orders read
	least     int   // Min
	roles     []int // occupied or pipelined members by role
	// order is the order of tasks; nil is the order of Tasks.
	order []*TaskInfo
	// Allocated is the sum that its members hold or will hold, without those that are releasing.
	Allocated Vector
	// reserved is its reservation; nil if none.
	reserved *Reservation
	stopped  Reaction // Restart or Abort if the session stops the job
	why      Reason
	blocked  bool       // waits for other jobs
	limit    *QueueInfo // queue whose limit stopped the job when it was last tried; nil if none did
}

// QueueInfo is a queue within a session.
type QueueInfo struct {
	Index    int
	Queue    *Queue // nameless for the cluster itself
	Parent   *QueueInfo
	Children []*QueueInfo
	Depth    int
	Jobs     []*JobInfo
	// Allocated is the sum that its jobs and those of its children hold or will hold. Wanted is the additional sum for
	// which they wait. Admitted is the minimum that admitted jobs need to start.
	Allocated, Wanted, Admitted Vector
}

// NamespaceInfo is a namespace within a session.
type NamespaceInfo struct {
	Index     int
	Namespace *Namespace
	Allocated Vector
	version   int // incremented when Allocated changes
}

// Count returns the number of the job's tasks in a state.
func (j *JobInfo) Count(s State) int { return int(j.count[s]) }

// Occupied returns the number of members that the job certainly has.
func (j *JobInfo) Occupied() int {
	return int(j.count[Allocated] + j.count[Binding] + j.count[Bound] + j.count[Running] + j.count[Succeeded])
}

// Coming returns the number of members, including pipelined ones.
func (j *JobInfo) Coming() int { return j.Occupied() + int(j.count[Pipelined]) }

// Min returns the minimum number of members that start together.
func (j *JobInfo) Min() int { return j.least }

// Max returns the maximum number of running members.
func (j *JobInfo) Max() int {
	if j.Job.Max > 0 {
		return j.Job.Max
	}
	return len(j.Tasks)
}

// rolesMet returns how many members are missing until each role has its minimum.
func (j *JobInfo) rolesMet() (missing int) {
	for i, r := range j.Job.Roles {
		missing += max(0, r.Min-j.roles[i])
	}
	return missing
}

// full reports whether the job has its minimum of members, if coming is set including pipelined ones.
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

// wants reports whether the job needs this pending task: its role is below its minimum, or more members are missing
// than roles require. A job that has its minimum wants any task up to its maximum.
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

// pending calls each with the job's pending tasks in order until each returns false.
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

// task returns the task with a rank.
func (j *JobInfo) task(rank int) *TaskInfo {
	if j.order == nil {
		return &j.Tasks[rank]
	}
	return j.order[rank]
}

// Pending returns the number of waiting tasks.
func (j *JobInfo) Pending() int { return int(j.count[Pending]) }

// starving reports whether the job has pending tasks and fewer members than its minimum, including pipelined ones.
func (j *JobInfo) starving() bool { return j.count[Pending] > 0 && !j.full(true) }

// grows reports whether a task of the job is pending and the job may have another member.
func (j *JobInfo) grows() bool { return j.count[Pending] > 0 && j.Coming() < j.Max() }

// evictable returns the members that can be evicted, the last started first.
func (j *JobInfo) evictable() []*TaskInfo {
	var out []*TaskInfo
	for i := range j.Tasks {
		if t := &j.Tasks[i]; t.evictable() {
			out = append(out, t)
		}
	}
	slices.SortStableFunc(out, func(a, b *TaskInfo) int { return b.Task.Since.Compare(a.Task.Since) })
	return out
}

// evictable reports whether a task can be evicted. Tasks allocated in this session are undone instead.
func (t *TaskInfo) evictable() bool {
	return t.State == Binding || t.State == Bound || t.State == Running
}

// sortTasks sorts the job's tasks into scheduling order.
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

// ancestorAt returns the ancestor of a queue at a depth.
func (q *QueueInfo) ancestorAt(depth int) *QueueInfo {
	for q.Depth > depth {
		q = q.Parent
	}
	return q
}

// siblingAncestors returns the ancestors of two queues, or the queues themselves, that have the same parent. If one of
// the queues is an ancestor of the other, it returns that queue twice.
func siblingAncestors(a, b *QueueInfo) (*QueueInfo, *QueueInfo) {
	depth := min(a.Depth, b.Depth)
	a, b = a.ancestorAt(depth), b.ancestorAt(depth)
	for a != b && a.Parent != b.Parent {
		a, b = a.Parent, b.Parent
	}
	return a, b
}

// weight returns the weight of a queue or namespace; unset is 1.
func weight(w int) float64 { return float64(max(1, w)) }
