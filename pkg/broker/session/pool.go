package session

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// pooled is where a task is placed on machines that are there already.
type pooled struct {
	pool    record.Pool
	hosts   []string          // by rank
	hold    apitypes.Capacity // on each
	offer   apitypes.Offer
	hours   float64 // expected there
	instead apitypes.Instead
	spots   []record.Spot // of those hosts
	// redeemed says that the machines were kept for it.
	redeemed bool
}

// toPools places the tasks that a session has bound on machines of pools, as far as there is room and it is cheaper
// than what is planned for them. The others are bought, but for those that await room that is being made. What is
// placed is committed with the admission itself, on the condition that the partitions are as they were seen. It returns
// those that go.
func (s *Session) toPools(bound []*admission) (rest []*admission, err error) {
	if len(bound) == 0 {
		return nil, nil
	}
	pools, err := s.seen()
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(pools, func(x, y record.PoolSeen) int {
		return cmp.Or(cmp.Compare(x.USDPerHour, y.USDPerHour), cmp.Compare(x.Name, y.Name))
	})
	if err := s.redeem(pools, bound); err != nil {
		return nil, err
	}
	for i := range pools {
		if err := s.toPool(&pools[i], bound); err != nil {
			return nil, err
		}
	}
	if err := s.makeRoom(pools, bound); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(bound, func(a *admission) bool { return a.awaits }), nil
}

// toPool places tasks in one pool. Which partitions they are placed in together is parsync's policy: all of them, for
// the best place, while tasks do not wait; one after the other, the one looked at last first, for the fewest conflicts,
// when they do.
func (s *Session) toPool(p *record.PoolSeen, bound []*admission) error {
	var wants []*want
	waited := time.Duration(0)
	for _, a := range bound {
		w, err := s.want(p, a)
		if err != nil {
			return err
		}
		if w != nil {
			waited = max(waited, s.u.Now.Sub(a.waiting.Since))
			wants = append(wants, w)
		}
	}
	together := len(p.Order)
	if cmp.Or(s.Config.Rotates, parsync.Adaptive).Prefer(waited, 0) == parsync.LatencyFirst {
		together = 1
	}
	for group := range slices.Chunk(p.Order, max(together, 1)) {
		if len(wants) == 0 {
			break
		}
		if err := s.place(p, group, wants); err != nil {
			return err
		}
		wants = slices.DeleteFunc(wants, func(w *want) bool { return w.a.pool != nil })
	}
	return nil
}

// roomFor is how many items a transaction is to have left for what one admission writes beside partitions, and for the
// queues it holds.
const roomFor = 12

// take takes the machines that a task was placed on, as its admission is committed. It returns where, or nil where
// there is no room any more, of the machines or of the transaction: then the task is bought as planned.
func (s *Session) take(d *record.Decision, a *admission) (*pooled, error) {
	p := a.pool
	if p == nil {
		return nil, nil
	}
	cluster := record.ClusterID(a.job.ID, a.waiting.Task, a.task.Attempt+1)
	var taken []record.Write
	fresh := 0
	for _, index := range p.pool.PartitionsOf(p.hosts) {
		key := record.PartitionKey(p.pool.Name, index)
		part, found, err := book.Get[record.Partition](s.u, key)
		if err != nil || !found || s.u.Size(key) > record.MaxPartitionBytes {
			return nil, err
		}
		if !s.u.Writes(key) {
			fresh++
		}
		for rank, host := range p.hosts {
			if p.pool.PartitionOf(host) != index {
				continue
			}
			i, found := part.Machine(host)
			if !found {
				return nil, nil
			}
			m := &part.Machines[i]
			if left := m.Kept(a.claim(), s.u.Now); !record.Fits(p.hold, left.Free()) || len(left.Uses) >= record.MaxUses {
				return nil, nil
			}
			m.Forget(a.claim(), s.u.Now)
			m.Uses = append(m.Uses, record.PoolUse{Cluster: cluster, Rank: rank, Hold: p.hold,
				Devices: m.Devices(p.hold), Since: s.u.Now})
		}
		taken = append(taken, record.Write{Key: key, Value: part})
	}
	if s.u.Items()+fresh > record.MaxItems-roomFor {
		return nil, nil
	}
	d.Writes = append(d.Writes, taken...)
	return p, nil
}

// tell has the records of an admitted task say where it was placed, as people do: pool/lab/m1, pool/lab/m1+m2.
func (p *pooled) tell(task *record.Task, attempt *apitypes.Attempt) {
	attempt.Offer, attempt.OfferID = p.offer, apitypes.PoolCloud+"/"+p.pool.Name+"/"+strings.Join(p.hosts, "+")
	attempt.Instead, attempt.Place, attempt.Hosts = p.instead, p.pool.Place, p.hosts
	task.Hours = p.hours
}
