package check

import (
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/planner"
	"github.com/tradewind-broker/tradewind/internal/sim/weather"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// For tasks that share machines, at every transaction:
const (
	// InvWorkerSize: the tasks on a worker hold at most the resources of the bought machine.
	InvWorkerSize = "a worker holds no more than its size"
	// InvWorkerJob: a worker runs only tasks of its job.
	InvWorkerJob = "a worker runs tasks of its job"
	// InvWorkerGone: a worker leaves its pool when its attempt is booked. Its tasks end soon after.
	InvWorkerGone = "no task stays on a worker that has ended"
)

// Checked continuously:
const (
	// InvWorkerIdle: a worker on which nothing runs leaves when it costs more than it can save.
	InvWorkerIdle = "an idle worker leaves"
	// InvWorkerStarved: a task does not wait for long if a worker has room for it, or if one may be bought.
	InvWorkerStarved = "no task starves for a worker"
)

// A worker on which nothing runs may stay for idleWorth while tasks of its group are unfinished: the limits of the
// broker's rule are below it. Then it leaves within idleWithin: it syncs, reports its end, and calls may fail.
const (
	idleWorth  = 10 * time.Minute
	idleWithin = 20 * time.Minute
)

// starvesWithin is the maximum time for which a task waits if a worker has room or may be bought: two checks of
// queues by reconcile, and a session.
const starvesWithin = 2*10*time.Minute + 5*time.Minute

// workerChecker is the checker's knowledge of the workers of all jobs.
type workerChecker struct {
	settled []attemptKey                    // attempts that the current transaction settles
	joined  map[string]*Machine             // by POOL/MACHINE
	idle    map[string]idleness             // the same
	starved map[attemptKey]time.Duration    // by task; attempt is 0
	widowed map[*attemptState]time.Duration // open attempts whose worker has ended
}

// idleness returns the time for which nothing has run on a worker.
type idleness struct {
	time   time.Duration
	wanted bool // tasks of its group are unfinished
}

func newWorkerChecker() workerChecker {
	return workerChecker{joined: map[string]*Machine{}, idle: map[string]idleness{},
		starved: map[attemptKey]time.Duration{}, widowed: map[*attemptState]time.Duration{}}
}

// isWorker reports whether a task is a worker.
func (s *Job) isWorker(task int) bool {
	return s.user != nil && task < len(s.user.Spec.Tasks) && record.IsWorker(s.user.Spec, task)
}

// shares reports whether a task may run on a worker.
func (s *Job) shares(task int) bool {
	return s.user != nil && task < len(s.user.Spec.Tasks) && s.user.Spec.Tasks[task].ShareGroup > 0
}

// AsksForWorker reports whether the body of an event announces a worker.
func (c *Checker) AsksForWorker(body []byte) bool {
	ev, err := events.Parse(body)
	ready, ok := ev.Data.(events.TaskReady)
	return err == nil && ok && c.state(ready.Job).isWorker(ready.Task)
}

// WorkerJoins records which bought machine a machine of a job's pool is.
func (c *Checker) WorkerJoins(m *Machine, pool, name string) {
	task, attempt, ok := record.WorkerAttempt(name)
	job, of := record.JobOfPool(pool)
	if !ok || !of || record.ClusterID(job, task, attempt) != m.Cluster {
		c.Violatef(InvAssigned, "%s has to join %s as %s", m.Cluster, pool, name)
		return
	}
	c.workers.joined[pool+"/"+name] = m
}

// workerOf returns the attempt of which a machine of a job's pool is.
func (c *Checker) workerOf(pool, machine string) (s *Job, of *attemptState) {
	job, ok := record.JobOfPool(pool)
	task, attempt, named := record.WorkerAttempt(machine)
	if s = c.Jobs[job]; !ok || !named || s == nil {
		return nil, nil
	}
	return s, s.attempts[attemptKey{job, task, attempt}]
}

// checkWorkers checks a partition with the workers of a job.
func (c *Checker) checkWorkers(pool string, p record.Partition) {
	job, ok := record.JobOfPool(pool)
	if !ok {
		return
	}
	for i := range p.Machines {
		m := &p.Machines[i]
		_, of := c.workerOf(pool, m.ID)
		if of == nil {
			c.Violatef(InvWorkerJob, "%s has %s, which is no worker of it", pool, m.ID)
			return
		}
		var holds apitypes.Capacity
		for _, use := range m.Uses {
			holds.Add(use.Hold)
			if record.ClusterJob(use.Cluster) != job {
				c.Violatef(InvWorkerJob, "%s of %s is assigned to %s", m.ID, job, use.Cluster)
			}
		}
		if size, known := sizeOf(of.Offer); known &&
			(holds.CPUs > size.CPUs+Rounding || holds.MemoryGiB > size.MemoryGiB+Rounding) {
			c.Violatef(InvWorkerSize, "%s of %s is a %s with %+v, but holds %+v", m.ID, job, of.Offer.InstanceType,
				size, holds)
		}
		if of.settled {
			c.Violatef(InvWorkerGone, "%s is in %s, but its attempt has ended", m.ID, pool)
		}
	}
}

// sizeOf returns the size of a machine by the catalogue.
func sizeOf(o apitypes.Offer) (size apitypes.Capacity, known bool) {
	l, known := weather.Find(weather.ListingOf(o))
	return apitypes.Capacity{CPUs: l.VCPU, MemoryGiB: planner.ListingGiB(&l)}, known
}

// partOf returns the workers of a job.
func (c *Checker) partOf(job string) record.Partition {
	return c.pool.parts[record.PartitionKey(record.JobPool(job), 0)]
}

// checkSettled checks that the workers whose attempts the transaction settled are in no pool.
func (c *Checker) checkSettled() {
	for _, k := range c.workers.settled {
		part := c.partOf(k.job)
		if _, here := part.Machine(record.WorkerName(k.task, k.attempt)); here {
			c.Violatef(InvWorkerGone, "attempt %v is booked, but its machine is in the pool of its job", k)
		}
	}
	c.workers.settled = c.workers.settled[:0]
}

// endedWith reports whether an attempt is on a worker that has ended.
func (c *Checker) endedWith(a *attemptState) bool {
	if len(a.Hosts) == 0 {
		return false
	}
	s, of := c.workerOf(a.Offer.Region, a.Hosts[0])
	if of == nil {
		return false
	}
	_, closed := s.closed[of.cluster]
	return closed || of.Outcome != ""
}

// lookAtWorkers checks the workers of a job.
func (c *Checker) lookAtWorkers(s *Job) {
	if s.user == nil || !s.user.Spec.HasWorkers() || c.reconcileStalled() {
		return
	}
	part := c.partOf(s.ID)
	for i := range part.Machines {
		c.checkIdle(s, part.Pool, &part.Machines[i])
	}
	for _, a := range s.order {
		c.checkWidowed(s, a)
	}
	for i := range s.Record.Tasks {
		c.checkStarves(s, &part, i)
	}
}

// checkIdle checks that a worker does not stay idle.
func (c *Checker) checkIdle(s *Job, pool string, m *record.PoolMachine) {
	at := pool + "/" + m.ID
	on := c.workers.joined[at]
	cut := c.sky.Outage(on.Cloud) || c.sky.Cut(on.ID) || c.sky.Closed() // it cannot report its end
	if on == nil || !on.Speaks || len(m.Uses) > 0 || cut {
		delete(c.workers.idle, at)
		return
	}
	was, now := c.workers.idle[at], idleness{wanted: s.wants(m)}
	most := idleWithin
	if now.wanted {
		most += idleWorth
	}
	if now.wanted || !was.wanted { // else its last task has only just ended elsewhere
		now.time = was.time
	}
	now.time += lookEvery
	if c.workers.idle[at] = now; now.time > most {
		c.Violatef(InvWorkerIdle, "nothing runs on %s, %s of %s, for %v", on.ID, m.ID, s.ID, now.time)
	}
}

// wants reports whether a worker may still get a task of its job.
func (s *Job) wants(m *record.PoolMachine) bool {
	for i := range s.Record.Tasks {
		state := s.Tasks[i].State
		if s.user.Spec.Tasks[i].ShareGroup == m.Worker.Group+1 && state != record.TaskSucceeded &&
			state != record.TaskFailed && s.Record.Suspended() == nil {
			return true
		}
	}
	return false
}

// checkWidowed checks that an attempt ends with its worker.
func (c *Checker) checkWidowed(s *Job, a *attemptState) {
	if a.Outcome != "" || !s.shares(a.task) || !c.endedWith(a) {
		delete(c.workers.widowed, a)
		return
	}
	if c.workers.widowed[a] += lookEvery; c.workers.widowed[a] > ownedWithin {
		c.Violatef(InvWorkerGone, "%s is open, but its worker %s ended %v ago", a.cluster, a.Hosts[0],
			c.workers.widowed[a])
	}
}

// checkStarves checks that a waiting task gets a worker.
func (c *Checker) checkStarves(s *Job, part *record.Partition, task int) {
	k := attemptKey{s.ID, task, 0}
	if !s.shares(task) || !c.mayRun(s, task) || !c.roomOrNone(s, part, task) {
		delete(c.workers.starved, k)
		return
	}
	if c.workers.starved[k] += lookEvery; c.workers.starved[k] > starvesWithin {
		c.Violatef(InvWorkerStarved,
			"task %d of %s waits, though for %v a worker has had room or could have been bought: %s", task, s.ID,
			c.workers.starved[k], s.describe())
	}
}

// mayRun reports whether nothing but a machine is missing for a waiting task.
func (c *Checker) mayRun(s *Job, task int) bool {
	if c.Stormy && !c.owed.calm || s.Record.State != apitypes.JobRunning || s.waiting[task] == 0 ||
		s.Record.Queue != record.DefaultQueueName || s.Record.BudgetUSD > 0 || !s.couldGo(task, c.Now) ||
		!c.cfg.Limit.None() ||
		c.month.paid(s.Record.Queue, c.queues) || c.anyBlock(c.Now) {
		return false
	}
	for _, fn := range []string{events.FnSchedule, events.FnOptimize, events.FnBid} {
		if stalled, _ := c.sky.Stalled(fn); stalled {
			return false
		}
	}
	return true
}

// roomOrNone reports whether a worker has room for a task, or no worker of the task's group runs or waits for a
// better price.
func (c *Checker) roomOrNone(s *Job, part *record.Partition, task int) bool {
	t := &s.user.Spec.Tasks[task]
	cpus, gib := t.Hold()
	for i := range part.Machines {
		m := &part.Machines[i]
		on := c.workers.joined[part.Pool+"/"+m.ID]
		free := m.Free()
		if m.Worker.Group == t.ShareGroup-1 && on != nil && on.Speaks && !m.Draining && !m.Leaving &&
			!c.Now.Before(m.BlockedUntil) && free.CPUs >= cpus && free.MemoryGiB >= gib {
			return true
		}
	}
	return !s.hasWorker(t)
}

// hasWorker reports whether a worker of a task's group runs, is bought, or waits for a better price.
func (s *Job) hasWorker(t *dag.Task) bool {
	for i := s.Record.Tasks; i < len(s.user.Spec.Tasks); i++ {
		if s.user.Spec.Tasks[i].Worker.Group != t.ShareGroup-1 {
			continue
		}
		switch w := s.Tasks[i]; w.State {
		case record.TaskAdmitted, record.TaskLaunching, record.TaskRunning:
			return true
		case record.TaskQueued:
			if !w.WaitSince.IsZero() {
				return true
			}
		}
	}
	return false
}
