package broker

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// maxTree bounds the queues of a tree: a session that admits anything holds the records of all of them.
const maxTree = 24

// ErrQueue is about settings of a queue that contradict each other or those of others.
var ErrQueue = errors.New("queue")

// QueueSettings are what its owner sets of a queue. Zero quotas are without limit.
type QueueSettings struct {
	MaxRunning  int
	MaxVCPU     float64
	Description string
	// Parent is the queue whose quota and share it is a part of; empty is none.
	Parent string
	// Weight is its part among its siblings; 0 is 1.
	Weight int
	// DeservedVCPU is what it may take back from its siblings, 0 what its weight gives it. GuaranteedVCPU is kept for it even while
	// it has no use for it.
	DeservedVCPU, GuaranteedVCPU float64
	// Preempt lets its jobs of higher priority take the machines of those of lower, whose work is saved first.
	Preempt bool
	// Closed queues admit nothing.
	Closed bool
}

// Settings returns what can be set of the queue.
func (q Queue) Settings() QueueSettings {
	return QueueSettings{
		MaxRunning: q.MaxRunning, MaxVCPU: q.MaxVCPU, Description: q.Description, Parent: q.Parent, Weight: q.Weight,
		DeservedVCPU: q.DeservedVCPU, GuaranteedVCPU: q.GuaranteedVCPU, Preempt: q.Preempt, Closed: q.Closed,
	}
}

func (q *Queue) set(s QueueSettings) {
	q.MaxRunning, q.MaxVCPU, q.Description, q.Parent, q.Weight = s.MaxRunning, s.MaxVCPU, s.Description, s.Parent, s.Weight
	q.DeservedVCPU, q.GuaranteedVCPU, q.Preempt, q.Closed = s.DeservedVCPU, s.GuaranteedVCPU, s.Preempt, s.Closed
}

// decideSetQueue changes a queue's settings; what is in use stays as it is. It fails with ErrQueue.
func decideSetQueue(u reader, cfg Config, name string, s QueueSettings) (d Decision, err error) {
	q, err := queueOf(u, cfg, name)
	if err != nil {
		return d, err
	}
	q.set(s)
	d.put(queueKey(name), q)
	d.emit(events.CapacityFreed{Queue: name})
	if s.Parent == "" {
		return d, checkQueue(q)
	}
	all, err := list[Queue](u, partQueues, "", 0)
	if err != nil {
		return d, err
	}
	all = slices.DeleteFunc(all, func(x Queue) bool { return x.Name == name })
	t := forest(append(all, q))
	for _, x := range t {
		d.hold(queueKey(x.Name))
	}
	parent, ok := t[s.Parent]
	if !ok {
		return d, fmt.Errorf("%w: parent: there is no queue %q", ErrQueue, s.Parent)
	}
	if !parent.Inner {
		parent.Inner = true
		d.put(queueKey(parent.Name), *parent)
	}
	root, ok := rootOf(t, name)
	switch {
	case !ok:
		return d, fmt.Errorf("%w: parent: %q is below %q itself", ErrQueue, s.Parent, name)
	case len(treeOf(t, root)) > maxTree:
		return d, fmt.Errorf("%w: parent: %q would have more than %d queues below it", ErrQueue, root, maxTree-1)
	}
	return d, checkQueue(q)
}

// checkQueue looks for settings that contradict each other.
func checkQueue(q Queue) error {
	for _, x := range []struct {
		name  string
		value float64
	}{{"maxVCPU", q.MaxVCPU}, {"deservedVCPU", q.DeservedVCPU}, {"guaranteedVCPU", q.GuaranteedVCPU}, {"maxRunning", float64(q.MaxRunning)}, {"weight", float64(q.Weight)}} {
		if !(x.value >= 0) || math.IsInf(x.value, 0) {
			return fmt.Errorf("%w: %s: %v is not a quantity", ErrQueue, x.name, x.value)
		}
	}
	if q.MaxVCPU > 0 && max(q.DeservedVCPU, q.GuaranteedVCPU) > q.MaxVCPU {
		return fmt.Errorf("%w: maxVCPU: %g is less than what the queue deserves or is guaranteed, %g", ErrQueue, q.MaxVCPU, max(q.DeservedVCPU, q.GuaranteedVCPU))
	}
	return nil
}

// forest are queues by name.
func forest(queues []Queue) map[string]*Queue {
	t := make(map[string]*Queue, len(queues))
	for i := range queues {
		t[queues[i].Name] = &queues[i]
	}
	return t
}

