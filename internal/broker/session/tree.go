package session

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/base/fault"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// QueueOf loads a queue. A queue without a record has the default settings.
func QueueOf(u recordcache.Reader, cfg config.Config, name string) (apitypes.Queue, error) {
	q, found, err := recordcache.Get[apitypes.Queue](u, record.QueueKey(name))
	if !found {
		q = cfg.DefaultQueue
		q.Name = name
	}
	return q, err
}

// DecideSetQueue changes the settings of a queue, but not its use. It fails with ErrQueue.
func DecideSetQueue(u recordcache.Reader, cfg config.Config, name string,
	s record.QueueSettings) (d record.Decision, err error) {
	q, err := QueueOf(u, cfg, name)
	if err != nil {
		return d, err
	}
	record.SetQueue(&q, s)
	d.Put(record.QueueKey(name), q)
	d.Emit(events.CapacityFreed{Queue: name})
	if err := record.CheckSettings(s); err != nil {
		return d, err
	}
	if s.Parent == "" && !q.Inner {
		if len(record.Bounded([]*apitypes.Queue{&q})) > record.MaxBounded {
			return d, tooMany(name)
		}
		return d, record.CheckQueue(q)
	}
	all, err := recordcache.List[apitypes.Queue](u, record.PartQueues, "", 0)
	if err != nil {
		return d, err
	}
	all = slices.DeleteFunc(all, func(x apitypes.Queue) bool { return x.Name == name })
	t := record.Forest(append(all, q))
	for _, x := range t {
		d.Hold(record.QueueKey(x.Name))
	}
	parent, ok := t[s.Parent]
	if !ok && s.Parent != "" {
		return d, fmt.Errorf("%w: parent: there is no queue %q", record.ErrQueue, s.Parent)
	}
	if ok && !parent.Inner {
		parent.Inner = true
		d.Put(record.QueueKey(parent.Name), *parent)
	}
	root, ok := record.RootOf(t, name)
	switch {
	case !ok:
		return d, fmt.Errorf("%w: parent: %q is below %q itself", record.ErrQueue, s.Parent, name)
	case len(record.Bounded(record.TreeOf(t, root))) > record.MaxBounded:
		return d, tooMany(root)
	case len(record.TreeOf(t, root)) > record.MaxTree:
		return d, fmt.Errorf("%w: parent: %q would have more than %d queues below it", record.ErrQueue, root,
			record.MaxTree-1)
	}
	return d, record.CheckQueue(q)
}

// tooMany returns the error for a tree whose queues limit more kinds of resources than a session can count.
func tooMany(root string) error {
	return fmt.Errorf("%w: max: %q and the queues below it would limit more than %d resources in addition to vCPUs",
		record.ErrQueue, root, record.MaxBounded)
}

// DecideSuspendQueue makes a queue and those below it admit nothing. It emits QueueSuspended; the handlers of that
// event deal with running tasks. For a suspended queue, it only changes drain from false to true. It fails with
// ErrNotFound for a queue without a record.
func DecideSuspendQueue(u recordcache.Reader, cfg config.Config, name string, s apitypes.Suspension,
	key string) (d record.Decision, err error) {
	q, found, err := recordcache.Get[apitypes.Queue](u, record.QueueKey(name))
	if err != nil {
		return d, err
	}
	if !found && name != record.DefaultQueueName {
		return d, record.NotFound(nil, "queue "+name)
	}
	if !found {
		q = cfg.DefaultQueue
		q.Name = name
	}
	if !record.FirstHeard(&q.Heard, key) {
		return d, nil
	}
	if q.Closed && !q.Suspended.Since.IsZero() {
		if q.Suspended.Drain || !s.Drain {
			d.Put(record.QueueKey(name), q)
			return d, nil
		}
		s.By, s.Since, s.Reason = q.Suspended.By, q.Suspended.Since, q.Suspended.Reason
	}
	q.Closed, q.Suspended = true, s
	d.Put(record.QueueKey(name), q)
	d.Emit(events.QueueSuspended{Queue: name, By: s.By, Reason: s.Reason, Drain: s.Drain})
	return d, nil
}

