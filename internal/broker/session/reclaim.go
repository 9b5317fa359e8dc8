package session

import (
	"maps"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

const (
	reclaimJobs     = 256 // maximum number of jobs that are checked for machines to take back
	reclaimMachines = 64  // maximum number of clusters of each
	reclaimMost     = 8   // maximum number of clusters that one session takes back
)

// reclaim makes room for waiting tasks that were not admitted. Of queues that share a quota, those that hold more
// than they deserve give capacity back to those that hold less. In a queue with preemption, more urgent tasks take
// capacity from less urgent ones. The stopped tasks save their work first, and then wait again.
func (s *Session) reclaim() error {
	reclaims := len(s.tree) > 1 && s.follows("reclaim")
	preempts := s.follows("preempt") && slices.ContainsFunc(s.tree, func(q *apitypes.Queue) bool { return q.Preempt })
	if !reclaims && !preempts || !slices.ContainsFunc(s.tree, s.bounded) {
		return nil
	}
	s.candidates = notAdmitted(s.candidates)
	claimed, others := splitClaimed(s.candidates, s.u.Now)
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

// claimReleased claims capacity that is being released anyway for the tasks to which the scheduler gives it.
// Otherwise tasks behind them, for which room is made, would take it because it is free first.
func (s *Session) claimReleased(made *scheduler.Result) {
	for _, n := range slices.Concat(made.Binds, made.Nominations) {
		if !slices.ContainsFunc(made.Evictions, func(e scheduler.Eviction) bool { return e.For == n.Job }) {
			s.claim(n.Job)
		}
	}
}

// claim reserves quota for the candidate whose claim has this name.
func (s *Session) claim(name string) {
	if i := slices.IndexFunc(s.candidates, func(a *admission) bool { return a.claim() == name }); i >= 0 {
		q := s.candidates[i].queue
		record.AddClaim(q, apitypes.Claim{For: name, Until: s.makingEnds()}, s.u.Now)
		s.changed[q] = true
	}
}

// wholeClaims returns the first evictions, about most of them. It includes all or none of the evictions for the same
// task or gang.
func wholeClaims(evictions []scheduler.Eviction, most int) []scheduler.Eviction {
	for i := range evictions {
		if i >= most && evictions[i].For != evictions[i-1].For {
			return evictions[:i]
		}
	}
	return evictions
}

// holding is a running cluster in the tree.
type holding struct {
	attempt.Losing
	queue *apitypes.Queue
	claim string // the claim of its task
}

// clusters loads the running clusters of the tree.
func (s *Session) clusters() (map[string]holding, error) {
	index, err := recordcache.List[record.JobIndex](s.u, record.PartActive, "", reclaimJobs)
	if err != nil {
		return nil, err
	}
	out := map[string]holding{}
	for _, i := range index {
		if err := lacking(s.clustersOf(i.ID, out)); err != nil {
			return nil, err
		}
	}
	if s.u.Missing.Any() {
		return nil, recordcache.ErrMissing
	}
	return out, nil
}

// clustersOf loads the clusters of a job, if its queue is in the tree.
func (s *Session) clustersOf(id string, out map[string]holding) error {
	job, found, err := recordcache.Get[record.Job](s.u, record.JobKey(id))
	q := s.queues[job.Queue]
	if err != nil || !found || q == nil || job.State != apitypes.JobRunning {
		return err
	}
	clusters, err := recordcache.List[record.Cluster](s.u, record.JobPart(id), record.ClusterPrefix, reclaimMachines)
	if err != nil {
		return err
	}
	spec, err := s.u.Spec(job)
	if err != nil {
		return err
	}
	for _, cl := range clusters {
		if cl.Shared() {
			continue // the task holds nothing: its worker does
		}
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

// evictions lets the scheduler decide, by an action, which clusters are evicted for which candidates. Only queues to
// which the action applies take part: all queues for reclaim, those with preemption for preempt. A gang is evicted as
// a whole, and room is made for all of a gang or none of it. A candidate that was stopped for another task never
// evicts that task.
func (s *Session) evictions(clusters map[string]holding, candidates, kept []*admission,
	action string) (*scheduler.Result, error) {
	takesPart := func(q *apitypes.Queue) bool { return q.Preempt || action != "preempt" }
	x := s.scene(kept)
	x.addHeld(clusters, func(h holding) bool { return takesPart(h.queue) && h.CanLeave(s.Config.Restart, s.u.Now) })
	running := x.Jobs
	for _, a := range candidates {
		if !takesPart(a.queue) {
			continue
		}
		j, fresh := x.job(a.claim(), a)
		if fresh {
			j.Spares = spares(running, clusters, a.yielded())
		}
		x.addWaiting(j, len(j.Tasks), a)
		j.Min = len(j.Tasks)
	}
	session, err := s.open(x.Snapshot, action)
	if err != nil {
		return nil, record.Final(err)
	}
	session.Run()
	return session.Close(), nil
}

// addHeld adds the running clusters, each as a job and a gang as one job. Then it adds everything else that is in
// use.
func (x *scene) addHeld(clusters map[string]holding, canGo func(holding) bool) {
	gangs := map[string]int{} // by gang: the job of its running tasks; its waiting tasks are another job
	for _, id := range slices.Sorted(maps.Keys(clusters)) {
		h := clusters[id]
		use := x.more.held(1, h.Cluster.VCPU, h.Attempt.Hold)
		if !x.represent(h.queue, h.Job, use) {
			continue // it was released meanwhile
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

// evict makes a cluster save its work and stop.
func (s *Session) evict(clusters map[string]holding, e scheduler.Eviction) error {
	h, ok := clusters[e.Task]
	if !ok || !h.CanLeave(s.Config.Restart, s.u.Now) {
		return nil
	}
	s.claim(e.For)
	h.Cluster.For = e.For
	return s.u.Apply(attempt.DecideLeave(h.Cluster, record.LeaveForOthers, e.Reason, s.Config.Overhead, s.u.Now))
}

// spares returns the IDs of the jobs that represent clusters with one of the given claims.
func spares(jobs []scheduler.Job, clusters map[string]holding, claims []string) (out []string) {
	for _, j := range jobs {
		if h, ok := clusters[j.Tasks[0].ID]; ok && slices.Contains(claims, h.claim) {
			out = append(out, j.ID)
		}
	}
	return out
}

// claimOf returns the name of a task, or of its gang as a whole, in claims. Claims name the task for which room is
// made, or the task that was stopped.
func claimOf(job, task, gang string) string {
	if gang != "" {
		return job + record.GangMark + gang
	}
	return job + "/" + task
}

// claim is the claim of a waiting task.
func (a *admission) claim() string { return claimOf(a.job.ID, a.name, a.task.Gang) }

// yielded returns the claims for which a waiting task, or its gang, was stopped. It never evicts those tasks in
// return.
func (a *admission) yielded() (claims []string) {
	for _, m := range a.with.members {
		claims = append(claims, m.task.YieldedTo...)
	}
	return claims
}

// splitClaimed divides waiting tasks into those for which room is kept, and the others.
func splitClaimed(candidates []*admission, now time.Time) (claimed, others []*admission) {
	for _, a := range candidates {
		if a.queue.Claimed(a.claim(), now) {
			claimed = append(claimed, a)
		} else {
			others = append(others, a)
		}
	}
	return claimed, others
}

// otherClaim returns another claim in the tree for which room is being made, or "".
func (s *Session) otherClaim(a *admission) string {
	for _, q := range s.tree {
		for _, c := range q.Claims {
			if c.For != a.claim() && s.u.Now.Before(c.Until) {
				return c.For
			}
		}
	}
	return ""
}