// rootOf returns the queue at the top of one's tree; ok is false where there is none, as it is below itself.
func rootOf(t map[string]*Queue, name string) (root string, ok bool) {
	for range len(t) + 1 {
		q := t[name]
		if q == nil || q.Parent == "" || t[q.Parent] == nil {
			return name, true
		}
		name = q.Parent
	}
	return "", false
}

// treeOf are the queues of a tree, by name.
func treeOf(t map[string]*Queue, root string) []*Queue {
	var out []*Queue
	for _, q := range t {
		if r, ok := rootOf(t, q.Name); ok && r == root {
			out = append(out, q)
		}
	}
	slices.SortFunc(out, func(a, b *Queue) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// loadTree loads the queues that a session over one has to look at: those that share a quota with it.
func loadTree(u reader, cfg Config, name string) ([]*Queue, error) {
	q, err := queueOf(u, cfg, name)
	if err != nil {
		return nil, err
	}
	if q.Parent == "" && !q.Inner {
		return []*Queue{&q}, nil
	}
	all, err := list[Queue](u, partQueues, "", 0)
	if err != nil {
		return nil, err
	}
	t := forest(all)
	root, _ := rootOf(t, name)
	return treeOf(t, root), nil
}

// The resources that sessions count, in thousandths.
const (
	resTasks = iota
	resVCPU
)

const milli = 1000

// endless is what there is of what has no limit: far more than anybody can ask for, and far from where sums overflow.
const endless = int64(1) << 50

func amount(tasks, vcpu float64) scheduler.Vector {
	return scheduler.Vector{resTasks: int64(math.Round(tasks * milli)), resVCPU: int64(math.Round(vcpu * milli))}
}

// own names the part of a queue's jobs that wait in itself though it has queues below it.
const own = "/own jobs"

// snapshot describes the tree to the scheduler: one node, the clouds, that has as much as the tree may have in all; what is in use, as
// a job of each queue that can not be evicted; and what waits.
func snapshot(tree []*Queue, now time.Time) *scheduler.Snapshot {
	s := &scheduler.Snapshot{Now: now, Resources: []string{"tasks", "vCPU"}, Units: amount(1, 1), GPU: -1}
	names := map[string]bool{}
	for _, q := range tree {
		names[q.Name] = true
	}
	capacity := scheduler.Vector{resTasks: endless, resVCPU: endless}
	for _, q := range tree {
		x := scheduler.Queue{Name: q.Name, Weight: q.Weight, Closed: q.Closed, Guarantee: amount(0, q.GuaranteedVCPU)}
		bound := func(l *scheduler.Limit, r int, v float64) {
			if v > 0 {
				l.Set[r], l.Amount[r] = true, int64(math.Round(v*milli))
			}
		}
		bound(&x.Capability, resTasks, float64(q.MaxRunning))
		bound(&x.Capability, resVCPU, q.MaxVCPU)
		bound(&x.Deserved, resVCPU, q.DeservedVCPU)
		if names[q.Parent] {
			x.Parent = q.Parent
		} else { // the root: what it may have is what there is to share
			for r, set := range x.Capability.Set {
				if set {
					capacity[r] = x.Capability.Amount[r]
				}
			}
		}
		s.Queues = append(s.Queues, x)
		if q.Inner {
			s.Queues = append(s.Queues, scheduler.Queue{Name: q.Name + own, Parent: q.Name, Closed: q.Closed})
		}
	}
	s.Nodes = []scheduler.Node{{Name: "clouds", Capacity: capacity}}
	return s
}

// leaf names the queue of the scheduler that a queue's jobs wait in.
func (q *Queue) leaf() string {
	if q.Inner {
		return q.Name + own
	}
	return q.Name
}

// held is a job that stands for what is in use.
func held(id, queue string, use scheduler.Vector) scheduler.Job {
	return scheduler.Job{
		ID: id, Queue: queue, Phase: scheduler.Started, Kept: true,
		Tasks: []scheduler.Task{{ID: "held", Spec: &scheduler.Spec{Request: use}, State: scheduler.Running, Node: "clouds"}},
	}
}

// holdTree makes the commit void if the use of any queue of the tree that was not written has changed: what is left of a
// quota was computed from it.
func (d *Decision) holdTree(tree []*Queue) {
	for _, q := range tree {
		d.Holds = append(d.Holds, store.Key(queueKey(q.Name)))
	}
}
