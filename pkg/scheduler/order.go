package scheduler

// line yields jobs in turn order: the first job of the first namespace of the first queue, from the cluster down. A
// turn changes shares along one path only, so the rest of the heaps stays valid.
type line struct {
	s    *Session
	root *branch
	path []*branch // from the root to the queue whose turn it is
	at   *space
	job  *JobInfo
}

// branch is a queue with jobs in line.
type branch struct {
	queue    *QueueInfo
	children heap[*branch]
	spaces   heap[*space]
}

// space is a namespace within a queue.
type space struct {
	namespace *NamespaceInfo // nil if namespaces are ignored
	version   int            // version of the namespace when this was put in line
	jobs      heap[*JobInfo]
}

func (b *branch) empty() bool { return len(b.children.Items) == 0 && len(b.spaces.Items) == 0 }

// lineUp puts the jobs for which want is true in line.
func (s *Session) lineUp(want func(j *JobInfo) bool) *line {
	l := &line{s: s}
	l.root = l.branch(s.Queues[0], want)
	return l
}

func (l *line) branch(q *QueueInfo, want func(j *JobInfo) bool) *branch {
	s := l.s
	b := &branch{queue: q}
	b.children.Compare = func(a, b *branch) int { return s.compareQueues(a.queue, b.queue) }
	b.spaces.Compare = s.compareSpaces
	for _, child := range q.Children {
		if c := l.branch(child, want); !c.empty() {
			b.children.Push(c)
		}
	}
	spaces := map[*NamespaceInfo]*space{}
	var order []*space
	for _, j := range q.Jobs {
		if !want(j) {
			continue
		}
		namespace := j.Namespace
		if !s.fn.spaces {
			namespace = nil
		}
		sp := spaces[namespace]
		if sp == nil {
			sp = &space{namespace: namespace, jobs: heap[*JobInfo]{Compare: s.compareJobs}}
			sp.stamp()
			spaces[namespace] = sp
			order = append(order, sp)
		}
		sp.jobs.Push(j)
	}
	for _, sp := range order {
		b.spaces.Push(sp)
	}
	return b
}

// compareSpaces puts a namespace first if its first job is overdue. Otherwise a namespace that holds much would come
// last, and its overdue job would wait as long as other namespaces submit jobs.
func (s *Session) compareSpaces(a, b *space) int {
	if x, y := s.spaceOverdue(a), s.spaceOverdue(b); x != y {
		if x {
			return -1
		}
		return 1
	}
	return s.compareNamespaces(a.namespace, b.namespace)
}

func (s *Session) spaceOverdue(sp *space) bool { return s.overdue(sp.jobs.Items[0]) }

func (sp *space) stamp() {
	if sp.namespace != nil {
		sp.version = sp.namespace.version
	}
}

// next starts the turn of the next job and returns it, or nil if the line is empty. The caller ends the turn with
// done or drop.
func (l *line) next() *JobInfo {
	if l.root.empty() {
		return nil
	}
	l.path = append(l.path[:0], l.root)
	b := l.root
	for len(b.children.Items) > 0 {
		b = b.children.Items[0]
		l.path = append(l.path, b)
	}
	for {
		l.at = b.spaces.Items[0]
		if l.at.namespace == nil || l.at.version == l.at.namespace.version {
			break
		}
		// Another queue has changed this namespace's share since it was put in line.
		l.at.stamp()
		b.spaces.Sink()
	}
	l.job = l.at.jobs.Items[0]
	return l.job
}

// done ends a turn; with again the job stays in line. The turn changed only the shares of its job, namespace and
// queues, and these are still the first items of their heaps.
func (l *line) done(again bool) {
	if again {
		l.at.jobs.Sink()
	} else {
		l.at.jobs.Pop()
	}
	leaf := l.path[len(l.path)-1]
	if len(l.at.jobs.Items) == 0 {
		leaf.spaces.Pop()
	} else {
		l.at.stamp()
		leaf.spaces.Sink()
	}
	for i := len(l.path) - 1; i > 0; i-- {
		parent := l.path[i-1]
		if l.path[i].empty() {
			parent.children.Pop()
		} else {
			parent.children.Sink()
		}
	}
}

// drop removes a queue (that of the turn or an ancestor) and everything below it from the line.
func (l *line) drop(q *QueueInfo) {
	for i := len(l.path) - 1; i >= 0; i-- {
		b := l.path[i]
		if b.queue.Depth >= q.Depth {
			b.spaces.Items, b.children.Items = nil, nil
		}
		if i == 0 {
			return
		}
		parent := l.path[i-1]
		if b.empty() {
			parent.children.Pop()
		} else {
			parent.children.Sink()
		}
	}
}
