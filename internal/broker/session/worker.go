package session

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Tasks that share machines run on their job's workers (see record.PoolWorker). A session gives each task to a worker
// with room. If there is none, the task stays in its queue, and the session requests as many more workers as the plan
// has and the waiting tasks need. Only workers hold quota, budget and a place of the plan. A task that shares holds
// none.

// crew is a session's data about the workers of one job.
type crew struct {
	view record.PoolSeen
	// waiting is the total of the resources of tasks that found no room, by share group.
	waiting map[int]apitypes.Capacity
	// drained has the worker tasks that take no more tasks (see record.Plan.Drained).
	drained map[int]bool
	stale   bool // this session has placed a task since it read the workers
}

// shares reports whether a waiting task runs on a worker of its job. If the plan has no workers for its group, the
// task gets its own machine.
func (a *admission) shares() bool { return a.side != nil && a.side.shares(a.waiting.Task) }

func (of *side) shares(task int) bool {
	if of.spec == nil || of.plan == nil || task >= len(of.spec.Tasks) {
		return false
	}
	group := of.spec.Tasks[task].ShareGroup
	return group > 0 && len(of.workers(group-1)) > 0
}

// beginsAtOnce reports whether the attempt of an admitted task starts with its admission: it runs on a worker, and no
// bucket has to be created for it.
func (a *admission) beginsAtOnce() bool {
	return a.pool != nil && a.pool.worker != nil && !a.spec.Tasks[a.waiting.Task].MakesBuckets()
}

// isWorker reports whether a waiting task is a worker.
func (a *admission) isWorker() bool { return a.spec != nil && record.IsWorker(a.spec, a.waiting.Task) }

// workers returns the tasks that are the workers of a group in the current plan.
func (of *side) workers(group int) []int {
	if all, known := of.crews[group]; known {
		return all
	}
	var all []int
	for i := of.spec.Work(); i < len(of.spec.Tasks); i++ {
		if of.spec.Tasks[i].Worker.Group == group && of.plan.Of(i) != nil {
			all = append(all, i)
		}
	}
	if of.crews == nil {
		of.crews = map[int][]int{}
	}
	of.crews[group] = all
	return all
}

// crewOf loads the workers of a job.
func (s *Session) crewOf(of *side) (*crew, error) {
	if of.crew != nil && !of.crew.stale {
		return of.crew, nil
	}
	name := record.JobPool(of.job.ID)
	p, found, err := recordcache.Get[record.Pool](s.u, record.PoolKey(name))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, record.Final(errors.New("broker: job " + of.job.ID + " has no record for its workers"))
	}
	part, _, err := recordcache.Get[record.Partition](s.u, record.PartitionKey(name, 0))
	if err != nil {
		return nil, err
	}
	if of.crew == nil {
		drained, err := s.drained(of, &part)
		if err != nil {
			return nil, err
		}
		of.crew = &crew{waiting: map[int]apitypes.Capacity{}, drained: drained}
	}
	seen := make(map[string]time.Time, len(part.Machines))
	for i := range part.Machines { // the code that ends a worker removes it from the partition
		if m := &part.Machines[i]; !m.IsWorker() || !of.crew.drained[m.Worker.Task] {
			seen[m.ID] = s.u.Now
		}
	}
	of.crew.stale = false
	of.crew.view = record.PoolSeen{Pool: p, Parts: []record.PartSeen{{Partition: part, Seen: seen}}, Order: []int{0}}
	return of.crew, nil
}

// drained returns the worker tasks of a job that take no more tasks. It reads the job's progress only if the planned
// time of a worker is over.
func (s *Session) drained(of *side, part *record.Partition) (map[int]bool, error) {
	over := map[int]bool{} // share groups
	for i := of.spec.Work(); i < len(of.spec.Tasks); i++ {
		if of.plan != nil && of.plan.Of(i) != nil && !s.u.Now.Before(of.plan.Until(i)) {
			over[of.spec.Tasks[i].Worker.Group] = true
		}
	}
	if len(over) == 0 {
		return nil, nil
	}
	progress, _, err := recordcache.Get[record.Progress](s.u, record.ProgressKey(of.job.ID))
	if err != nil {
		return nil, err
	}
	all := map[int]bool{}
	for group := range over {
		for _, i := range of.plan.Drained(of.spec, progress, part, group, s.u.Now) {
			all[i] = true
		}
	}
	return all, nil
}

// holdOf returns the resources that a task holds on a worker.
func holdOf(of *side, task int) apitypes.Capacity {
	cpus, gib := of.spec.Tasks[task].Hold()
	return apitypes.Capacity{CPUs: cpus, MemoryGiB: gib}
}

