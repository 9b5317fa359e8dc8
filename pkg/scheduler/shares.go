package scheduler

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
)

// shares divides the cluster between queues. The plugin proportion divides by weight: in each resource, the shares of
// siblings grow in proportion to their weights, up to the amount that each wants, until their parent's share is used
// up. The plugin capacity (fixed) uses the configured Deserved. With both, a queue's guarantee is kept for it and its
// capability is its maximum. Resources that no queue deserves are lent, and reclaimed later.
type shares struct {
	fixed bool
	s     *Session
	queue []queueShare // by index
}

type queueShare struct {
	deserved   Vector
	capability Limit
	share      float64 // largest ratio of allocated to deserved over all resources
	held       Vector  // the larger of allocated and guaranteed
	below      Vector  // sum of held of the children
	guarantees bool    // a child has a guarantee
	amount     Limit   // the maximum for all children together
}

func (p *shares) Open(s *Session) {
	p.guard(s)
	s.OrderQueues(func(a, b *QueueInfo) int { return cmp.Compare(p.queue[a.Index].share, p.queue[b.Index].share) })
	s.Admit(p.admit)
	s.Reclaimable(p.reclaimable)
}

// guard limits queues to their capability and protects guarantees.
func (p *shares) guard(s *Session) {
	p.s = s
	p.queue = make([]queueShare, len(s.Queues))
	root := s.Queues[0]
	p.queue[0].deserved = s.Total
	p.queue[0].amount = LimitOf(s.Total, maxResources)
	p.divide(root)
	for i := len(s.Queues) - 1; i > 0; i-- {
		q := s.Queues[i]
		p.queue[i].held = q.Allocated.Max(q.Queue.Guarantee)
		parent := &p.queue[q.Parent.Index]
		parent.below.Add(&p.queue[i].held)
		parent.guarantees = parent.guarantees || !q.Queue.Guarantee.IsZero()
		p.queue[i].share = Share(&q.Allocated, &p.queue[i].deserved)
	}
	s.Handle(Handler{func(t *TaskInfo) { p.update(t.Job.Queue) }, func(t *TaskInfo) { p.update(t.Job.Queue) }})
	s.Limit(p.limit)
}

func (p *shares) update(q *QueueInfo) {
	for ; q.Parent != nil; q = q.Parent {
		x := &p.queue[q.Index]
		x.share = Share(&q.Allocated, &x.deserved)
		if parent := &p.queue[q.Parent.Index]; parent.guarantees {
			held := q.Allocated.Max(q.Queue.Guarantee)
			parent.below.Sub(&x.held)
			parent.below.Add(&held)
			x.held = held
		}
	}
}

// divide sets the deserved amounts of a queue's children.
func (p *shares) divide(q *QueueInfo) {
	n := len(q.Children)
	if n == 0 {
		return
	}
	weights, low, high, part := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for r := range maxResources {
		left := p.queue[q.Index].deserved[r]
		for i, c := range q.Children {
			x := &c.Queue.Capability
			want := max(c.Allocated[r]+c.Wanted[r], c.Queue.Guarantee[r])
			if x.Set[r] {
				want = min(want, x.Amount[r])
			}
			weights[i], low[i], high[i] = weight(c.Queue.Weight), float64(min(c.Queue.Guarantee[r], want)),
				float64(want)
			if p.fixed && c.Queue.Deserved.Set[r] {
				low[i] = float64(c.Queue.Deserved.Amount[r])
				if x.Set[r] {
					low[i] = float64(min(c.Queue.Deserved.Amount[r], x.Amount[r]))
				}
				high[i] = low[i]
			}
		}
		raise(float64(left), weights, low, high, part)
		for i, c := range q.Children {
			p.queue[c.Index].deserved[r] = int64(part[i])
		}
	}
	for _, c := range q.Children {
		x := &p.queue[c.Index]
		x.capability, x.amount = c.Queue.Capability, c.Queue.Capability
		p.divide(c)
	}
}

// raise sets part[i] between low[i] and high[i], in proportion to the weights, so that the sum is left: max-min
// fairness. Every part gets at least low[i], even if the sum of the lows exceeds left.
func raise(left float64, weights, low, high, part []float64) {
	sum := func(level float64) (total float64) {
		for i := range part {
			part[i] = min(max(level*weights[i], low[i]), high[i])
			total += part[i]
		}
		return total
	}
	most := 0.0
	for i := range high {
		most = max(most, high[i]/weights[i])
	}
	if sum(most) <= left {
		return
	}
	a, b := 0.0, most
	for range 64 {
		if middle := (a + b) / 2; sum(middle) <= left {
			a = middle
		} else {
			b = middle
		}
	}
	sum(a)
	for i := range part {
		part[i] = math.Round(part[i]*64) / 64 // rounding error of the bisection
	}
}

