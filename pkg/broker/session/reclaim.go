package session

import (
	"errors"
	"maps"
	"slices"
	"strconv"

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
	preempts := s.follows("preempt") && slices.ContainsFunc(s.tree, func(q *record.Queue) bool { return q.Preempt })
	if !reclaims && !preempts || !slices.ContainsFunc(s.tree, s.bounded) {
		return nil
	}
	var err error
	if s.candidates, err = s.waitStill(s.candidates); err != nil {
		return err
	}
	claimed, others := parted(s.candidates, s.u.Now)
	if len(others) == 0 {
		return nil
	}
	clusters, err := s.clusters()
	if err != nil {
		return err
	}
	var evictions []scheduler.Eviction
	if preempts {
		evictions, err = s.evictions(clusters, others, claimed, "preempt", func(q *record.Queue) bool {
			return q.Preempt
		})
		if err != nil {
			return err
		}
	}
	if reclaims && len(evictions) == 0 {
		evictions, err = s.evictions(clusters, others, claimed, "reclaim", func(*record.Queue) bool { return true })
		if err != nil {
			return err
		}
	}
	for _, e := range wholeClaims(evictions, reclaimMost) {
		if err := s.evict(clusters, e); err != nil {
			return err
		}
	}
	return nil
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

// waitStill keeps of some candidates those that have not been admitted.
func (s *Session) waitStill(candidates []admission) (left []admission, err error) {
	for _, a := range candidates {
		t, _, err := book.Get[record.Task](s.u, record.TaskKey(a.job.ID, a.waiting.Task))
		if err != nil {
			return nil, err
		}
		if t.State == record.TaskQueued {
			left = append(left, a)
		}
	}
	return left, nil
}

// holding is a cluster in the tree.
type holding struct {
	attempt.Losing
	queue *record.Queue
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
		job, found, err := book.Get[record.Job](s.u, record.JobKey(i.ID))
		if errors.Is(err, book.ErrLacking) {
			continue
		}
		if err != nil {
			return nil, err
		}
		q := s.queues[job.Queue]
		if !found || q == nil || job.State != record.JobRunning {
			continue
		}
		clusters, err := book.List[record.Cluster](s.u, record.JobPart(i.ID), record.ClusterPrefix, reclaimMachines)
		if errors.Is(err, book.ErrLacking) {
			continue
		}
		if err != nil {
			return nil, err
		}
		spec, err := s.u.Spec(job)
		if errors.Is(err, book.ErrLacking) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, cl := range clusters {
			l, found, err := attempt.LoadLosing(s.u, cl.ID)
			if errors.Is(err, book.ErrLacking) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if found {
				t := spec.Tasks[cl.Task]
				out[cl.ID] = holding{Losing: l, queue: q, claim: claimOf(i.ID, t.Name, t.Gang)}
			}
		}
	}
	if s.u.Lack.Any() {
		return nil, book.ErrLacking
	}
	return out, nil
}

// evictions asks the scheduler whom to evict for candidates by an action, in the queues that take part. A gang goes as
// a whole, and room is made for all of one or not at all. Nobody is evicted whom the candidate was stopped for.
func (s *Session) evictions(
	clusters map[string]holding, candidates, kept []admission, action string, takesPart func(*record.Queue) bool,
) ([]scheduler.Eviction, error) {
	snap := snapshot(s.tree, s.u.Now)
	addKept(snap, kept)
	s.addHeld(snap, clusters, takesPart)
	index := map[string]int{}
	running := snap.Jobs
	for _, a := range candidates {
		if !takesPart(a.queue) {
			continue
		}
		i, known := index[a.claim()]
		if !known {
			i = len(snap.Jobs)
			index[a.claim()] = i
			snap.Jobs = append(snap.Jobs, scheduler.Job{
				ID: a.claim(), Queue: a.queue.Leaf(), Priority: a.waiting.Priority, Created: a.waiting.Since,
				Phase: scheduler.Started, Spares: spares(running, clusters, a.yielded()),
			})
		}
		j := &snap.Jobs[i]
		j.Created = earlier(j.Created, a.waiting.Since)
		j.Tasks = append(j.Tasks,
			scheduler.Task{ID: strconv.Itoa(len(j.Tasks)), Spec: &scheduler.Spec{Request: amount(1, a.vcpu())}})
		j.Min = len(j.Tasks)
	}
	session, err := s.open(snap, action)
	if err != nil {
		return nil, record.Final(err)
	}
	session.Run()
	return session.Close().Evictions, nil
}

