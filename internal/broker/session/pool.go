package session

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
)

// pooled is the placement of a task on existing machines of a pool.
type pooled struct {
	pool    record.Pool
	hosts   []string          // by rank
	hold    apitypes.Capacity // on each
	offer   apitypes.Offer
	hours   float64 // expected there
	instead apitypes.Instead
	spots   []record.Spot // of those hosts
	// redeemed means that the machines were kept for this task.
	redeemed bool
	worker   *record.PoolWorker // the worker, if the pool is that of the task's job
}

// toPools places bound tasks on machines of pools, if there is room and the pool is cheaper than the planned offer.
// Machines are bought for the other tasks, except for those that wait for room that is being made. A placement is
// committed with the admission, on the condition that the partitions have not changed. It returns the tasks to admit
// now.
func (s *Session) toPools(bound []*admission) (rest []*admission, err error) {
	if len(bound) == 0 {
		return nil, nil
	}
	if err := s.toWorkers(bound); err != nil {
		return nil, err
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

// toPool places tasks in one pool. It follows the policy of package parsync. If tasks have not waited long, it
// considers all partitions at once and finds the best places. Otherwise it considers one partition after the other,
// the most recently read first, because that causes the fewest conflicts.
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

// roomFor is the number of items that must remain free in a transaction for the other writes of an admission and for
// the queues that it holds.
const roomFor = 12

// takePlaced assigns the machines to a task when its admission is committed. It returns the placement, or nil if the
// machines or the transaction have no room any more. Machines are then bought for the task as planned.
func (s *Session) takePlaced(d *record.Decision, a *admission) (*pooled, error) {
	p := a.pool
	if p == nil {
		return nil, nil
	}
	cluster := record.ClusterID(a.job.ID, a.waiting.Task, a.task.Attempt+1)
	var taken []record.Write
	fresh := 0
	for _, index := range p.pool.PartitionsOf(p.hosts) {
		key := record.PartitionKey(p.pool.Name, index)
		part, found, err := recordcache.Get[record.Partition](s.u, key)
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
			if left := m.WithPromises(
				a.claim(),
				s.u.Now,
			); !record.Fits(p.hold, left.Free()) ||
				len(left.Uses) >= record.MaxUses {
				return nil, nil
			}
			m.Forget(a.claim(), s.u.Now)
			use := record.PoolUse{Cluster: cluster, Rank: rank, Hold: p.hold, Devices: m.Devices(p.hold),
				Since: s.u.Now}
			if m.IsWorker() {
				a.crew.stale = true
				m.Worker.IdleSince, use.Since = time.Time{}, time.Time{}
			}
			m.Uses = append(m.Uses, use)
		}
		taken = append(taken, record.Write{Key: key, Value: part})
	}
	if s.u.Items()+fresh > record.MaxItems-roomFor {
		return nil, nil
	}
	d.Writes = append(d.Writes, taken...)
	return p, nil
}

// record writes the placement into the records of an admitted task, for example as pool/lab/m1 or pool/lab/m1+m2.
func (p *pooled) record(task *record.Task, attempt *apitypes.Attempt) {
	attempt.Offer, attempt.OfferID = p.offer, apitypes.PoolCloud+"/"+p.pool.Name+"/"+strings.Join(p.hosts, "+")
	attempt.Instead, attempt.Place, attempt.Hosts = p.instead, p.pool.Place, p.hosts
	if p.worker != nil {
		attempt.Place, attempt.OfferID = record.Place(p.worker.Offer), p.worker.OfferID
	}
	task.Hours = p.hours
}
