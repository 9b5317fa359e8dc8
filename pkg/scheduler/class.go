package scheduler

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Class is what tasks have in common that any node suits equally: what they ask for, and what their job may do.
type Class struct {
	Index int
	Spec  *Spec
	// Evictable says that the job's members may be evicted.
	Evictable bool
	request   Vector // with GPUs
	devices   int
	share     int32
	// reservation is the number of the one whose nodes the task may use; negative if none.
	reservation int32
	// static is for each node what does not change in a session of its score, minus infinity where it can never go.
	static []float64
	// tree is a tournament over nodes: the score of node i at leaves+i, of others the better of their two children.
	// Minus infinity is where the task can not go now.
	tree   []float64
	leaves int
	cursor int // in Session.changes
}

// never is the score of a node that a task can not go to.
var never = math.Inf(-1)

// classKey tells classes apart.
type classKey struct {
	spec        string
	evictable   bool
	reservation int32
}

// classOf returns the class of a task of a job.
func (s *Session) classOf(spec *Spec, j *JobInfo, reservation int32) *Class {
	text, ok := s.specs[spec]
	if !ok {
		text = spec.key()
		s.specs[spec] = text
	}
	key := classKey{text, !j.Job.Kept, reservation}
	if c, ok := s.classes[key]; ok {
		return c
	}
	c := &Class{
		Index: len(s.classList), Spec: spec, Evictable: key.evictable, reservation: reservation,
		request: spec.Request, devices: spec.Devices, share: int32(spec.perDevice()), //nolint:gosec // at most Whole
	}
	if s.Snapshot.GPU >= 0 {
		c.request[s.Snapshot.GPU] = int64(spec.Devices) * spec.perDevice()
	}
	s.classes[key] = c
	s.classList = append(s.classList, c)
	return c
}

func (s *Spec) perDevice() int64 {
	if s.Devices > 0 && s.Share == 0 {
		return Whole
	}
	return s.Share
}

// key is the same for specs that ask for the same.
func (s *Spec) key() string {
	var b strings.Builder
	fmt.Fprint(&b, s.Request, s.Devices, s.perDevice(), s.Role, s.Priority)
	maps := func(m map[string]string) {
		b.WriteByte('|')
		keys := make([]string, 0, len(m))
		for k := range m {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			fmt.Fprintf(&b, "%q=%q,", k, m[k])
		}
	}
	maps(s.Selector)
	maps(s.Labels)
	for _, t := range s.Affinity {
		fmt.Fprintf(&b, "|a%q%d%q%d", t.Key, t.Op, t.Values, t.Weight)
	}
	for _, t := range s.Tolerates {
		fmt.Fprintf(&b, "|t%q%q", t.Key, t.Value)
	}
	for _, p := range s.Near {
		fmt.Fprintf(&b, "|n%q%q", p.Key, p.Value)
	}
	for _, p := range s.Apart {
		fmt.Fprintf(&b, "|x%q%q", p.Key, p.Value)
	}
	return b.String()
}

// mostTrees bounds the classes that keep their tree: the others build it anew.
const mostTrees = 1024

// best returns the node with the highest score of those from to below to, nil if a task of the class can go to none. Of
// equals it is the first.
func (s *Session) best(c *Class, from, to int) *NodeInfo {
	s.refresh(c)
	if c.tree[1] == never {
		return nil
	}
	i, score := 1, c.tree[1]
	if from > 0 || to < len(s.Nodes) {
		if i, score = c.within(1, 0, c.leaves, from, to); score == never {
			return nil
		}
	}
	for i < c.leaves {
		if i *= 2; c.tree[i] != score {
			i++
		}
	}
	return s.Nodes[i-c.leaves]
}

// within returns the vertex whose leaf is the best in a range.
func (c *Class) within(at, low, high, from, to int) (int, float64) {
	if from <= low && high <= to {
		return at, c.tree[at]
	}
	if high <= from || to <= low || c.tree[at] == never {
		return at, never
	}
	middle := (low + high) / 2
	i, x := c.within(2*at, low, middle, from, to)
	k, y := c.within(2*at+1, middle, high, from, to)
	if y > x {
		return k, y
	}
	return i, x
}

// refresh brings the tree of a class up to date.
func (s *Session) refresh(c *Class) {
	switch {
	case c.tree == nil || len(s.changes)-c.cursor > len(s.Nodes):
		s.build(c)
	default:
		for k := c.cursor; k < len(s.changes); k++ {
			if i := s.changes[k]; s.latest[i] == int32(k) { //nolint:gosec // as many as turns
				s.update(c, int(i))
			}
		}
	}
	c.cursor = len(s.changes)
	s.seen = len(s.changes)
}

// fix computes what of a class's scores does not change.
func (s *Session) fix(c *Class) {
	if c.static != nil {
		return
	}
	c.static = make([]float64, len(s.Nodes))
	for i, n := range s.Nodes {
		c.static[i] = s.staticScore(c, n)
	}
}

func (s *Session) build(c *Class) {
	s.fix(c)
	if c.tree == nil {
		if s.trees = append(s.trees, c); len(s.trees) > mostTrees {
			s.trees[0].tree = nil
			s.trees = s.trees[1:]
		}
		c.leaves = 1
		for c.leaves < len(s.Nodes) {
			c.leaves *= 2
		}
		c.tree = make([]float64, 2*c.leaves)
		for i := len(s.Nodes); i < c.leaves; i++ {
			c.tree[c.leaves+i] = never
		}
	}
	for i, n := range s.Nodes {
		c.tree[c.leaves+i] = s.score(c, n)
	}
	for i := c.leaves - 1; i > 0; i-- {
		c.tree[i] = max(c.tree[2*i], c.tree[2*i+1])
	}
}

// update takes up a change of a node.
func (s *Session) update(c *Class, node int) {
	x := s.score(c, s.Nodes[node])
	i := c.leaves + node
	for c.tree[i] != x {
		c.tree[i] = x
		if i /= 2; i == 0 {
			return
		}
		x = max(c.tree[2*i], c.tree[2*i+1])
	}
}

// changed notes that classes have to look at a node again.
func (s *Session) changed(n *NodeInfo) {
	if s.quiet {
		return
	}
	i := int32(n.Index) //nolint:gosec // an index
	if last := len(s.changes) - 1; last >= s.seen && s.changes[last] == i {
		return
	}
	s.latest[i] = int32(len(s.changes)) //nolint:gosec // as many as turns
	s.changes = append(s.changes, i)
}

// score is what a node is worth to a class now: minus infinity where it has no room.
func (s *Session) score(c *Class, n *NodeInfo) float64 {
	x := c.static[n.Index]
	if x == never || !n.fits(c, false) {
		return never
	}
	for _, f := range s.fn.predicates {
		if f.now != nil && f.now(c, n, false) != "" {
			return never
		}
	}
	for _, f := range s.fn.nodeOrders {
		x += f(c, n)
	}
	return x
}

// staticScore is what of a node's score does not change in a session.
func (s *Session) staticScore(c *Class, n *NodeInfo) float64 {
	if n.Node.Closed || n.reserved >= 0 && n.reserved != c.reservation {
		return never
	}
	for _, f := range s.fn.predicates {
		if f.always != nil && f.always(c, n) != "" {
			return never
		}
	}
	x := 0.0
	for _, f := range s.fn.preferences {
		x += f(c, n)
	}
	return x
}

// allowed says whether a task of a class may ever go to a node.
func (s *Session) allowed(c *Class, n *NodeInfo) bool {
	s.fix(c)
	return c.static[n.Index] != never
}

// roomLater says whether a task will have room on a node once what is releasing is released.
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