// DecideResumeQueue lets a suspended or closed queue admit again. It fails with ErrNotFound.
func DecideResumeQueue(u recordcache.Reader, name, by, key string) (d record.Decision, err error) {
	q, found, err := recordcache.Get[apitypes.Queue](u, record.QueueKey(name))
	switch {
	case err != nil:
		return d, err
	case !found && name != record.DefaultQueueName:
		return d, record.NotFound(nil, "queue "+name)
	case !found, !record.FirstHeard(&q.Heard, key):
		return d, nil // a queue that was never used is not closed
	}
	if q.Closed {
		d.Emit(events.QueueResumed{Queue: name, By: by})
	}
	q.Closed, q.Suspended = false, apitypes.Suspension{}
	d.Put(record.QueueKey(name), q)
	return d, nil
}

// byName indexes queues by name.
func byName(queues []*apitypes.Queue) map[string]*apitypes.Queue {
	out := make(map[string]*apitypes.Queue, len(queues))
	for _, q := range queues {
		out[q.Name] = q
	}
	return out
}

// Tree loads the queues that a session for one queue has to consider: all queues that share a quota with it.
func Tree(u recordcache.Reader, cfg config.Config, name string) ([]*apitypes.Queue, error) {
	if q, found, err := recordcache.Look[apitypes.Queue](u, record.QueueKey(name)); err != nil {
		return nil, err
	} else if !found || q.Parent == "" && !q.Inner {
		q, err := QueueOf(u, cfg, name)
		return []*apitypes.Queue{&q}, err
	}
	all, err := recordcache.List[apitypes.Queue](u, record.PartQueues, "", 0)
	if err != nil {
		return nil, err
	}
	t := record.Forest(all)
	root, _ := record.RootOf(t, name)
	return record.TreeOf(t, root), nil
}

// bounded reports whether the queue or one above it has a limit.
func (s *Session) bounded(q *apitypes.Queue) bool {
	return slices.ContainsFunc(s.above(q), func(q *apitypes.Queue) bool {
		return q.MaxRunning > 0 || q.MaxVCPU > 0 || len(q.Max) > 0
	})
}

// above returns the queue itself and those above it.
func (s *Session) above(q *apitypes.Queue) []*apitypes.Queue {
	var out []*apitypes.Queue
	for ; q != nil && len(out) <= record.MaxTree; q = s.queues[q.Parent] {
		out = append(out, q)
	}
	return out
}

// closed returns the queue that admits nothing: q or one above it. It returns nil if all are open.
func (s *Session) closed(q *apitypes.Queue) *apitypes.Queue {
	for _, q := range s.above(q) {
		if q.Closed {
			return q
		}
	}
	return nil
}

// excess is the limit that a task or gang exceeds even when nothing is in use.
type excess struct {
	queue      *apitypes.Queue // the queue that has the limit
	resource   string
	need, most float64
}

// message describes the needed and the allowed amount.
func (b *excess) message() string {
	if b.resource == apitypes.USDPerMonth {
		return fmt.Sprintf("%s USD and queue %s allows %s USD a month", readable.USD(b.need), b.queue.Name,
			readable.USD(b.most))
	}
	return readable.Amount(b.resource, b.need) + " and queue " + b.queue.Name + " allows " + fault.Number(b.most)
}

// beyond returns the first resource of which a task needs more than a queue could have if nothing were in use: the
// quota of the queue and of those above it, less the guarantees of other queues below them. It returns nil if there
// is none.
func (s *Session) beyond(q *apitypes.Queue, need apitypes.Amounts) *excess {
	for _, name := range slices.Sorted(maps.Keys(need)) {
		of, most := s.most(q, name)
		if need[name] > most+record.CapacityEps {
			return &excess{of, name, need[name], most}
		}
	}
	return nil
}

// most returns the maximum amount of a resource that a queue could have if nothing were in use, and the queue, it or
// one above it, that sets this limit.
func (s *Session) most(q *apitypes.Queue, name string) (of *apitypes.Queue, most float64) {
	of, most = q, math.Inf(1)
	below := q
	for _, above := range s.above(q) {
		if left, bounded := above.Limits()[name]; bounded {
			for _, x := range s.tree {
				if x.Parent == above.Name && x != below {
					left -= x.GuaranteedAmounts()[name]
				}
			}
			if above != q {
				left = max(left, below.GuaranteedAmounts()[name])
			}
			if left < most {
				of, most = above, left
			}
		}
		below = above
	}
	return of, most
}
