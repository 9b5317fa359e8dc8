package scheduler

import (
	"fmt"
	"math/bits"
	"slices"
)

// Result is what a session decided.
type Result struct {
	// Binds are tasks to start: the members of a gang all, or none.
	Binds []Bind
	// Nominations are pending tasks for which room is being made: Task.Node of the next snapshot, so that nobody else
	// gets it.
	Nominations []Bind
	Evictions   []Eviction
	Jobs        []JobChange // those of which anything changed
	// Reservations in force, for the next snapshot.
	Reservations []Reservation
}

// Bind is a task and its node.
type Bind struct {
	Job, Task, Node string
	Devices         []int
	// Turn orders binds by when they were decided.
	Turn int
}

// Eviction is a task to stop. What it has done since its last checkpoint is to be saved first.
type Eviction struct {
	Job, Task, Node string
	For             string // the job that room is made for; may be empty
	Reason          string
}

// JobChange is what became of a job.
type JobChange struct {
	Job   string
	Phase Phase
	// Restart says that all of it starts again.
	Restart bool
	// Stranded says that it holds resources with fewer members than its minimum. Job.Stranded is since when.
	Stranded bool
	Reason   string
}

// Close ends the session.
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
		if j := s.jobs[v.Job]; !j.full(false) && !j.Phase.Over() {
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
	case phase.Over():
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

// Devices returns which of its node's GPUs the task has a share of.
func (t *TaskInfo) Devices() []int {
	var out []int
	for on := t.on; on != 0; on &= on - 1 {
		out = append(out, bits.TrailingZeros64(on))
	}
	return out
}

// Why says why a job has not started, or has fewer members than it could, after Run: what the session found, then for
// each class of tasks that waits how many nodes keep it away for which reason, the most frequent first. Nothing keeps a
// job that has all it asked for.
func (s *Session) Why(job string) []Reason {
	j := s.jobs[job]
	if j == nil || j.count[Pending] == 0 && j.count[Pipelined] == 0 || j.Phase.Over() && j.why.Text == "" {
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
		add(Reason{"preempt", fmt.Sprintf("room for %d of its tasks is being made: it waits for others to stop", n)})
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

// refusals counts nodes by what keeps tasks of a class away.
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
		return Reason{"session", "takes nothing new"}
	case n.reserved >= 0 && n.reserved != c.reservation:
		return Reason{"reserve", "is kept for job " + s.reservations[n.reserved].Job}
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

// shortage says what of a node is not enough.
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
	return Reason{"predicates", fmt.Sprintf("has no %d GPUs with %d/%d of each left", c.devices, c.share, Whole)}
}
