package broker

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/pkg/parsync"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// pooled is where a task is placed on machines that are there already.
type pooled struct {
	pool    Pool
	hosts   []string // by rank
	hold    Capacity // on each
	offer   cloud.Offer
	hours   float64 // expected there
	instead Instead
}

// Instead is what an attempt would have bought, had there been no room in a pool.
type Instead struct {
	Offer string  `json:"offer"` // ID of the offer planned
	USD   float64 `json:"usd"`   // expected of it, with what it costs to move the data there
}

// id names the machines as people do: pool/lab/m1, pool/lab/m1+m2.
func (p *pooled) id() string {
	return PoolCloud + "/" + p.pool.Name + "/" + strings.Join(p.hosts, "+")
}

// toPools places the tasks that a session has bound on machines of pools, as far as there is room and it is cheaper than what is planned for them.
// The others are bought. What is placed is committed with the admission itself, on the condition that the partitions are as they were seen.
func (s *scheduling) toPools(binds []scheduler.Bind, byTask map[string]admission) error {
	if len(binds) == 0 {
		return nil
	}
	pools, err := s.seen()
	if err != nil || len(pools) == 0 {
		return err
	}
	slices.SortStableFunc(pools, func(x, y poolSeen) int {
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

// toPool places tasks in one pool and returns those that are not. Which partitions they are placed in together is parsync's policy: all of them, for the
// best place, while tasks do not wait; one after the other, the one looked at last first, for the fewest conflicts, when they do.
func (s *scheduling) toPool(p *poolSeen, left []admission, byTask map[string]admission) ([]admission, error) {
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
		waited = max(waited, s.u.now.Sub(a.waiting.Since))
		wants = append(wants, w)
	}
	groups := [][]int{p.order}
	if parsync.Adaptive.Prefer(waited, 0) == parsync.LatencyFirst {
		groups = nil
		for _, i := range p.order {
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

// roomFor is how many items a transaction is to have left for what one admission writes beside partitions, and for the queues it holds.
const roomFor = 12

// take takes the machines that a task was placed on, as its admission is committed. It returns where, or nil where there is no room any more, of the machines
// or of the transaction: then the task is bought as planned.
func (s *scheduling) take(d *Decision, a admission) (*pooled, error) {
	p := a.pool
	if p == nil {
		return nil, nil
	}
	indexes := p.pool.partitionsOf(p.hosts)
	parts := map[int]*Partition{}
	fresh := 0
	for _, i := range indexes {
		key := partitionKey(p.pool.Name, i)
		part, found, err := get[Partition](s.u, key)
		if err != nil || !found {
			return nil, err
		}
		parts[i] = &part
		if !s.u.writes(key) {
			fresh++
		}
		if s.u.size(key) > maxPartitionBytes {
			return nil, nil
		}
	}
	if s.u.items()+fresh > store.MaxItems-roomFor {
		return nil, nil
	}
	cluster := ClusterID(a.job.ID, a.waiting.Task, a.task.Attempt+1)
	for rank, host := range p.hosts {
		part := parts[p.pool.partitionOf(host)]
		i, found := part.machine(host)
		if !found || !p.hold.fits(part.Machines[i].free()) || len(part.Machines[i].Uses) >= maxUses {
			return nil, nil
		}
		m := &part.Machines[i]
		m.Uses = append(m.Uses, PoolUse{Cluster: cluster, Rank: rank, Hold: p.hold, Devices: m.devices(p.hold), Since: s.u.now})
	}
	for _, i := range indexes {
		d.put(partitionKey(p.pool.Name, i), *parts[i])
	}
	return p, nil
}

// tell has the records of an admitted task say where it was placed.
func (p *pooled) tell(task *Task, attempt *Attempt) {
	attempt.Offer, attempt.OfferID, attempt.Hosts = p.offer, p.id(), p.hosts
	attempt.Instead, attempt.Place = p.instead, p.pool.Place
	task.Hours = p.hours
}

// free is what a machine has left.
func (m PoolMachine) free() Capacity {
	c, used := m.Capacity, m.used()
	c.CPUs -= used.CPUs
	c.MemoryGiB -= used.MemoryGiB
	c.Accelerators -= used.Accelerators
	return c
}

// fits says whether a machine that has so much left can hold so much more.
func (c Capacity) fits(free Capacity) bool {
	return c.CPUs <= free.CPUs+capacityEps && c.MemoryGiB <= free.MemoryGiB+capacityEps &&
		(c.Accelerators == 0 || strings.EqualFold(c.Accelerator, free.Accelerator) && c.Accelerators <= free.Accelerators+capacityEps)
}

// capacityEps is the rounding that a comparison of capacities forgives: far below what anybody asks for.
const capacityEps = 1e-6

// devices are the lowest free indexes of a machine's accelerators for a task that holds so many.
func (m PoolMachine) devices(hold Capacity) []int {
	taken := map[int]bool{}
	for _, use := range m.Uses {
		for _, i := range use.Devices {
			taken[i] = true
		}
	}
	var out []int
	for i := 0; len(out) < int(math.Round(hold.Accelerators)) && i < int(m.Capacity.Accelerators); i++ {
		if !taken[i] {
			out = append(out, i)
		}
	}
	return out
}

// usable says whether a machine may be given something new.
func (m PoolMachine) usable(seen time.Time, t PoolTimes, now time.Time) bool {
	return !m.Draining && !m.Leaving && !now.Before(m.BlockedUntil) && now.Sub(seen) <= t.StaleAfter && len(m.Uses) < maxUses
}

// suits says whether a machine of a pool is one that an alternative of a task allows. What a pool has is not bought on any market, so either market's
// tasks may go there.
func (p *Pool) suits(m *PoolMachine, r *dag.Resources) bool {
	at, region, _ := strings.Cut(p.Place, ":")
	arch := m.Labels[LabelArch]
	switch {
	case r.Service != "" || r.Zone != "" || r.Image != "":
		return false // it is none of the cloud's, and has what it has
	case r.Cloud != "" && r.Cloud != at && r.Cloud != PoolCloud, r.Region != "" && r.Region != region:
		return false
	case r.InstanceType != "" && r.InstanceType != m.Type:
		return false
	case r.Arch != "" && r.Arch != arch:
		return false
	case r.Accelerator != "" && (!strings.EqualFold(r.Accelerator, m.Capacity.Accelerator) || accelerators(r) > m.Capacity.Accelerators):
		return false
	}
	return r.CPUs.Min <= m.Capacity.CPUs && r.Memory.Min <= m.Capacity.MemoryGiB
}

// LabelArch is the label of a machine that says what its processors are: amd64 or arm64.
const LabelArch = "arch"

// accelerators is how many whole ones an alternative asks for.
func accelerators(r *dag.Resources) float64 {
	if r.Accelerator == "" {
		return 0
	}
	return math.Ceil(max(r.AcceleratorCount, 1))
}

// allowed says whether a job may run where a pool is.
func (p *Pool) allowed(regions []string) bool {
	at, region, _ := strings.Cut(p.Place, ":")
	return len(regions) == 0 || p.Place != "" && slices.ContainsFunc(regions, func(r string) bool {
		return r == at || r == p.Place || r == region
	})
}

// share is which part of a machine a hold is: the greatest over its resources.
func (m *PoolMachine) share(hold Capacity) float64 {
	share := max(hold.CPUs/m.Capacity.CPUs, hold.MemoryGiB/m.Capacity.MemoryGiB)
	if hold.Accelerators > 0 {
		share = max(share, hold.Accelerators/m.Capacity.Accelerators)
	}
	return min(share, 1)
}
