package scheduler

import "math/bits"

// maxDevices is the maximum number of GPUs of a node.
const maxDevices = 64

// NodeInfo is a node within a session.
type NodeInfo struct {
	Index int
	Node  *Node
	// Idle is the capacity that no task holds now. Future is the capacity that no task will hold once releasing tasks
	// have stopped and pipelined tasks have their resources.
	Idle, Future Vector
	Tasks        []*TaskInfo // tasks that hold or will hold resources
	running      []*TaskInfo // those that held resources when the session was opened; only these can be evicted
	devices      []device
	// maxFree is the largest free share of any GPU, and whole the number of completely free GPUs. Both
	// are for now, without the part that pipelined tasks will take.
	maxFree  int32
	whole    int
	labels   map[Pair]labelCount // nil unless a task has Near or Apart rules
	reserved int32               // number of the reservation; negative: none
}

// device is the free share of a GPU, in thousandths.
type device struct{ idle, future int32 }

// labelCount counts tasks on a node that have a label (has) and that must be apart from it (apart), now and once
// releasing tasks have stopped (Then).
type labelCount struct{ has, hasThen, apart, apartThen int32 }

// fits reports whether a task has room now, without taking it from pipelined tasks, or with later once releasing tasks
// have stopped.
func (n *NodeInfo) fits(c *Class, later bool) bool {
	if !c.request.FitsIn(&n.Future) || !later && !c.request.FitsIn(&n.Idle) {
		return false
	}
	switch {
	case c.devices == 0:
		return true
	case later:
	case c.devices == 1:
		return n.maxFree >= c.share
	case c.share == Whole:
		return n.whole >= c.devices
	}
	found := 0
	for i := range n.devices {
		d := &n.devices[i]
		if d.future >= c.share && (later || d.idle >= c.share) {
			found++
		}
	}
	return found >= c.devices
}

// choose picks devices for a task that fits: those with the smallest sufficient free share, so that free devices stay
// whole.
func (n *NodeInfo) choose(c *Class, later bool) uint64 {
	var on uint64
	for range c.devices {
		best, left := -1, int32(0)
		for i := range n.devices {
			d := &n.devices[i]
			free := d.future
			if !later {
				free = min(d.idle, d.future)
			}
			if on&(1<<i) == 0 && free >= c.share && (best < 0 || free < left) {
				best, left = i, free
			}
		}
		on |= 1 << best
	}
	return on
}

// add adds a task whose State and devices are set.
func (n *NodeInfo) add(t *TaskInfo) {
	t.Node, t.place = n, int32(len(n.Tasks)) //nolint:gosec // an index
	n.Tasks = append(n.Tasks, t)
	n.move(t, t.State.Holds(), t.State != Releasing, -1)
}

// remove removes a task.
func (n *NodeInfo) remove(t *TaskInfo) {
	n.move(t, t.State.Holds(), t.State != Releasing, +1)
	last := n.Tasks[len(n.Tasks)-1]
	n.Tasks[t.place], last.place = last, t.place
	n.Tasks = n.Tasks[:len(n.Tasks)-1]
	t.Node = nil
}

// move adds sign times the task's request to Idle (now) and to Future (then).
func (n *NodeInfo) move(t *TaskInfo, now, then bool, sign int64) {
	c := t.Class
	if now {
		for i := range c.request {
			n.Idle[i] += sign * c.request[i]
		}
	}
	if then {
		for i := range c.request {
			n.Future[i] += sign * c.request[i]
		}
	}
	share := int32(sign) * c.share //nolint:gosec // ±1
	for on := t.devices; on != 0; on &= on - 1 {
		d := &n.devices[bits.TrailingZeros64(on)]
		if now {
			d.idle += share
		}
		if then {
			d.future += share
		}
	}
	if t.devices != 0 {
		n.count()
	}
	if n.labels != nil {
		n.countLabels(c.Spec, now, then, int32(-sign)) //nolint:gosec // ±1
	}
}

// count updates maxFree and whole.
func (n *NodeInfo) count() {
	n.maxFree, n.whole = 0, 0
	for i := range n.devices {
		left := min(n.devices[i].idle, n.devices[i].future)
		n.maxFree = max(n.maxFree, left)
		if left == Whole {
			n.whole++
		}
	}
}

// countLabels counts the labels of a task.
func (n *NodeInfo) countLabels(spec *Spec, now, then bool, by int32) {
	add := func(p Pair, has bool) {
		l := n.labels[p]
		count := func(at, atThen *int32) {
			if now {
				*at += by
			}
			if then {
				*atThen += by
			}
		}
		if has {
			count(&l.has, &l.hasThen)
		} else {
			count(&l.apart, &l.apartThen)
		}
		n.labels[p] = l
	}
	for k, v := range spec.Labels {
		add(Pair{Key: k, Value: v}, true)
	}
	for _, p := range spec.Apart {
		add(p, false)
	}
}

// labelsAllow reports whether the label rules of the task and of the tasks on the node allow each other.
func (n *NodeInfo) labelsAllow(spec *Spec, later bool) bool {
	if n.labels == nil {
		return true
	}
	for _, p := range spec.Near {
		l := n.labels[p]
		if later && l.hasThen == 0 || !later && (l.has == 0 || l.hasThen == 0) {
			return false
		}
	}
	for _, p := range spec.Apart {
		l := n.labels[p]
		if l.hasThen > 0 || !later && l.has > 0 {
			return false
		}
	}
	for k, v := range spec.Labels {
		l := n.labels[Pair{Key: k, Value: v}]
		if l.apartThen > 0 || !later && l.apart > 0 {
			return false
		}
	}
	return true
}