// addHeld adds what clusters hold to a snapshot, each as a job of its own, those of a gang as one; and what else is in
// use.
func (s *Session) addHeld(snap *scheduler.Snapshot, clusters map[string]holding, takesPart func(*record.Queue) bool) {
	rest := map[*record.Queue]scheduler.Vector{}
	for _, q := range s.tree {
		rest[q] = amount(float64(q.Running), q.VCPU)
	}
	gangs := map[string]int{}
	for _, id := range slices.Sorted(maps.Keys(clusters)) {
		h := clusters[id]
		use := amount(1, h.Cluster.VCPU)
		if !use.Fits(rest[h.queue]) {
			continue // given back by now
		}
		rest[h.queue] = rest[h.queue].Minus(use)
		j := held(id, h.queue.Leaf(), use)
		j.Priority, j.Created, j.Kept = h.Job.Priority, h.Job.Submitted, !h.CanGo(s.cfg.Restart, s.u.Now) ||
			!takesPart(h.queue)
		t := &j.Tasks[0]
		t.ID, t.Since = id, h.Cluster.Launched
		if h.Cluster.State == record.ClusterDoomed || h.Cluster.State == record.ClusterReleasing ||
			h.Cluster.Outcome != "" {
			t.State = scheduler.Releasing
		}
		gang := h.Job.ID + record.GangMark + h.Task.Gang
		i, known := gangs[gang]
		if h.Task.Gang == "" || !known {
			gangs[gang] = len(snap.Jobs)
			snap.Jobs = append(snap.Jobs, j)
			continue
		}
		all := &snap.Jobs[i]
		all.Tasks, all.Kept = append(all.Tasks, *t), all.Kept || j.Kept
		all.Batch = true
	}
	for _, q := range s.tree {
		if use := rest[q]; !use.IsZero() {
			snap.Jobs = append(snap.Jobs, held("use of "+q.Name, q.Leaf(), use))
		}
	}
}

// evict has a cluster save its work and stop.
func (s *Session) evict(clusters map[string]holding, e scheduler.Eviction) error {
	h, ok := clusters[e.Task]
	if !ok || !h.CanGo(s.cfg.Restart, s.u.Now) {
		return nil
	}
	if q := s.owner(e.For); q != nil {
		q.Claim(e.For, s.u.Now, s.u.Now.Add(2*s.cfg.Overhead))
		s.changed[q] = true
	}
	h.Cluster.For = e.For
	return s.u.Apply(attempt.DecideLeave(h.Cluster, record.LeaveForOthers, e.Reason, s.cfg.Overhead, s.u.Now))
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

// madeFor is what of the tree room is being made for besides a task; empty if nothing.
func (s *Session) madeFor(a admission) string {
	for _, q := range s.tree {
		for _, c := range q.Claims {
			if c.For != a.claim() && s.u.Now.Before(c.Until) {
				return c.For
			}
		}
	}
	return ""
}

// claim names what room is made for: a task, or a gang.
func (a admission) claim() string { return claimOf(a.job.ID, a.name, a.task.Gang) }

// owner is the queue of the candidate that room is made for.
func (s *Session) owner(job string) *record.Queue {
	for _, a := range s.candidates {
		if a.claim() == job {
			return a.queue
		}
	}
	return nil
}