// roomOn returns the workers that have room for a task, by class, and the hours that the task takes on each.
func (s *Session) roomOn(c *crew, of *side, task int) map[record.MachineClass]float64 {
	hold, out := holdOf(of, task), map[record.MachineClass]float64{}
	t := &of.spec.Tasks[task]
	for i := range c.view.Parts[0].Machines {
		m := &c.view.Parts[0].Machines[i]
		if !m.IsWorker() || m.Worker.Group != t.ShareGroup-1 || c.drained[m.Worker.Task] ||
			!m.Usable(s.u.Now, s.Config.Pool, s.u.Now) || !record.Fits(hold, m.WithPromises("", s.u.Now).Free()) {
			continue
		}
		out[m.Class()] = record.Hours(t.Time.For(m.Type, "", 0, m.Worker.Offer.Speed, 1))
	}
	return out
}

// turn identifies the waiting tasks of a job that take turns together.
type turn struct {
	job      string
	priority int
}

// longestFirst reorders those waiting tasks of the first one's job that share machines. Tasks with the most hours
// from their start to the end of the job come first, as in list scheduling by upward rank (Topcuoglu et al.,
// Performance-Effective and Low-Complexity Task Scheduling for Heterogeneous Computing, 2002, §4). So the last tasks
// are short, and the machines end together. The job keeps its turns. sorted has the jobs that are already in order.
func (s *Session) longestFirst(waiting []apitypes.Waiting, sorted map[turn]bool) {
	of := turn{waiting[0].Job, waiting[0].Priority}
	if sorted[of] {
		return
	}
	sorted[of] = true
	var turns []int
	for i, w := range waiting {
		if w.Job == of.job && w.Priority == of.priority {
			turns = append(turns, i)
		}
	}
	if len(turns) < 2 {
		return
	}
	job, err := s.sideOf(of.job)
	if err != nil {
		return // it is loaded, and the session decides again
	}
	turns = slices.DeleteFunc(turns, func(i int) bool { return !s.planShares(job, waiting[i].Task) })
	tasks := make([]apitypes.Waiting, len(turns))
	for i, at := range turns {
		tasks[i] = waiting[at]
	}
	slices.SortStableFunc(tasks, func(x, y apitypes.Waiting) int {
		return cmp.Compare(job.rank(y.Task), job.rank(x.Task))
	})
	for i, at := range turns {
		waiting[at] = tasks[i]
	}
}

// planShares reports whether a task of a job runs on workers, if the job and its plan are loaded.
func (s *Session) planShares(of *side, task int) bool {
	if of.job.State != apitypes.JobRunning || of.job.Plan.IsZero() || of.job.Suspended() != nil {
		return false
	}
	_, err := s.planned(of)
	return err == nil && of.shares(task)
}

// rank returns the planned time from the start of a task to the end of the last task that depends on it, without
// waiting, in whole seconds. So members of an array on the same machine type have equal ranks.
func (of *side) rank(task int) int64 {
	if seconds, known := of.ranks[task]; known {
		return seconds
	}
	if of.ranks == nil {
		of.ranks = map[int]int64{}
	}
	if of.graph == nil && len(of.spec.Edges) > 0 {
		of.graph = of.spec.Graph()
	}
	after := int64(0)
	if of.graph != nil {
		for _, child := range of.graph.Children(task) {
			after = max(after, of.rank(int(child)))
		}
	}
	if task < len(of.plan.TaskHours) {
		after += int64(record.Duration(of.plan.TaskHours[task]).Round(time.Second) / time.Second)
	}
	of.ranks[task] = after
	return after
}

// passesShared reports whether a waiting task that shares machines can be skipped, because no worker has room for it.
// It counts as waiting for another worker.
func (s *Session) passesShared(of *side, w apitypes.Waiting) (bool, error) {
	c, err := s.crewOf(of)
	if err != nil || len(s.roomOn(c, of, w.Task)) > 0 {
		return false, err
	}
	s.waitForWorker(of, w.Task)
	return true, nil
}

func (s *Session) waitForWorker(of *side, task int) {
	group := of.spec.Tasks[task].ShareGroup - 1
	hold := of.crew.waiting[group]
	hold.Add(holdOf(of, task))
	of.crew.waiting[group] = hold
}

// toWorkers places bound tasks that share machines on workers of their jobs. A task that finds no room stays in its
// queue.
func (s *Session) toWorkers(bound []*admission) error {
	of := map[*side][]*admission{}
	var order []*side
	for _, a := range bound {
		if !a.shares() {
			continue
		}
		if of[a.side] == nil {
			order = append(order, a.side)
		}
		of[a.side] = append(of[a.side], a)
	}
	for _, side := range order {
		c, err := s.crewOf(side)
		if err != nil {
			return err
		}
		wants := make([]*want, 0, len(of[side]))
		for _, a := range of[side] {
			if room := s.roomOn(c, side, a.waiting.Task); len(room) > 0 {
				for class := range room {
					room[class] *= (1 - a.task.Progress) * float64(1+a.task.Chunk)
				}
				wants = append(wants, &want{a: a, hold: holdOf(side, a.waiting.Task), machines: room})
			}
		}
		if err := s.place(&c.view, c.view.Order, wants); err != nil {
			return err
		}
		for _, a := range of[side] {
			if a.pool == nil {
				a.awaits = true
				s.waitForWorker(side, a.waiting.Task)
				continue
			}
			a.pool.worker = workerOf(c, a.pool.hosts[0])
			a.pool.offer.Speed = a.pool.worker.Offer.Speed
		}
	}
	return nil
}