// limit keeps a queue and its ancestors within their capability, and away from capacity that is guaranteed to others.
func (p *shares) limit(q *QueueInfo, request *Vector) (why string, of *QueueInfo) {
	for ; q.Parent != nil; q = q.Parent {
		x := &p.queue[q.Index]
		after := q.Allocated.Plus(*request)
		if ok, r := x.capability.Within(&after); !ok && request[r] > 0 {
			return fmt.Sprintf("queue %s holds %s of at most %s %s, and this needs %s more", q.Queue.Name,
				p.s.formatAmount(r, q.Allocated[r]), p.s.formatAmount(r, x.capability.Amount[r]), p.s.resource(r),
				p.s.formatAmount(r, request[r])), q
		}
		parent := &p.queue[q.Parent.Index]
		if !parent.guarantees {
			continue
		}
		held := after.Max(q.Queue.Guarantee)
		sum := parent.below.Minus(x.held).Plus(held)
		for r := range sum {
			if request[r] > 0 && parent.amount.Set[r] && sum[r] > parent.amount.Amount[r] &&
				after[r] > q.Queue.Guarantee[r] {
				return fmt.Sprintf("the remaining %s is guaranteed to other queues", p.s.resource(r)), q
			}
		}
	}
	return "", nil
}

func (s *Session) resource(r int) string {
	if r < len(s.Snapshot.Resources) {
		return s.Snapshot.Resources[r]
	}
	return fmt.Sprintf("resource %d", r)
}

// formatAmount returns an amount of a resource in the unit that users write.
func (s *Session) formatAmount(r int, amount int64) string {
	return strconv.FormatFloat(float64(amount)/float64(max(s.Snapshot.Units[r], 1)), 'f', -1, 64)
}

// admit rejects jobs whose minimum exceeds the capability of their queue or of an ancestor.
func (p *shares) admit(j *JobInfo) string {
	need := p.s.MinRequest(j)
	for q := j.Queue; q.Parent != nil; q = q.Parent {
		if ok, r := p.queue[q.Index].capability.Within(&need); !ok && need[r] > 0 {
			return fmt.Sprintf("it needs %s %s at once and queue %s may hold at most %s", p.s.formatAmount(r, need[r]),
				p.s.resource(r), q.Queue.Name, p.s.formatAmount(r, p.queue[q.Index].capability.Amount[r]))
		}
	}
	return ""
}

// reclaimable lets a queue that stays within what it deserves reclaim from queues that hold more than they deserve.
// Queues with different parents are compared at their sibling ancestors. Tasks are not divisible, so a queue may also
// exceed its deserved amount by one task, if the other queue exceeds its own by more and loses no more than that. The
// shares then come closer to the deserved ones, and the other queue has no reason to reclaim.
func (p *shares) reclaimable(t *TaskInfo, candidates []*TaskInfo) []*TaskInfo {
	return keep(candidates, func(v *TaskInfo) bool {
		mine, theirs := siblingAncestors(t.Job.Queue, v.Job.Queue)
		if mine == theirs {
			return false
		}
		after := mine.Allocated.Plus(t.Class.request)
		if !p.over(theirs, &t.Class.request) {
			return false
		}
		closer := p.excess(mine, &after, &t.Class.request) < p.excess(theirs, &theirs.Allocated,
			&t.Class.request)-closerEps &&
			v.expendable() && v.Class.request.FitsIn(&t.Class.request)
		if !closer && !p.covers(mine, &after, &t.Class.request) {
			return false
		}
		for q := v.Job.Queue; q.Parent != nil; q = q.Parent {
			rest := q.Allocated.Minus(v.Class.request)
			for r := range rest {
				if v.Class.request[r] > 0 && rest[r] < q.Queue.Guarantee[r] {
					return false
				}
			}
		}
		return true
	})
}

// closerEps is the smallest relevant difference between amounts, as a fraction of the cluster.
const closerEps = 1e-9

// excess returns by how much an amount exceeds the queue's deserved share, as a fraction of the cluster: the largest
// value over the requested resources.
func (p *shares) excess(q *QueueInfo, amount, request *Vector) float64 {
	most := math.Inf(-1)
	for r := range amount {
		if request[r] > 0 && p.s.Total[r] > 0 {
			most = max(most, float64(amount[r]-p.queue[q.Index].deserved[r])/float64(p.s.Total[r]))
		}
	}
	return most
}

// covers reports whether the amount is within the queue's deserved share, in the requested resources.
func (p *shares) covers(q *QueueInfo, amount, request *Vector) bool {
	deserved := &p.queue[q.Index].deserved
	for r := range amount {
		if request[r] > 0 && amount[r] > deserved[r] {
			return false
		}
	}
	return true
}

// over reports whether the queue holds more than it deserves of any requested resource.
func (p *shares) over(q *QueueInfo, request *Vector) bool {
	deserved := &p.queue[q.Index].deserved
	for r := range request {
		if request[r] > 0 && q.Allocated[r] > deserved[r] {
			return true
		}
	}
	return false
}
