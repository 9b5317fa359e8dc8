package scheduler

import (
	"fmt"
)

// Fingerprint returns all state that a statement may change, as text.
func (s *Session) Fingerprint() string {
	out := ""
	for _, n := range s.Nodes {
		out += fmt.Sprint(n.Node.Name, n.Idle, n.Future, n.devices, len(n.Tasks))
		for p, l := range n.labels {
			if l != (labelCount{}) {
				out += fmt.Sprint(p, l)
			}
		}
	}
	for _, q := range s.Queues {
		out += fmt.Sprint(q.Allocated)
	}
	for _, n := range s.Namespaces {
		out += fmt.Sprint(n.Allocated)
	}
	for _, j := range s.Jobs {
		out += fmt.Sprint(j.Allocated, j.count, j.roles)
		for i := range j.Tasks {
			out += fmt.Sprint(j.Tasks[i].State, j.Tasks[i].devices)
		}
	}
	return out
}

// Best returns the best node by the tree. Scan returns it by a check of each node.
func (s *Session) Best(t *TaskInfo, from, to int) *NodeInfo { return s.best(t.Class, from, to) }

func (s *Session) Scan(t *TaskInfo, from, to int) *NodeInfo {
	s.computeStatic(t.Class)
	var best *NodeInfo
	for _, n := range s.Nodes[from:to] {
		if x := s.score(t.Class, n); x != Never && (best == nil || x > s.score(t.Class, best)) {
			best = n
		}
	}
	return best
}

// RoomLater reports whether the node has room for the task once releasing tasks have stopped.
func (s *Session) RoomLater(t *TaskInfo, n *NodeInfo) bool { return s.roomLater(t.Class, n) }

func (t *TaskInfo) CanGo() bool { return t.evictable() }

func Raise(left float64, weights, low, high []float64) []float64 {
	part := make([]float64, len(weights))
	raise(left, weights, low, high, part)
	return part
}

// ParseState returns the state with a name.
func ParseState(name string) (State, bool) { return parse(name, Unknown) }

// ParsePhase returns the phase with a name.
func ParsePhase(name string) (Phase, bool) { return parse(name, Aborted) }

// parse returns the value with a name, among those up to last.
func parse[T interface {
	~uint8
	fmt.Stringer
}](name string, last T) (T, bool) {
	for v := range last + 1 {
		if v.String() == name {
			return v, true
		}
	}
	return 0, false
}

// MaxResources is the maximum number of resources in a snapshot.
const MaxResources = maxResources

// ActionNames returns the actions that a policy may name.
func ActionNames() []string { return actionNames() }
