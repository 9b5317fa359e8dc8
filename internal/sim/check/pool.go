package check

import (
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Of the pools, at every transaction:
const (
	// InvPool: no machine of a pool is given more than it has, and each accelerator to one.
	InvPool = "no pool machine holds more than it has"
	// InvAssignment: what a pool's partitions say is assigned is what open attempts hold, whole gangs on machines of
	// their own.
	InvAssignment = "assignments are attempts'"
)

// poolChecker knows the partitions as committed.
type poolChecker struct {
	parts map[store.Key]record.Partition
	order []store.Key          // of the partitions, as they were first written
	since map[string]time.Time // when a cluster was first seen to be assigned though nothing needs it
	// fresh are the clusters whose attempts were admitted to a pool by the transaction at hand, freed those whose
	// assignments it has taken out.
	fresh, freed []string
	kept         []keptMachine // of which something is kept for tasks, as the transaction at hand has them
}

// keptMachine is a machine as it was and is.
type keptMachine struct {
	pool    string
	was, is *record.PoolMachine
}

func newPoolChecker() poolChecker {
	return poolChecker{parts: map[store.Key]record.Partition{}, since: map[string]time.Time{}}
}

// partition checks a partition as it is written.
func (c *Checker) partition(w *store.Write) {
	if _, machine, beat := strings.Cut(w.Key.Sort, record.BeatInfix); beat {
		c.beat(strings.TrimPrefix(w.Key.Partition, record.PoolPart("")), machine, w)
	}
	if w.Op == store.Check || !strings.HasSuffix(w.Key.Sort, "#machines") {
		return
	}
	if w.Op == store.Delete {
		c.pool.parts[w.Key] = record.Partition{}
		return
	}
	p := decode[record.Partition](c, w)
	if _, known := c.pool.parts[w.Key]; !known {
		c.pool.order = append(c.pool.order, w.Key)
	}
	before := c.pool.parts[w.Key]
	c.pool.freed = append(c.pool.freed, taken(before, p)...)
	c.pool.parts[w.Key] = p
	for i := range p.Machines {
		c.holds(p.Pool, &p.Machines[i])
		var was *record.PoolMachine
		if k, found := before.Machine(p.Machines[i].ID); found {
			was = &before.Machines[k]
		}
		c.checkHours(p.Pool, was, &p.Machines[i])
		if len(p.Machines[i].Promises) > 0 { // its tasks are known when all of the transaction is
			c.pool.kept = append(c.pool.kept, keptMachine{p.Pool, was, &p.Machines[i]})
		}
	}
	c.machinesGone(before, p)
}

// holds checks that a machine holds no more than it has.
func (c *Checker) holds(pool string, m *record.PoolMachine) {
	var sum apitypes.Capacity
	devices := map[int]bool{}
	ranks := map[wire.PoolAgent]bool{}
	for _, use := range m.Uses {
		sum.CPUs += use.Hold.CPUs
		sum.MemoryGiB += use.Hold.MemoryGiB
		sum.Accelerators += use.Hold.Accelerators
		for _, d := range use.Devices {
			if devices[d] {
				c.Violatef(InvPool, "accelerator %d of %s/%s is given to two: %+v", d, pool, m.ID, m.Uses)
			}
			devices[d] = true
		}
		if ranks[use.Agent()] {
			c.Violatef(InvAssignment, "%s/%s is assigned to rank %d of %s twice", pool, m.ID, use.Rank, use.Cluster)
		}
		ranks[use.Agent()] = true
	}
	if has := m.Capacity; sum.CPUs > has.CPUs+Rounding || sum.MemoryGiB > has.MemoryGiB+Rounding ||
		sum.Accelerators > has.Accelerators+Rounding {
		c.Violatef(InvPool, "%s/%s has %+v and is to hold %+v", pool, m.ID, m.Capacity, m.Uses)
	}
}

// poolAttempt notes that an attempt was admitted to a pool.
func (c *Checker) poolAttempt(a apitypes.Attempt) {
	if a.Assigned() {
		c.pool.fresh = append(c.pool.fresh, record.ClusterID(a.Job, a.Task, a.Number))
		if len(a.Hosts) != a.Nodes {
			c.Violatef(InvAssignment, "%s/%d.%d has %d machines of %s, not %d", a.Job, a.Task, a.Number, len(a.Hosts),
				a.Offer.Region, a.Nodes)
		}
	}
}

// checkAssigned checks that what was admitted to a pool by a transaction is assigned by it too, each rank on a machine
// of its own.
func (c *Checker) checkAssigned() {
	for _, cluster := range c.pool.fresh {
		s := c.Jobs[record.ClusterJob(cluster)]
		a := s.attemptOf(cluster)
		if a == nil {
			continue
		}
		hosts := c.assignedTo(a.Offer.Region, cluster)
		for rank, host := range a.Hosts {
			if hosts[rank] != host {
				c.Violatef(InvAssignment, "rank %d of %s was admitted to %s/%s, and is assigned to %q", rank,
					cluster, a.Offer.Region, host, hosts[rank])
			}
		}
		apart := map[string]bool{}
		for _, host := range hosts {
			if apart[host] {
				c.Violatef(InvGang, "two of %s are on %s/%s", cluster, a.Offer.Region, host)
			}
			apart[host] = true
		}
	}
	for _, cluster := range c.pool.freed {
		c.checkFreed(cluster)
	}
	for _, m := range c.pool.kept {
		c.machineKept(m.pool, m.was, m.is)
	}
	c.pool.fresh, c.pool.freed, c.pool.kept = c.pool.fresh[:0], c.pool.freed[:0], c.pool.kept[:0]
}

// taken are the clusters of which something was assigned before and is not now.
func taken(before, now record.Partition) []string {
	left := map[wire.PoolAgent]bool{}
	for _, m := range now.Machines {
		for _, use := range m.Uses {
			left[use.Agent()] = true
		}
	}
	var out []string
	for _, m := range before.Machines {
		for _, use := range m.Uses {
			if !left[use.Agent()] {
				out = append(out, use.Cluster)
			}
		}
	}
	return out
}

// checkFreed checks that an attempt whose assignment is taken out is over, or about to be, or was refused.
func (c *Checker) checkFreed(cluster string) {
	s := c.Jobs[record.ClusterJob(cluster)]
	if s == nil {
		c.Violatef(InvAssignment, "%s is taken out of its pool, of which there is no job", cluster)
		return
	}
	if cl, ok := s.clusters[cluster]; ok && (cl.Outcome != "" || cl.State == record.ClusterReleasing ||
		cl.State == record.ClusterLaunching) {
		return
	}
	if a := s.attemptOf(cluster); a != nil && a.Outcome == "" {
		c.Violatef(InvAssignment, "%s is taken out of its pool while it lasts", cluster)
	}
}

// assignedTo are the machines of a pool that hold something for a cluster, by rank.
func (c *Checker) assignedTo(pool, cluster string) map[int]string {
	hosts := map[int]string{}
	for key, p := range c.pool.parts {
		if key.Partition != "pool#"+pool {
			continue
		}
		for _, m := range p.Machines {
			for _, use := range m.Uses {
				if use.Cluster == cluster {
					hosts[use.Rank] = m.ID
				}
			}
		}
	}
	return hosts
}

// lookAtPools checks that no assignment outlives the bound within which what is not needed is given back.
func (c *Checker) lookAtPools() {
	for _, key := range c.pool.order {
		p := c.pool.parts[key]
		for _, m := range p.Machines {
			for _, use := range m.Uses {
				c.checkNeeded(p.Pool, m.ID, use)
			}
		}
	}
}

func (c *Checker) checkNeeded(pool, machine string, use record.PoolUse) {
	s := c.Jobs[record.ClusterJob(use.Cluster)]
	if s == nil {
		c.Violatef(InvAssignment, "%s/%s is assigned to %s, of which there is no job", pool, machine, use.Cluster)
		return
	}
	_, open := s.clusters[use.Cluster]
	a := s.attemptOf(use.Cluster)
	switch since, noted := c.pool.since[use.Cluster]; {
	case a == nil:
		c.Violatef(InvAssignment, "%s/%s is assigned to %s, of which there is no attempt", pool, machine, use.Cluster)
	case open, a.Outcome == "":
		delete(c.pool.since, use.Cluster)
	case !noted:
		c.pool.since[use.Cluster] = c.Now
	case c.Now.Sub(since) > ownedWithin:
		if !c.reconcileStalled() {
			c.Violatef(InvAssignment, "%s/%s is assigned to %s, which has been over since %v", pool, machine,
				use.Cluster, since.Sub(timeline.Beginning()))
		}
	}
}

// assigned is how many assignments there are.
func (c *poolChecker) assigned() int {
	n := 0
	for _, p := range c.parts {
		for _, m := range p.Machines {
			n += len(m.Uses)
		}
	}
	return n
}

// Begun checks an agent that a machine of a pool starts, beside those that were started for the same cluster.
func (c *Checker) Begun(host string, run *Machine, all []*Machine) {
	s := c.Jobs[record.ClusterJob(run.Cluster)]
	if s == nil || !s.has(run.Cluster) {
		c.Violatef(InvIntent, "%s is begun on %s, of which there is no attempt", run.Cluster, host)
		return
	}
	for _, other := range all {
		if other != run && other.Rank == run.Rank && other.Alive() {
			c.Violatef(InvCluster, "rank %d of %s runs as %s and as %s", run.Rank, run.Cluster, other.ID, run.ID)
		}
	}
	s.machines = append(s.machines, run)
}

// OnMachine checks that what really runs on a machine of a pool fits it, once it has obeyed.
func (c *Checker) OnMachine(pool, machine string, cpus float64, running []*Machine) {
	var sum float64
	for _, run := range running {
		if c.Jobs[record.ClusterJob(run.Cluster)] == nil || !run.Speaks {
			continue
		}
		for key, p := range c.pool.parts {
			if key.Partition != "pool#"+pool {
				continue
			}
			for _, x := range p.Machines {
				for _, use := range x.Uses {
					if x.ID == machine && use.Cluster == run.Cluster && use.Rank == run.Rank {
						sum += use.Hold.CPUs
					}
				}
			}
		}
	}
	if sum > cpus+Rounding {
		c.Violatef(InvPool, "%s runs what holds %g vCPUs of %g", machine, sum, cpus)
	}
}
