package session

import (
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/attempt"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

const (
	reclaimJobs     = 256 // jobs looked at for machines to take back
	reclaimMachines = 64  // clusters of each
	reclaimMost     = 8   // clusters that one session takes back
)

// takeBack makes room for what waits and has not been admitted: of queues that share a quota, those that hold more than
// they deserve give back what another deserves; and in a queue that says so what is more urgent takes from what is less
// so. Their work is saved first; then the tasks wait again.
func (s *Session) takeBack() error {
	reclaims := len(s.tree) > 1 && s.follows("reclaim")
	preempts := s.follows("preempt") && slices.ContainsFunc(s.tree, func(q *apitypes.Queue) bool { return q.Preempt })
	if !reclaims && !preempts || !slices.ContainsFunc(s.tree, s.bounded) {
		return nil
	}
	s.candidates = waitStill(s.candidates)
	claimed, others := parted(s.candidates, s.u.Now)
	if len(others) == 0 {
		return nil
	}
	clusters, err := s.clusters()
	if err != nil {
		return err
	}
	made := &scheduler.Result{}
	if preempts {
		made, err = s.evictions(clusters, others, claimed, "preempt")
	}
	if err == nil && reclaims && len(made.Evictions) == 0 {
		made, err = s.evictions(clusters, others, claimed, "reclaim")
	}
	if err != nil {
		return err
	}
	for _, e := range wholeClaims(made.Evictions, reclaimMost) {
		if err := s.evict(clusters, e); err != nil {
			return err
		}
	}
	if len(made.Evictions) > 0 {
		s.claimReleased(made)
	}
	return nil
}

// claimReleased claims what is being released anyway for those that are to have it: where others behind them have room
// made, these would else take it, as it comes first.
func (s *Session) claimReleased(made *scheduler.Result) {
	for _, n := range slices.Concat(made.Binds, made.Nominations) {
		if !slices.ContainsFunc(made.Evictions, func(e scheduler.Eviction) bool { return e.For == n.Job }) {
			s.claim(n.Job)
		}
	}
}

// claim has room kept for a candidate, by its claim.
func (s *Session) claim(name string) {
	if i := slices.IndexFunc(s.candidates, func(a *admission) bool { return a.claim() == name }); i >= 0 {
		q := s.candidates[i].queue
		record.AddClaim(q, apitypes.Claim{For: name, Until: s.makingEnds()}, s.u.Now)
		s.changed[q] = true
	}
}

// wholeClaims are the first evictions, about so many as said: all of those for one, or none.
func wholeClaims(evictions []scheduler.Eviction, most int) []scheduler.Eviction {
	for i := range evictions {
		if i >= most && evictions[i].For != evictions[i-1].For {
			return evictions[:i]
		}
	}
	return evictions
}

// holding is a cluster in the tree.
type holding struct {
	attempt.Losing
	queue *apitypes.Queue
	claim string // what it would be stopped, and be made room for, as
}

// clusters loads what runs in the tree.
func (s *Session) clusters() (map[string]holding, error) {
	index, err := book.List[record.JobIndex](s.u, record.PartActive, "", reclaimJobs)
	if err != nil {
		return nil, err
	}
	out := map[string]holding{}
	for _, i := range index {
		if err := lacking(s.clustersOf(i.ID, out)); err != nil {
			return nil, err
		}
	}
	if s.u.Lack.Any() {
		return nil, book.ErrLacking
	}
	return out, nil
}

// clustersOf loads what runs of a job, if that is in the tree.
func (s *Session) clustersOf(id string, out map[string]holding) error {
	job, found, err := book.Get[record.Job](s.u, record.JobKey(id))
	q := s.queues[job.Queue]
	if err != nil || !found || q == nil || job.State != apitypes.JobRunning {
		return err
	}
	clusters, err := book.List[record.Cluster](s.u, record.JobPart(id), record.ClusterPrefix, reclaimMachines)
	if err != nil {
		return err
	}
	spec, err := s.u.Spec(job)
	if err != nil {
		return err
	}
	for _, cl := range clusters {
		l, found, err := attempt.LoadLosing(s.u, cl.ID)
		if lacking(err) != nil {
			return err
		}
		if found {
			t := spec.Tasks[cl.Task]
			out[cl.ID] = holding{Losing: l, queue: q, claim: claimOf(id, t.Name, t.Gang)}
		}
	}
	return nil
}

// evictions asks the scheduler whom to evict for which candidates by an action, in the queues that take part: all, or
// those that preempt. A gang goes as a whole, and room is made for all of one or not at all. Nobody is evicted whom the
// candidate was stopped for.
func (s *Session) evictions(clusters map[string]holding, candidates, kept []*admission,
	action string) (*scheduler.Result, error) {
	takesPart := func(q *apitypes.Queue) bool { return q.Preempt || action != "preempt" }
	x := s.scene(kept)
	x.addHeld(clusters, func(h holding) bool { return takesPart(h.queue) && h.CanGo(s.Config.Restart, s.u.Now) })
	running := x.Jobs
	for _, a := range candidates {
		if !takesPart(a.queue) {
			continue
		}
		j, fresh := x.job(a.claim(), a)
		if fresh {
			j.Spares = spares(running, clusters, a.yielded())
		}
		x.waits(j, len(j.Tasks), a)
		j.Min = len(j.Tasks)
	}
	session, err := s.open(x.Snapshot, action)
	if err != nil {
		return nil, record.Final(err)
	}
	session.Run()
	return session.Close(), nil
}

// addHeld adds what clusters hold, each as a job of its own, those of a gang as one; and what else is in use.
func (x *scene) addHeld(clusters map[string]holding, canGo func(holding) bool) {
	gangs := map[string]int{} // what they hold, which is another job than what of them waits
	for _, id := range slices.Sorted(maps.Keys(clusters)) {
		h := clusters[id]
		use := x.more.held(1, h.Cluster.VCPU, h.Attempt.Hold)
		if !x.take(h.queue, h.Job, use) {
			continue // given back by now
		}
		j := held(id, record.Leaf(h.queue), use)
		j.Namespace = x.namespaceOf(h.Job)
		j.Priority, j.Created, j.Kept = h.Job.Priority, h.Job.Submitted, !canGo(h)
		if h.Task.Joins != "" {
			j.Priority -= joinsBy
		}
		t := &j.Tasks[0]
		t.ID, t.Since = id, h.Cluster.Launched
		if h.Cluster.State == record.ClusterDoomed || h.Cluster.State == record.ClusterReleasing ||
			h.Cluster.Outcome != "" {
			t.State = scheduler.Releasing
		}
		gang := h.Job.ID + record.GangMark + h.Task.Gang
		i, known := gangs[gang]
		if h.Task.Gang == "" || !known {
			gangs[gang] = len(x.Jobs)
			x.Jobs = append(x.Jobs, j)
			continue
		}
		all := &x.Jobs[i]
		all.Tasks, all.Kept = append(all.Tasks, *t), all.Kept || j.Kept
		all.Batch = true
	}
	x.close()
}

// evict has a cluster save its work and stop.
func (s *Session) evict(clusters map[string]holding, e scheduler.Eviction) error {
	h, ok := clusters[e.Task]
	if !ok || !h.CanGo(s.Config.Restart, s.u.Now) {
		return nil
	}
	s.claim(e.For)
	h.Cluster.For = e.For
	return s.u.Apply(attempt.DecideLeave(h.Cluster, record.LeaveForOthers, e.Reason, s.Config.Overhead, s.u.Now))
}

// spares are those of the jobs that stand for clusters which hold for one of some claims.
func spares(jobs []scheduler.Job, clusters map[string]holding, claims []string) (out []string) {
	for _, j := range jobs {
		if h, ok := clusters[j.Tasks[0].ID]; ok && slices.Contains(claims, h.claim) {
			out = append(out, j.ID)
		}
	}
	return out
}

// claimOf names what room is made for, and what is stopped for it: a task, or a gang as a whole.
func claimOf(job, task, gang string) string {
	if gang != "" {
		return job + record.GangMark + gang
	}
	return job + "/" + task
}

// claim names what room is made for.
func (a *admission) claim() string { return claimOf(a.job.ID, a.name, a.task.Gang) }

// yielded are the claims that a waiting task, or any of its gang, was stopped for. It never stops those in turn.
func (a *admission) yielded() (claims []string) {
	for _, m := range a.with.members {
		claims = append(claims, m.task.YieldedTo...)
	}
	return claims
}

// parted divides waiting tasks into those that room has been made for and the others.
func parted(candidates []*admission, now time.Time) (claimed, others []*admission) {
	for _, a := range candidates {
		if a.queue.Claimed(a.claim(), now) {
			claimed = append(claimed, a)
		} else {
			others = append(others, a)
		}
	}
	return claimed, others
}

// madeFor is what of the tree room is being made for besides a task; empty if nothing.
func (s *Session) madeFor(a *admission) string {
	for _, q := range s.tree {
		for _, c := range q.Claims {
			if c.For != a.claim() && s.u.Now.Before(c.Until) {
				return c.For
			}
		}
	}
	return ""
}
