package check

import (
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// For pools, at every transaction:
const (
	// InvPool: no machine of a pool holds more than its capacity, and each accelerator is assigned once.
	InvPool = "no pool machine is overloaded"
	// InvAssignment: the assignments in a pool's partitions match the open attempts, with each rank of a gang on its
	// own machine.
	InvAssignment = "assignments match attempts"
)

// poolChecker has the partitions as committed.
type poolChecker struct {
	parts map[store.Key]record.Partition
	order []store.Key          // of the partitions, by first write
	since map[string]time.Time // when a cluster was first seen assigned but not needed
	// fresh are the clusters that the current transaction admits to a pool. freed are the clusters whose assignments
	// it removes.
	fresh, freed []string
	kept         []keptMachine // machines with room kept for tasks in the current transaction
}

// keptMachine is a machine before and after the transaction.
type keptMachine struct {
	pool    string
	was, is *record.PoolMachine
}

func newPoolChecker() poolChecker {
	return poolChecker{parts: map[store.Key]record.Partition{}, since: map[string]time.Time{}}
}

// partition checks a partition that is written.
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
		if len(p.Machines[i].Promises) > 0 { // checked after the transaction, when its tasks are known
			c.pool.kept = append(c.pool.kept, keptMachine{p.Pool, was, &p.Machines[i]})
		}
	}
	c.machinesGone(before, p)
	c.checkWorkers(strings.TrimPrefix(w.Key.Partition, record.PoolPart("")), p)
}

// holds checks that a machine holds no more than its capacity.
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
				c.Violatef(InvPool, "accelerator %d of %s/%s is assigned twice: %+v", d, pool, m.ID, m.Uses)
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
		c.Violatef(InvPool, "%s/%s has %+v but holds %+v", pool, m.ID, m.Capacity, m.Uses)
	}
}

// poolAttempt records that an attempt was admitted to a pool.
func (c *Checker) poolAttempt(a apitypes.Attempt) {
	if a.Assigned() {
		c.pool.fresh = append(c.pool.fresh, record.ClusterID(a.Job, a.Task, a.Number))
		if len(a.Hosts) != a.Nodes {
			c.Violatef(InvAssignment, "%s/%d.%d has %d machines of %s, not %d", a.Job, a.Task, a.Number, len(a.Hosts),
				a.Offer.Region, a.Nodes)
		}
	}
}

// checkAssigned checks that a transaction that admits an attempt to a pool also assigns it, each rank to its own
// machine.
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
				c.Violatef(InvAssignment, "rank %d of %s was admitted to %s/%s, but is assigned to %q", rank,
					cluster, a.Offer.Region, host, hosts[rank])
			}
		}
		apart := map[string]bool{}
		for _, host := range hosts {
			if apart[host] {
				c.Violatef(InvGang, "two ranks of %s are on %s/%s", cluster, a.Offer.Region, host)
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

// taken returns the clusters whose assignments were removed.
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

// checkFreed checks that an attempt whose assignment is removed has finished, is about to finish, or was refused.
func (c *Checker) checkFreed(cluster string) {
	s := c.Jobs[record.ClusterJob(cluster)]
	if s == nil {
		c.Violatef(InvAssignment, "%s is removed from its pool, but its job is missing", cluster)
		return
	}
	if cl, ok := s.clusters[cluster]; ok && (cl.Outcome != "" || cl.State == record.ClusterReleasing ||
		cl.State == record.ClusterLaunching) {
		return
	}
	if a := s.attemptOf(cluster); a != nil && a.Outcome == "" && !c.endedWith(a) {
		c.Violatef(InvAssignment, "%s is removed from its pool while its attempt is open", cluster)
	}
}

// assignedTo returns the machines of a pool that are assigned to a cluster, by rank.
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

// lookAtPools checks that assignments end within the bound after their attempt.
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
		c.Violatef(InvAssignment, "%s/%s is assigned to %s, whose job is missing", pool, machine, use.Cluster)
		return
	}
	_, open := s.clusters[use.Cluster]
	a := s.attemptOf(use.Cluster)
	switch since, noted := c.pool.since[use.Cluster]; {
	case a == nil:
		c.Violatef(InvAssignment, "%s/%s is assigned to %s, whose attempt is missing", pool, machine, use.Cluster)
	case open, a.Outcome == "":
		delete(c.pool.since, use.Cluster)
	case !noted:
		c.pool.since[use.Cluster] = c.Now
	case c.Now.Sub(since) > ownedWithin:
		if !c.reconcileStalled() {
			c.Violatef(InvAssignment, "%s/%s is assigned to %s, which finished at %v", pool, machine,
				use.Cluster, since.Sub(timeline.Beginning()))
		}
	}
}

// assigned returns the number of assignments.
func (c *poolChecker) assigned() int {
	n := 0
	for _, p := range c.parts {
		for _, m := range p.Machines {
			n += len(m.Uses)
		}
	}
	return n
}

// Begun checks an agent that a pool machine starts, against all agents that were started for the same cluster.
func (c *Checker) Begun(host string, run *Machine, all []*Machine) {
	s := c.Jobs[record.ClusterJob(run.Cluster)]
	if s == nil || !s.has(run.Cluster) {
		c.Violatef(InvIntent, "%s is started on %s, but its attempt is missing", run.Cluster, host)
		return
	}
	if job, worker := record.JobOfPool(run.Offer.Region); worker && job != s.ID {
		c.Violatef(InvWorkerJob, "%s is started on %s, a worker of %s", run.Cluster, host, job)
	}
	for _, other := range all {
		if other != run && other.Rank == run.Rank && other.Alive() {
			c.Violatef(InvCluster, "rank %d of %s runs as %s and as %s", run.Rank, run.Cluster, other.ID, run.ID)
		}
	}
	s.machines = append(s.machines, run)
}

// OnMachine checks that the tasks that really run on a pool machine fit on it, after the machine has obeyed its
// orders.
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
		c.Violatef(InvPool, "%s runs tasks with %g vCPUs, but has %g", machine, sum, cpus)
	}
}
