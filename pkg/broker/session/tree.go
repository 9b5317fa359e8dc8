package session

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// QueueOf loads a queue, or what one starts as that nobody configured.
func QueueOf(u book.Reader, cfg record.Config, name string) (record.Queue, error) {
	q, found, err := book.Get[record.Queue](u, record.QueueKey(name))
	if !found {
		q = cfg.DefaultQueue
		q.Name = name
	}
	return q, err
}

// DecideSetQueue changes a queue's settings; what is in use stays as it is. It fails with ErrQueue.
func DecideSetQueue(u book.Reader, cfg record.Config, name string,
	s record.QueueSettings) (d record.Decision, err error) {
	q, err := QueueOf(u, cfg, name)
	if err != nil {
		return d, err
	}
	q.Set(s)
	d.Put(record.QueueKey(name), q)
	d.Emit(events.CapacityFreed{Queue: name})
	if s.Parent == "" {
		return d, record.CheckQueue(q)
	}
	all, err := book.List[record.Queue](u, record.PartQueues, "", 0)
	if err != nil {
		return d, err
	}
	all = slices.DeleteFunc(all, func(x record.Queue) bool { return x.Name == name })
	t := record.Forest(append(all, q))
	for _, x := range t {
		d.Hold(record.QueueKey(x.Name))
	}
	parent, ok := t[s.Parent]
	if !ok {
		return d, fmt.Errorf("%w: parent: there is no queue %q", record.ErrQueue, s.Parent)
	}
	if !parent.Inner {
		parent.Inner = true
		d.Put(record.QueueKey(parent.Name), *parent)
	}
	root, ok := record.RootOf(t, name)
	switch {
	case !ok:
		return d, fmt.Errorf("%w: parent: %q is below %q itself", record.ErrQueue, s.Parent, name)
	case len(record.TreeOf(t, root)) > record.MaxTree:
		return d, fmt.Errorf("%w: parent: %q would have more than %d queues below it", record.ErrQueue, root,
			record.MaxTree-1)
	}
	return d, record.CheckQueue(q)
}

// loadTree loads the queues that a session over one has to look at: those that share a quota with it.
func loadTree(u book.Reader, cfg record.Config, name string) ([]*record.Queue, error) {
	q, err := QueueOf(u, cfg, name)
	if err != nil {
		return nil, err
	}
	if q.Parent == "" && !q.Inner {
		return []*record.Queue{&q}, nil
	}
	all, err := book.List[record.Queue](u, record.PartQueues, "", 0)
	if err != nil {
		return nil, err
	}
	t := record.Forest(all)
	root, _ := record.RootOf(t, name)
	return record.TreeOf(t, root), nil
}

const milli = 1000

// endless is what there is of what has no limit: far more than anybody can ask for, and far from where sums overflow.
const endless = int64(1) << 50

func amount(tasks, vcpu float64) scheduler.Vector {
	return scheduler.Vector{record.ResTasks: int64(math.Round(tasks * milli)),
		record.ResVCPU: int64(math.Round(vcpu * milli))}
}

// snapshot describes the tree to the scheduler: one node, the clouds, that has as much as the tree may have in all;
// what is in use, as a job of each queue that can not be evicted; and what waits.
func snapshot(tree []*record.Queue, now time.Time) *scheduler.Snapshot {
	s := &scheduler.Snapshot{Now: now, Resources: []string{"tasks", "vCPU"}, Units: amount(1, 1), GPU: -1}
	names := map[string]bool{}
	for _, q := range tree {
		names[q.Name] = true
	}
	capacity := scheduler.Vector{record.ResTasks: endless, record.ResVCPU: endless}
	for _, q := range tree {
		x := scheduler.Queue{Name: q.Name, Weight: q.Weight, Closed: q.Closed, Guarantee: amount(0, q.GuaranteedVCPU)}
		bound := func(l *scheduler.Limit, r int, v float64) {
			if v > 0 {
				l.Set[r], l.Amount[r] = true, int64(math.Round(v*milli))
			}
		}
		bound(&x.Capability, record.ResTasks, float64(q.MaxRunning))
		bound(&x.Capability, record.ResVCPU, q.MaxVCPU)
		bound(&x.Deserved, record.ResVCPU, q.DeservedVCPU)
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
			s.Queues = append(s.Queues, scheduler.Queue{Name: q.Name + record.Own, Parent: q.Name, Closed: q.Closed})
		}
	}
	s.Nodes = []scheduler.Node{{Name: "clouds", Capacity: capacity}}
	return s
}

// held is a job that stands for what is in use.
func held(id, queue string, use scheduler.Vector) scheduler.Job {
	return scheduler.Job{
		ID: id, Queue: queue, Phase: scheduler.Started, Kept: true,
		Tasks: []scheduler.Task{{ID: "held", Spec: &scheduler.Spec{Request: use}, State: scheduler.Running,
			Node: "clouds"}},
	}
}
