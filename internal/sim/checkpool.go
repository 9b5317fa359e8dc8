package sim

import (
	"strings"
	"time"

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
}

func newPoolChecker() poolChecker {
	return poolChecker{parts: map[store.Key]record.Partition{}, since: map[string]time.Time{}}
}

// partition checks a partition as it is written.
func (c *checker) partition(w *store.Write) {
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
	c.pool.freed = append(c.pool.freed, taken(c.pool.parts[w.Key], p)...)
	c.pool.parts[w.Key] = p
	for i := range p.Machines {
		c.holds(p.Pool, &p.Machines[i])
	}
}

// holds checks that a machine holds no more than it has.
func (c *checker) holds(pool string, m *record.PoolMachine) {
	var sum record.Capacity
	devices := map[int]bool{}
	ranks := map[record.AgentRef]bool{}
	for _, use := range m.Uses {
		sum.CPUs += use.Hold.CPUs
		sum.MemoryGiB += use.Hold.MemoryGiB
		sum.Accelerators += use.Hold.Accelerators
		for _, d := range use.Devices {
			if devices[d] {
				c.w.violatef(InvPool, "accelerator %d of %s/%s is given to two: %+v", d, pool, m.ID, m.Uses)
			}
			devices[d] = true
		}
		ref := record.AgentRef{Cluster: use.Cluster, Rank: use.Rank}
		if ranks[ref] {
			c.w.violatef(InvAssignment, "%s/%s is assigned to rank %d of %s twice", pool, m.ID, use.Rank, use.Cluster)
		}
		ranks[ref] = true
	}
	if has := m.Capacity; sum.CPUs > has.CPUs+rounding || sum.MemoryGiB > has.MemoryGiB+rounding ||
		sum.Accelerators > has.Accelerators+rounding {
		c.w.violatef(InvPool, "%s/%s has %+v and is to hold %+v", pool, m.ID, m.Capacity, m.Uses)
	}
}

// poolAttempt notes that an attempt was admitted to a pool.
func (c *checker) poolAttempt(a record.Attempt) {
	if a.Offer.Cloud == record.PoolCloud {
		c.pool.fresh = append(c.pool.fresh, record.ClusterID(a.Job, a.Task, a.Number))
		if len(a.Hosts) != a.Nodes {
			c.w.violatef(InvAssignment, "%s/%d.%d has %d machines of %s, not %d", a.Job, a.Task, a.Number, len(a.Hosts),
				a.Offer.Region, a.Nodes)
		}
	}
}

// checkAssigned checks that what was admitted to a pool by a transaction is assigned by it too, each rank on a machine
// of its own.
func (c *checker) checkAssigned() {
	for _, cluster := range c.pool.fresh {
		s := c.jobs[record.ClusterJob(cluster)]
		for k, a := range s.attempts {
			if record.ClusterID(k.job, k.task, k.attempt) != cluster {
				continue
			}
			hosts := c.assignedTo(a.Offer.Region, cluster)
			for rank, host := range a.Hosts {
				if hosts[rank] != host {
					c.w.violatef(InvAssignment, "rank %d of %s was admitted to %s/%s, and is assigned to %q", rank,
						cluster, a.Offer.Region, host, hosts[rank])
				}
			}
			apart := map[string]bool{}
			for _, host := range hosts {
				if apart[host] {
					c.w.violatef(InvGang, "two of %s are on %s/%s", cluster, a.Offer.Region, host)
				}
				apart[host] = true
			}
		}
	}
	for _, cluster := range c.pool.freed {
		c.checkFreed(cluster)
	}
	c.pool.fresh, c.pool.freed = c.pool.fresh[:0], c.pool.freed[:0]
}

// taken are the clusters of which something was assigned before and is not now.
func taken(before, now record.Partition) []string {
	left := map[record.AgentRef]bool{}
	for _, m := range now.Machines {
		for _, use := range m.Uses {
			left[record.AgentRef{Cluster: use.Cluster, Rank: use.Rank}] = true
		}
	}
	var out []string
	for _, m := range before.Machines {
		for _, use := range m.Uses {
			if !left[record.AgentRef{Cluster: use.Cluster, Rank: use.Rank}] {
				out = append(out, use.Cluster)
			}
		}
	}
	return out
}

