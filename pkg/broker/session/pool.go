package session

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// pooled is where a task is placed on machines that are there already.
type pooled struct {
	pool    record.Pool
	hosts   []string        // by rank
	hold    record.Capacity // on each
	offer   cloud.Offer
	hours   float64 // expected there
	instead record.Instead
}

// id names the machines as people do: pool/lab/m1, pool/lab/m1+m2.
func (p *pooled) id() string {
	return record.PoolCloud + "/" + p.pool.Name + "/" + strings.Join(p.hosts, "+")
}

// toPools places the tasks that a session has bound on machines of pools, as far as there is room and it is cheaper
// than what is planned for them. The others are bought. What is placed is committed with the admission itself, on the
// condition that the partitions are as they were seen.
func (s *Session) toPools(binds []scheduler.Bind, byTask map[string]admission) error {
	if len(binds) == 0 {
		return nil
	}
	pools, err := s.seen()
	if err != nil || len(pools) == 0 {
		return err
	}
	slices.SortStableFunc(pools, func(x, y record.PoolSeen) int {
		return cmp.Or(cmp.Compare(x.USDPerHour, y.USDPerHour), cmp.Compare(x.Name, y.Name))
	})
	left := make([]admission, 0, len(binds))
	for _, bind := range binds {
		left = append(left, byTask[taskOf(bind)])
	}
	for i := range pools {
		if left, err = s.toPool(&pools[i], left, byTask); err != nil {
			return err
		}
	}
	return nil
}

// toPool places tasks in one pool and returns those that are not. Which partitions they are placed in together is
// parsync's policy: all of them, for the best place, while tasks do not wait; one after the other, the one looked at
// last first, for the fewest conflicts, when they do.
func (s *Session) toPool(p *record.PoolSeen, left []admission, byTask map[string]admission) ([]admission, error) {
	var wants []*want
	var others []admission
	waited := time.Duration(0)
	for _, a := range left {
		w, err := s.want(p, a)
		if err != nil {
			return nil, err
		}
		if w == nil {
			others = append(others, a)
			continue
		}
		waited = max(waited, s.u.Now.Sub(a.waiting.Since))
		wants = append(wants, w)
	}
	groups := [][]int{p.Order}
	if parsync.Adaptive.Prefer(waited, 0) == parsync.LatencyFirst {
		groups = nil
		for _, i := range p.Order {
			groups = append(groups, []int{i})
		}
	}
	for _, group := range groups {
		if len(wants) == 0 {
			break
		}
		placed, err := s.place(p, group, wants)
		if err != nil {
			return nil, err
		}
		rest := wants[:0]
		for i, w := range wants {
			if placed[i] == nil {
				rest = append(rest, w)
				continue
			}
			w.a.pool = placed[i]
			byTask[w.key()] = w.a
		}
		wants = rest
	}
	for _, w := range wants {
		others = append(others, w.a)
	}
	return others, nil
}

// roomFor is how many items a transaction is to have left for what one admission writes beside partitions, and for the
// queues it holds.
const roomFor = 12

// take takes the machines that a task was placed on, as its admission is committed. It returns where, or nil where
// there is no room any more, of the machines or of the transaction: then the task is bought as planned.
func (s *Session) take(d *record.Decision, a admission) (*pooled, error) {
	p := a.pool
	if p == nil {
		return nil, nil
	}
	indexes := p.pool.PartitionsOf(p.hosts)
	parts := map[int]*record.Partition{}
	fresh := 0
	for _, i := range indexes {
		key := record.PartitionKey(p.pool.Name, i)
		part, found, err := book.Get[record.Partition](s.u, key)
		if err != nil || !found {
			return nil, err
		}
		parts[i] = &part
		if !s.u.Writes(key) {
			fresh++
		}
		if s.u.Size(key) > record.MaxPartitionBytes {
			return nil, nil
		}
	}
	if s.u.Items()+fresh > record.MaxItems-roomFor {
		return nil, nil
	}
	cluster := record.ClusterID(a.job.ID, a.waiting.Task, a.task.Attempt+1)
	for rank, host := range p.hosts {
		part := parts[p.pool.PartitionOf(host)]
		i, found := part.Machine(host)
		if !found || !p.hold.Fits(part.Machines[i].Free()) || len(part.Machines[i].Uses) >= record.MaxUses {
			return nil, nil
		}
		m := &part.Machines[i]
		m.Uses = append(m.Uses, record.PoolUse{Cluster: cluster, Rank: rank, Hold: p.hold, Devices: m.Devices(p.hold),
			Since: s.u.Now})
	}
	for _, i := range indexes {
		d.Put(record.PartitionKey(p.pool.Name, i), *parts[i])
	}
	return p, nil
}

// tell has the records of an admitted task say where it was placed.
func (p *pooled) tell(task *record.Task, attempt *record.Attempt) {
	attempt.Offer, attempt.OfferID, attempt.Hosts = p.offer, p.id(), p.hosts
	attempt.Instead, attempt.Place = p.instead, p.pool.Place
	task.Hours = p.hours
}
