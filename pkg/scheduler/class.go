package scheduler

// Class is a set of tasks that are interchangeable for every node: same request, and jobs with the same permissions.
type Class struct {
	Index int
	Spec  *Spec
	// Evictable reports whether the members of the job may be evicted.
	Evictable bool
	request   Vector // with GPUs
	devices   int
	share     int32
	// reservation is the number of the reservation whose nodes the task may use; negative: none.
	reservation int32
	// static is, for each node, the part of its score that does not change in a session; Never if the node can
	// never take the class.
	static []float64
	// tree ranks the nodes by their current scores; nil until first used.
	tree   *tournament
	cursor int // index into Session.changes up to which tree is up to date
}

// classKey identifies a class.
type classKey struct {
	spec        string
	evictable   bool
	reservation int32
}

// classOf returns the class of a task with this spec in job j.
func (s *Session) classOf(spec *Spec, j *JobInfo, reservation int32) *Class {
	text, ok := s.specs[spec]
	if !ok {
		text = spec.Key()
		s.specs[spec] = text
	}
	key := classKey{text, !j.Job.Kept, reservation}
	if c, ok := s.classes[key]; ok {
		return c
	}
	c := &Class{
		Index: len(s.classList), Spec: spec, Evictable: key.evictable, reservation: reservation,
		request: spec.Request, devices: spec.Devices, share: int32(spec.PerDevice()), //nolint:gosec // at most Whole
	}
	if s.Snapshot.GPU >= 0 {
		c.request[s.Snapshot.GPU] = int64(spec.Devices) * spec.PerDevice()
	}
	s.classes[key] = c
	s.classList = append(s.classList, c)
	return c
}

// mostTrees is the maximum number of classes that keep their tree. The others rebuild it for each use.
const mostTrees = 1024

// best returns the node with the highest score among indices from ≤ i < to, the first of equals. It returns nil if no
// such node can take a task of the class.
func (s *Session) best(c *Class, from, to int) *NodeInfo {
	s.refresh(c)
	if i := c.tree.Best(from, to); i >= 0 {
		return s.Nodes[i]
	}
	return nil
}

// refresh brings the tree of a class up to date.
func (s *Session) refresh(c *Class) {
	switch {
	case c.tree == nil || len(s.changes)-c.cursor > len(s.Nodes):
		s.build(c)
	default:
		for k := c.cursor; k < len(s.changes); k++ {
			if i := s.changes[k]; s.latest[i] == int32(k) { //nolint:gosec // as many as turns
				c.tree.Set(int(i), s.score(c, s.Nodes[i]))
			}
		}
	}
	c.cursor = len(s.changes)
	s.seen = len(s.changes)
}

// computeStatic computes the part of a class's scores that does not change in a session.
func (s *Session) computeStatic(c *Class) {
	if c.static != nil {
		return
	}
	c.static = make([]float64, len(s.Nodes))
	for i, n := range s.Nodes {
		c.static[i] = s.staticScore(c, n)
	}
}

func (s *Session) build(c *Class) {
	s.computeStatic(c)
	if c.tree == nil {
		if s.trees = append(s.trees, c); len(s.trees) > mostTrees {
			s.trees[0].tree = nil
			s.trees = s.trees[1:]
		}
		c.tree = &tournament{}
	}
	c.tree.Reset(len(s.Nodes), func(i int) float64 { return s.score(c, s.Nodes[i]) })
}

// keepScores marks the start of changes that will be undone, so no class applies them to its scores. All must be
// undone before the returned function is called.
func (s *Session) keepScores() (end func()) {
	s.trying = true
	return func() { s.trying = false }
}

// changed records that a node's score has to be recomputed for all classes.
func (s *Session) changed(n *NodeInfo) {
	if s.trying {
		return
	}
	i := int32(n.Index) //nolint:gosec // an index
	if last := len(s.changes) - 1; last >= s.seen && s.changes[last] == i {
		return
	}
	s.latest[i] = int32(len(s.changes)) //nolint:gosec // as many as turns
	s.changes = append(s.changes, i)
}

// score returns the current score of a node for a class, Never if the node has no room.
func (s *Session) score(c *Class, n *NodeInfo) float64 {
	x := c.static[n.Index]
	if x == Never || !n.fits(c, false) {
		return Never
	}
	for _, f := range s.fn.predicates {
		if f.now != nil && f.now(c, n, false) != "" {
			return Never
		}
	}
	for _, f := range s.fn.nodeOrders {
		x += f(c, n)
	}
	return x
}

// staticScore returns the part of a node's score that does not change in a session.
func (s *Session) staticScore(c *Class, n *NodeInfo) float64 {
	if n.Node.Closed || n.reserved >= 0 && n.reserved != c.reservation {
		return Never
	}
	for _, f := range s.fn.predicates {
		if f.always != nil && f.always(c, n) != "" {
			return Never
		}
	}
	x := 0.0
	for _, f := range s.fn.preferences {
		x += f(c, n)
	}
	return x
}

// allowed reports whether a task of the class may ever be placed on the node.
func (s *Session) allowed(c *Class, n *NodeInfo) bool {
	s.computeStatic(c)
	return c.static[n.Index] != Never
}

// roomLater reports whether the node has room for a task of the class once releasing tasks have stopped.
func (s *Session) roomLater(c *Class, n *NodeInfo) bool {
	if !s.allowed(c, n) || !n.fits(c, true) {
		return false
	}
	for _, f := range s.fn.predicates {
		if f.now != nil && f.now(c, n, true) != "" {
			return false
		}
	}
	return true
}