// checkFreed checks that an attempt whose assignment is taken out is over, or about to be, or was refused.
func (c *checker) checkFreed(cluster string) {
	s := c.jobs[record.ClusterJob(cluster)]
	if s == nil {
		c.w.violatef(InvAssignment, "%s is taken out of its pool, of which there is no job", cluster)
		return
	}
	if cl, ok := s.clusters[cluster]; ok && (cl.Outcome != "" || cl.State == record.ClusterReleasing ||
		cl.State == record.ClusterLaunching) {
		return
	}
	for _, k := range s.order {
		if record.ClusterID(k.job, k.task, k.attempt) == cluster && s.attempts[k].Outcome == "" {
			c.w.violatef(InvAssignment, "%s is taken out of its pool while it lasts", cluster)
		}
	}
}

// assignedTo are the machines of a pool that hold something for a cluster, by rank.
func (c *checker) assignedTo(pool, cluster string) map[int]string {
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
func (c *checker) lookAtPools() {
	for _, key := range c.pool.order {
		p := c.pool.parts[key]
		for _, m := range p.Machines {
			for _, use := range m.Uses {
				c.checkNeeded(p.Pool, m.ID, use)
			}
		}
	}
}

func (c *checker) checkNeeded(pool, machine string, use record.PoolUse) {
	s := c.jobs[record.ClusterJob(use.Cluster)]
	if s == nil {
		c.w.violatef(InvAssignment, "%s/%s is assigned to %s, of which there is no job", pool, machine, use.Cluster)
		return
	}
	_, open := s.clusters[use.Cluster]
	known := false
	for k, a := range s.attempts {
		if record.ClusterID(k.job, k.task, k.attempt) == use.Cluster {
			known = true
			open = open || a.Outcome == ""
		}
	}
	switch since, noted := c.pool.since[use.Cluster]; {
	case !known:
		c.w.violatef(InvAssignment, "%s/%s is assigned to %s, of which there is no attempt", pool, machine, use.Cluster)
	case open:
		delete(c.pool.since, use.Cluster)
	case !noted:
		c.pool.since[use.Cluster] = c.w.now
	case c.w.now.Sub(since) > ownedWithin:
		if !c.reconcileStalled() {
			c.w.violatef(InvAssignment, "%s/%s is assigned to %s, which has been over since %v", pool, machine,
				use.Cluster, since.Sub(beginning()))
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

// begun checks an agent that a machine of a pool starts.
func (c *checker) begun(m *poolMachine, run *machine) {
	s := c.jobs[record.ClusterJob(run.fleet.name)]
	known := false
	if s != nil {
		for k := range s.attempts {
			known = known || record.ClusterID(k.job, k.task, k.attempt) == run.fleet.name
		}
	}
	if !known {
		c.w.violatef(InvIntent, "%s is begun on %s, of which there is no attempt", run.fleet.name, m.id)
		return
	}
	for _, other := range run.fleet.machines {
		if other != run && other.rank == run.rank && other.alive() {
			c.w.violatef(InvCluster, "rank %d of %s runs as %s and as %s", run.rank, run.fleet.name, other.id, run.id)
		}
	}
	s.machines = append(s.machines, run)
}

// onMachine checks that what really runs on a machine of a pool fits it, once it has obeyed.
func (c *checker) onMachine(m *poolMachine) {
	var sum float64
	for _, run := range m.runs {
		s := c.jobs[record.ClusterJob(run.fleet.name)]
		if s == nil || !run.agent.alive {
			continue
		}
		for key, p := range c.pool.parts {
			if key.Partition != "pool#"+m.pool {
				continue
			}
			for _, x := range p.Machines {
				for _, use := range x.Uses {
					if x.ID == m.id && use.Cluster == run.fleet.name && use.Rank == run.rank {
						sum += use.Hold.CPUs
					}
				}
			}
		}
	}
	if sum > m.report.Capacity.CPUs+rounding {
		c.w.violatef(InvPool, "%s runs what holds %g vCPUs of %g", m.id, sum, m.report.Capacity.CPUs)
	}
}
