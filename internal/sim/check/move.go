package check

import (
	"slices"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// For moves in pools, at every transaction:
const (
	// InvMove: a task for which others were moved gets their place while the place is kept, unless a machine became
	// unavailable or the task was replanned.
	InvMove = "a move admits the task it was made for"
	// InvKeptRoom: room on a machine that is kept for a task is not given to another.
	InvKeptRoom = "kept room is not given to others"
	// InvAgain: a task that was stopped for others is stopped again only after it has run for long enough. That time
	// doubles with each stop.
	InvAgain = "nothing is moved again too early"
)

// moveChecker records moves and for which tasks they were made.
type moveChecker struct {
	made  map[string]*made     // by claim
	unfit map[string]time.Time // when a pool (POOL) or its machine (POOL/ID) was last unavailable
	beats map[string]time.Time // when a machine last reported
}

// made is room that has been made by moves.
type made struct {
	pool         string
	hosts        []string
	since, until time.Time
	plan         int
}

func newMoveChecker() moveChecker {
	return moveChecker{made: map[string]*made{}, unfit: map[string]time.Time{}, beats: map[string]time.Time{}}
}

// moved records that a cluster leaves its machine for a claim.
func (c *Checker) moved(s *Job, cl record.Cluster) {
	c.Count("moved to make room")
	of := c.Jobs[jobOf(cl.For)]
	if of == nil || len(cl.Hosts) != 1 || len(cl.Nodes) != 1 || s.gangName(cl.Task) != "" {
		c.Violatef(InvMove, "%s leaves for %q", cl.ID, cl.For)
		return
	}
	if s.Record.Priority > of.Record.Priority {
		c.Violatef(InvMove, "%s of priority %d leaves for %s of %d", cl.ID, s.Record.Priority, cl.For,
			of.Record.Priority)
	}
	m := c.moves.made[cl.For]
	if m == nil || m.until.Before(cl.Until) {
		m = &made{pool: cl.Offer.Region, since: c.Now, until: cl.Since.Add(2 * c.cfg.Overhead),
			plan: of.Record.Plan.Version}
		c.moves.made[cl.For] = m
	}
	m.hosts = append(m.hosts, cl.Hosts[0])
}

// jobOf returns the job of a claim.
func jobOf(claim string) string {
	for i := range len(claim) {
		if claim[i] == '/' {
			return claim[:i]
		}
	}
	return claim
}

// checkMoved checks that an attempt is admitted to the machines on which room was made for it.
func (c *Checker) checkMoved(s *Job, a apitypes.Attempt) {
	if s.user == nil || len(c.moves.made) == 0 {
		return
	}
	claim := s.claim(a.Task)
	m := c.moves.made[claim]
	if m == nil {
		return
	}
	delete(c.moves.made, claim)
	if !a.Admitted.Before(m.until) || a.Plan != m.plan {
		c.Count("room is made in vain")
		return
	}
	if a.Assigned() && a.Offer.Region == m.pool {
		if !slices.ContainsFunc(m.hosts, func(h string) bool { return !slices.Contains(a.Hosts, h) }) {
			c.Count("admitted by a move")
			return
		}
	}
	for _, host := range append([]string{""}, c.keptFor(m, a.Nodes)...) {
		at := m.pool + "/" + host
		if last, was := c.moves.unfit[at]; was && !last.Before(m.since) ||
			host != "" && a.Admitted.Sub(c.moves.beats[at]) > c.cfg.Pool.StaleAfter-time.Minute {
			c.Count("a machine with room made is gone")
			return
		}
	}
	c.Violatef(InvMove, "%s is admitted to %s %v, but room was made for it in %s on %v", claim, a.OfferID, a.Hosts,
		m.pool, m.hosts)
}

// keptFor returns the machines that may be kept for a task with a number of nodes: those that were vacated for it. If
// the task has more nodes, these are all machines of the pool that were available when room was made.
func (c *Checker) keptFor(m *made, nodes int) []string {
	hosts := slices.Clone(m.hosts)
	if nodes <= len(hosts) {
		return hosts
	}
	for at, last := range c.moves.beats {
		if host, of := strings.CutPrefix(at, m.pool+"/"); of && m.since.Sub(last) <= c.cfg.Pool.StaleAfter {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return hosts
}

// machineKept checks new assignments of a machine against the room that is kept on it.
func (c *Checker) machineKept(pool string, was, m *record.PoolMachine) {
	for _, use := range m.Uses {
		same := func(u record.PoolUse) bool { return u.Cluster == use.Cluster }
		if was != nil && slices.ContainsFunc(was.Uses, same) {
			continue
		}
		s := c.Jobs[record.ClusterJob(use.Cluster)]
		task, _, ok := record.ClusterAttempt(use.Cluster)
		if s == nil || !ok || s.user == nil {
			continue
		}
		left := m.WithPromises(s.claim(task), use.Since)
		left.Uses = slices.DeleteFunc(left.Uses, func(u record.PoolUse) bool { return c.leavesFor(u, m.Promises) })
		if !record.Fits(apitypes.Capacity{}, left.Free()) {
			c.Violatef(InvKeptRoom, "%s is assigned %s/%s, where %+v is kept", use.Cluster, pool, m.ID, m.Promises)
		}
	}
}

// leavesFor reports whether a task leaves its machine for one of the promises, which then count in its place.
func (c *Checker) leavesFor(use record.PoolUse, promises []record.PoolPromise) bool {
	s := c.Jobs[record.ClusterJob(use.Cluster)]
	if s == nil {
		return false
	}
	leaves := s.clusters[use.Cluster].For
	return leaves != "" && slices.ContainsFunc(promises, func(p record.PoolPromise) bool { return p.For == leaves })
}

// machinesGone records machines that have left their partition or take no work.
func (c *Checker) machinesGone(before, now record.Partition) {
	for _, m := range now.Machines {
		if m.Draining || m.Leaving || c.Now.Before(m.BlockedUntil) {
			c.moves.unfit[now.Pool+"/"+m.ID] = later(c.Now, m.BlockedUntil)
		}
	}
	for _, m := range before.Machines {
		if _, there := now.Machine(m.ID); !there {
			c.moves.unfit[before.Pool+"/"+m.ID] = c.Now
		}
	}
}

// beat records when a machine reported.
func (c *Checker) beat(pool, machine string, w *store.Write) {
	if w.Op == store.Put {
		c.moves.beats[pool+"/"+machine] = decode[record.Beat](c, w).At
	}
}

// poolRecord records that a pool takes no work.
func (c *Checker) poolRecord(w *store.Write) {
	if w.Op == store.Check || w.Op == store.Put && !decode[record.Pool](c, w).Draining {
		return
	}
	c.moves.unfit[w.Key.Sort+"/"] = c.Now
}

// checkAgain checks that a task that is stopped for others has run for at least the time for which it may keep its
// machines.
func (c *Checker) checkAgain(s *Job, cl record.Cluster) {
	if keeps := s.Tasks[cl.Task].Keeps(c.cfg.Restart); cl.Since.Sub(cl.Running) < keeps {
		c.Violatef(
			InvAgain,
			"%s has run for %v, but may keep its machines for %v",
			cl.ID,
			cl.Since.Sub(cl.Running),
			keeps,
		)
	}
}
