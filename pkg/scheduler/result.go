package scheduler

import (
	"fmt"
	"math/bits"
	"slices"
)

// Result has the decisions of a session.
type Result struct {
	// Binds are the tasks to start. All missing members of a gang are included, or none.
	Binds []Bind
	// Nominations are pending tasks for which room is being made. The caller sets Task.Node in the next snapshot, so
	// that no other task gets the room.
	Nominations []Bind
	Evictions   []Eviction
	Jobs        []JobChange // only jobs that changed
	// Reservations are in force and belong in the next snapshot.
	Reservations []Reservation
}

// Bind is a task and its node.
type Bind struct {
	Job, Task, Node string
	Devices         []int
	// Turn is the order in which binds were decided.
	Turn int
}

// Eviction is a task to stop. The caller should save its work since the last checkpoint first.
type Eviction struct {
	Job, Task, Node string
	For             string // job for which room is made; may be empty
	Reason          string
}

// JobChange is a change of a job's phase or condition.
type JobChange struct {
	Job   string
	Phase Phase
	// Restart means that all tasks start again.
	Restart bool
	// Stranded means that it holds resources with fewer members than its minimum; Job.Stranded records since when.
	Stranded bool
	Reason   string
}

// Close ends the session and returns its decisions.
func (s *Session) Close() *Result {
	r := &Result{}
	binds, nominations := 0, 0
	for _, j := range s.Jobs {
		n := j.Count(Pipelined)
		if s.JobReady(j) {
			binds += j.Count(Allocated)
		} else {
			n += j.Count(Allocated)
		}
		nominations += n
	}
	r.Binds, r.Nominations = make([]Bind, 0, binds), make([]Bind, 0, nominations)
	for _, j := range s.Jobs {
		s.closeJob(r, j)
	}
	for _, v := range s.evicted {
		e := Eviction{Job: v.task.Job.Job.ID, Task: v.task.Task.ID, Node: v.task.Task.Node, Reason: v.why}
		if v.by != nil {
			e.For = v.by.Job.ID
		}
		r.Evictions = append(r.Evictions, e)
	}
	for _, v := range s.reservations {
		if j := s.jobs[v.Job]; !j.full(false) && !j.Phase.Ended() {
			r.Reservations = append(r.Reservations, v)
		}
	}
	return r
}

func (s *Session) closeJob(r *Result, j *JobInfo) {
	ready := s.JobReady(j)
	if j.count[Allocated]+j.count[Pipelined] > 0 {
		for i := range j.Tasks {
			t := &j.Tasks[i]
			if t.State != Allocated && t.State != Pipelined {
				continue
			}
			b := Bind{j.Job.ID, t.Task.ID, t.Node.Node.Name, t.Devices(), int(t.turn)}
			if t.State == Allocated && ready {
				r.Binds = append(r.Binds, b)
			} else {
				r.Nominations = append(r.Nominations, b)
			}
		}
	}
	phase := j.Phase
	switch over := j.Count(Succeeded) + j.Count(Failed); {
	case phase.Ended():
	case over == len(j.Tasks) && over > 0 && j.stopped == Ignore:
		if phase = Finished; j.Count(Succeeded) < j.Min() {
			phase = Aborted
		}
	case phase == Inqueue && ready:
		phase = Started
	}
	stranded := j.stranded()
	if phase != j.Job.Phase || j.stopped != Ignore || stranded == j.Job.Stranded.IsZero() {
		r.Jobs = append(r.Jobs, JobChange{Job: j.Job.ID, Phase: phase, Restart: j.stopped == Restart,
			Stranded: stranded, Reason: j.why.Text})
	}
}

// Devices returns the indices of the node's GPUs of which the task has a share.
func (t *TaskInfo) Devices() []int {
	var out []int
	for on := t.devices; on != 0; on &= on - 1 {
		out = append(out, bits.TrailingZeros64(on))
	}
	return out
}

// Why explains, after Run, why a job has not started or has fewer members than it could: first the session's own
// reason, then for each class of waiting tasks the reasons of the nodes with the number of nodes, most frequent
// first. It returns nil if no task of the job waits.
func (s *Session) Why(job string) []Reason {
	j := s.jobs[job]
	if j == nil || j.count[Pending] == 0 && j.count[Pipelined] == 0 || j.Phase.Ended() && j.why.Text == "" {
		return nil
	}
	var out []Reason
	add := func(r Reason) {
		if r.Text != "" && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	if j.Queue.Queue.Closed {
		add(Reason{"session", "queue " + j.Queue.Queue.Name + " is closed"})
	}
	if n := j.count[Pipelined]; n > 0 {
		add(
			Reason{
				"preempt",
				fmt.Sprintf("room is being made for %d of its tasks: it waits for other tasks to stop", n),
			},
		)
	}
	if j.why.Text != noRoom {
		add(j.why)
	}
	if !j.schedulable() {
		return out
	}
	var seen []*Class
	j.pending(func(t *TaskInfo) bool {
		if j.wants(t) && !slices.Contains(seen, t.Class) {
			seen = append(seen, t.Class)
			for _, r := range s.refusals(t.Class) {
				add(r)
			}
		}
		return len(seen) < 8
	})
	if need := len(j.missing()); need > 1 && len(seen) > 0 {
		add(Reason{"gang", fmt.Sprintf("its %d members start together or not at all", need)})
	}
	return out
}

// refusals counts nodes by the reason why they can not take a task of the class.
func (s *Session) refusals(c *Class) []Reason {
	counts := map[Reason]int{}
	var order []Reason
	for _, n := range s.Nodes {
		r := s.refusal(c, n)
		if counts[r]++; counts[r] == 1 {
			order = append(order, r)
		}
	}
	slices.SortStableFunc(order, func(a, b Reason) int { return counts[b] - counts[a] })
	var out []Reason
	for _, r := range order {
		if r.Text != "" {
			out = append(out, Reason{r.Plugin, fmt.Sprintf("%d of %d nodes: %s", counts[r], len(s.Nodes), r.Text)})
		}
	}
	return out
}

func (s *Session) refusal(c *Class, n *NodeInfo) Reason {
	switch {
	case n.Node.Closed:
		return Reason{"session", "accepts no new tasks"}
	case n.reserved >= 0 && n.reserved != c.reservation:
		return Reason{"reserve", "is reserved for job " + s.reservations[n.reserved].Job}
	}
	for _, f := range s.fn.predicates {
		if f.always != nil {
			if why := f.always(c, n); why != "" {
				return Reason{f.plugin, why}
			}
		}
	}
	if !n.fits(c, false) {
		return s.shortage(c, n)
	}
	for _, f := range s.fn.predicates {
		if f.now != nil {
			if why := f.now(c, n, false); why != "" {
				return Reason{f.plugin, why}
			}
		}
	}
	return Reason{}
}

// shortage returns which resource of the node is insufficient.
func (s *Session) shortage(c *Class, n *NodeInfo) Reason {
	for r, need := range c.request {
		capacity := n.Node.Capacity[r]
		if r == s.Snapshot.GPU && n.Node.Devices > 0 {
			capacity = Whole * int64(n.Node.Devices)
		}
		if need > capacity {
			return Reason{"predicates", "is too small in " + s.resource(r)}
		}
		if need > min(n.Idle[r], n.Future[r]) {
			return Reason{"predicates", "has too little " + s.resource(r) + " left"}
		}
	}
	return Reason{
		"predicates",
		fmt.Sprintf("has fewer than %d GPUs with %d/%d of each left", c.devices, c.share, Whole),
	}
}
