package scheduler

import (
	"cmp"
	"slices"
	"time"
)

// backfill places jobs that will finish in time on nodes that are reserved for others.
type backfill struct{}

func (backfill) Run(s *Session) {
	for i, r := range s.reservations {
		if r.Start.IsZero() || s.jobs[r.Job].full(false) {
			continue
		}
		number := int32(i) //nolint:gosec // few
		where := s.everywhere()
		where.class = func(t *TaskInfo) *Class { return s.classOf(t.Class.Spec, t.Job, number) }
		l := s.lineUp(func(j *JobInfo) bool {
			return j.schedulable() && j.count[Pending] > 0 && j.Job.Duration > 0 &&
				!s.Now.Add(j.Job.Duration).After(r.Start) && s.closeness(j).Depth == 0
		})
		for j := l.next(); j != nil; j = l.next() {
			st := s.Statement()
			ok := s.fill(st, j, where)
			if ok {
				st.Commit()
			} else {
				st.Discard()
			}
			l.done(ok && j.grows())
		}
	}
}

// reserve reserves nodes for the first overdue job: the sufficient set that will be empty the soonest. Each queue has
// at most one reservation at a time, so that few nodes stay idle for it.
type reserve struct{}

func (reserve) Run(s *Session) {
	taken := map[*QueueInfo]bool{}
	for i := range s.reservations {
		if j := s.jobs[s.reservations[i].Job]; j.starving() && j.schedulable() {
			taken[j.Queue] = true
		}
	}
	l := s.lineUp(func(j *JobInfo) bool { return j.schedulable() && j.starving() && j.reserved == nil && s.overdue(j) })
	for j := l.next(); j != nil; j = l.next() {
		if !taken[j.Queue] {
			if r, ok := s.plan(j); ok {
				s.reserve(r)
				j.reserved = &r
				taken[j.Queue] = true
			}
		}
		l.done(false)
	}
}

// plan chooses the nodes to reserve for a job. It reports false if the job would not fit on an empty cluster.
func (s *Session) plan(j *JobInfo) (Reservation, bool) {
	type candidate struct {
		n     *NodeInfo
		drain time.Time
		known bool
	}
	var nodes []candidate
	for _, n := range s.Nodes {
		if n.Node.Closed || n.reserved >= 0 {
			continue
		}
		c := candidate{n: n, drain: s.Now, known: true}
		for _, t := range n.Tasks {
			switch {
			case t.Task.Ends.IsZero() && t.State != Releasing:
				c.known = c.known && t.Job.Job.Duration > 0 && !t.State.Ended()
				c.drain = later(c.drain, s.Now.Add(t.Job.Job.Duration))
			default:
				c.drain = later(c.drain, t.Task.Ends)
			}
		}
		nodes = append(nodes, c)
	}
	slices.SortStableFunc(nodes, func(a, b candidate) int {
		if a.known != b.known {
			if a.known {
				return -1
			}
			return 1
		}
		return cmp.Or(a.drain.Compare(b.drain), cmp.Compare(a.n.Index, b.n.Index))
	})
	tasks := j.missing()
	r := Reservation{Job: j.Job.ID, Since: s.Now, Start: s.Now}
	for _, c := range nodes {
		if len(tasks) == 0 {
			break
		}
		left := s.packEmpty(c.n, tasks)
		if len(left) == len(tasks) {
			continue
		}
		tasks = left
		r.Nodes = append(r.Nodes, c.n.Node.Name)
		if !c.known {
			r.Start = time.Time{}
		} else if !r.Start.IsZero() {
			r.Start = later(r.Start, c.drain)
		}
	}
	if len(tasks) > 0 {
		j.why = Reason{"reserve", "it would not fit even if all nodes were empty"}
		return r, false
	}
	return r, true
}

// missing returns the tasks that a job still needs to be ready.
func (j *JobInfo) missing() []*TaskInfo {
	var out []*TaskInfo
	roles := slices.Clone(j.roles)
	missing, left := j.rolesMet(), j.Min()-j.Coming()
	j.pending(func(t *TaskInfo) bool {
		switch {
		case t.role >= 0 && roles[t.role] < j.Job.Roles[t.role].Min:
			roles[t.role]++
			missing--
		case left <= missing:
			return missing > 0
		}
		left--
		out = append(out, t)
		return left > 0 || missing > 0
	})
	return out
}

// packEmpty places as many tasks on the node as it could hold if it were empty, and returns the others.
func (s *Session) packEmpty(n *NodeInfo, tasks []*TaskInfo) []*TaskInfo {
	empty := NodeInfo{Node: n.Node, Idle: n.Node.Capacity, devices: make([]device, len(n.devices))}
	if len(n.devices) > 0 {
		empty.Idle[s.Snapshot.GPU] = Whole * int64(len(n.devices))
	}
	for i := range empty.devices {
		empty.devices[i] = device{Whole, Whole}
	}
	empty.Future = empty.Idle
	empty.count()
	if n.labels != nil {
		empty.labels = map[Pair]labelCount{}
	}
	var left []*TaskInfo
	for _, t := range tasks {
		if !s.allowed(t.Class, n) || !empty.fits(t.Class, false) || !empty.labelsAllow(t.Class.Spec, false) {
			left = append(left, t)
			continue
		}
		copied := &TaskInfo{Class: t.Class, State: Allocated, devices: empty.choose(t.Class, false)}
		empty.add(copied)
	}
	return left
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
