package session

import (
	"fmt"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
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

// byName are queues by name.
func byName(queues []*record.Queue) map[string]*record.Queue {
	out := make(map[string]*record.Queue, len(queues))
	for _, q := range queues {
		out[q.Name] = q
	}
	return out
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

// bounded says whether anything limits what a queue may have.
func (s *Session) bounded(q *record.Queue) bool {
	return slices.ContainsFunc(s.above(q), func(q *record.Queue) bool { return q.MaxRunning > 0 || q.MaxVCPU > 0 })
}

// above are a queue and those above it.
func (s *Session) above(q *record.Queue) []*record.Queue {
	var out []*record.Queue
	for ; q != nil && len(out) <= record.MaxTree; q = s.queues[q.Parent] {
		out = append(out, q)
	}
	return out
}

// most returns how many vCPUs a queue could have if nothing were in use, and which of those above it allows no more:
// its quota, less what is guaranteed to others below it.
func (s *Session) most(q *record.Queue) (of *record.Queue, vcpu float64) {
	of, vcpu = q, math.Inf(1)
	below := q
	for _, above := range s.above(q) {
		if above.MaxVCPU > 0 {
			left := above.MaxVCPU
			for _, x := range s.tree {
				if x.Parent == above.Name && x != below {
					left -= x.GuaranteedVCPU
				}
			}
			if above != q {
				left = max(left, below.GuaranteedVCPU)
			}
			if left < vcpu {
				of, vcpu = above, left
			}
		}
		below = above
	}
	return of, vcpu
}

// use is what a queue holds with those below it.
func (s *Session) use(q *record.Queue) (running int, vcpu float64) {
	running, vcpu = q.Running, q.VCPU
	for _, x := range s.tree {
		if x.Parent == q.Name && x != q {
			r, v := s.use(x)
			running, vcpu = running+r, vcpu+v
		}
	}
	return running, vcpu
}