// workerOf returns the broker's data about a worker of a crew.
func workerOf(c *crew, id string) *record.PoolWorker {
	i, _ := c.view.Parts[0].Machine(id)
	return &c.view.Parts[0].Machines[i].Worker
}

// askForWorkers announces more workers for the tasks that found no room: at most as many as the plan has and these
// tasks need.
func (s *Session) askForWorkers() error {
	var lacks error
	for _, id := range slices.Sorted(maps.Keys(s.jobs)) {
		of := s.jobs[id]
		if of.crew == nil || of.job.State != apitypes.JobRunning {
			continue
		}
		for _, group := range slices.Sorted(maps.Keys(of.crew.waiting)) {
			lacks = cmp.Or(lacks, s.askFor(of, group, of.crew.waiting[group]))
		}
	}
	return lacks
}

// askFor announces workers of one group for tasks that need waiting in total. Workers that are on their way count.
//
// While another worker runs or is on its way, it waits with workers that the plan buys later. It buys no worker whose
// planned time is over if the others can do the rest. Workers that have ended under this plan because they had
// nothing to do are not bought again: the job is planned again, and the new plan decides whether more workers are
// worth their boot.
func (s *Session) askFor(of *side, group int, waiting apitypes.Capacity) error {
	var d record.Decision
	all, others, lacks := s.crewTasks(of, group)
	again := false
	for n, i := range of.workers(group) {
		if waiting.CPUs <= record.CapacityEps && waiting.MemoryGiB <= record.CapacityEps || s.u.Items() >= sessionFull {
			break
		}
		t := all[n]
		switch {
		case t == nil:
			continue
		case onItsWay(t):
			if s.joined(of, i, t.Attempt) { // the worker has no room
				continue
			}
		case others && s.u.Now.Before(of.plan.Due(i)):
			continue
		case of.crew.drained[i]:
			continue
		case others && t.State == record.TaskSucceeded && t.EndedAt.After(of.plan.At):
			again = true
			continue
		default:
			d.Emit(events.TaskReady{Job: of.job.ID, Task: i, Queue: of.job.Queue, Try: t.Try + 1})
			others = true
		}
		planned := of.plan.Of(i)
		waiting.CPUs = math.Max(waiting.CPUs-planned.VCPU, 0)
		waiting.MemoryGiB = math.Max(waiting.MemoryGiB-planned.MemoryGiB, 0)
	}
	if again {
		d.Replan(of.job, "tasks wait, and workers have ended")
	}
	return cmp.Or(lacks, s.u.Apply(d))
}

// crewTasks returns the tasks that are the workers of a group (nil for those that cannot be read), and whether one of
// them runs or is on its way.
func (s *Session) crewTasks(of *side, group int) (all []*record.Task, some bool, lacks error) {
	for _, i := range of.workers(group) {
		t, _, err := recordcache.Get[record.Task](s.u, record.TaskKey(of.job.ID, i))
		if lacks = cmp.Or(lacks, err); err != nil {
			all = append(all, nil)
			continue
		}
		all, some = append(all, &t), some || onItsWay(&t)
	}
	return all, some, lacks
}

// onItsWay reports whether a worker runs or was requested.
func onItsWay(t *record.Task) bool {
	return slices.Contains([]record.TaskState{record.TaskQueued, record.TaskAdmitted, record.TaskLaunching,
		record.TaskRunning}, t.State)
}

// joined reports whether a worker has joined the pool of its job.
func (s *Session) joined(of *side, task, attempt int) bool {
	_, found := of.crew.view.Parts[0].Machine(record.WorkerName(task, attempt))
	return found
}

// needed reports whether a task waits for a worker of a group: the task is announced and not on a worker.
func (s *Session) needed(of *side, group int) (bool, error) {
	progress, _, err := recordcache.Get[record.Progress](s.u, record.ProgressKey(of.job.ID))
	if err != nil {
		return false, err
	}
	c, err := s.crewOf(of)
	if err != nil {
		return false, err
	}
	return record.Unplaced(of.spec, progress, &c.view.Parts[0].Partition, group) > 0, nil
}

// dropWorker removes from its queue a worker that no task needs any more.
func (s *Session) dropWorker(a *admission) (d record.Decision) {
	a.task.State, a.task.EndedAt = record.TaskSucceeded, s.u.Now
	d.Put(record.TaskKey(a.job.ID, a.waiting.Task), a.task)
	d.Del(record.WaitKey(a.queue.Name, a.waiting))
	return d
}
