package session

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

const milli = 1000

// micro is the resolution of all limited resources except tasks and vCPUs, because an hourly price has more than
// three digits. Held amounts are rounded up and limits down, with a tolerance for rounding errors in sums (slack).
const (
	micro = 1_000_000
	slack = 1e-3 // of a millionth
)

// unlimited is the capacity of a resource without a limit. It is far more than anyone can request, and far below
// overflow.
const unlimited = int64(1) << 50

func amount(tasks, vcpu float64) scheduler.Vector {
	return scheduler.Vector{record.ResTasks: int64(math.Round(tasks * milli)),
		record.ResVCPU: int64(math.Round(vcpu * milli))}
}

// resources lists the resources that a tree limits in addition to tasks and vCPUs, in the order of its sessions'
// vectors.
type resources []string

// held returns the vector of an amount of tasks, vCPUs and those resources.
func (r resources) held(tasks, vcpu float64, hold apitypes.Amounts) scheduler.Vector {
	v := amount(tasks, vcpu)
	for i, name := range r {
		v[record.ResVCPU+1+i] = int64(math.Ceil(hold[name]*micro - slack)) //nolint:gosec // record.MaxBounded at most
	}
	return v
}

// snapshot describes the tree to the scheduler. It has a single node, the clouds, with the capacity of the whole
// tree.
func snapshot(tree []*apitypes.Queue, now time.Time) *scheduler.Snapshot {
	more := resources(record.Bounded(tree))
	s := &scheduler.Snapshot{Now: now, Resources: append([]string{"tasks", "vCPU"}, more...), Units: amount(1, 1),
		GPU: -1}
	queues := byName(tree)
	capacity := scheduler.Vector{record.ResTasks: unlimited, record.ResVCPU: unlimited}
	for i := range more {
		at := record.ResVCPU + 1 + i
		s.Units[at], capacity[at] = micro, unlimited //nolint:gosec // record.MaxBounded at most
	}
	for _, q := range tree {
		x := scheduler.Queue{Name: q.Name, Weight: q.Weight, Closed: q.Closed,
			Guarantee: more.held(0, q.GuaranteedVCPU, q.Guaranteed)}
		bound := func(l *scheduler.Limit, r int, v float64) {
			switch {
			case v > 0 && r > record.ResVCPU:
				l.Set[r], l.Amount[r] = true, int64(math.Floor(v*micro+slack))
			case v > 0:
				l.Set[r], l.Amount[r] = true, int64(math.Round(v*milli))
			}
		}
		bound(&x.Capability, record.ResTasks, float64(q.MaxRunning))
		bound(&x.Capability, record.ResVCPU, q.MaxVCPU)
		bound(&x.Deserved, record.ResVCPU, q.DeservedVCPU)
		for i, name := range more {
			bound(&x.Capability, record.ResVCPU+1+i, q.Max[name])
			bound(&x.Deserved, record.ResVCPU+1+i, q.Deserved[name])
		}
		if queues[q.Parent] != nil {
			x.Parent = q.Parent
		} else { // the root: its limits are the capacity to share
			for r, set := range x.Capability.Set {
				if set {
					capacity[r] = x.Capability.Amount[r]
				}
			}
		}
		s.Queues = append(s.Queues, x)
		if q.Inner {
			s.Queues = append(s.Queues, scheduler.Queue{Name: q.Name + record.Own, Parent: q.Name, Closed: q.Closed})
		}
	}
	s.Nodes = []scheduler.Node{{Name: "clouds", Capacity: capacity}}
	return s
}

// held returns a job that represents capacity in use.
func held(id, queue string, use scheduler.Vector) scheduler.Job {
	return scheduler.Job{
		ID: id, Queue: queue, Phase: scheduler.Started, Kept: true,
		Tasks: []scheduler.Task{{ID: "held", Spec: &scheduler.Spec{Request: use}, State: scheduler.Running,
			Node: "clouds"}},
	}
}

// scene builds a snapshot: the tree, the capacity that is kept for tasks for which room was made, and jobs.
type scene struct {
	*scheduler.Snapshot
	tree []*apitypes.Queue
	more resources
	rest map[*apitypes.Queue]scheduler.Vector // for each queue, the use that no job represents yet
	at   map[string]int                       // index of the job of waiting tasks, by its ID

	sharing sharing
	phase   scheduler.Phase // phase of a job that holds nothing yet
}

func (s *Session) scene(kept []*admission) *scene {
	x := &scene{Snapshot: snapshot(s.tree, s.u.Now), tree: s.tree,
		more: record.Bounded(s.tree), rest: map[*apitypes.Queue]scheduler.Vector{},
		at: map[string]int{}, sharing: s.sharing(), phase: scheduler.Started}
	for _, q := range s.tree {
		x.rest[q] = x.more.held(float64(q.Running), q.VCPU, q.Use)
	}
	x.share()
	for _, a := range kept {
		x.Jobs = append(x.Jobs, held("kept for "+a.claim()+"/"+strconv.Itoa(a.waiting.Task), record.Leaf(a.queue),
			x.more.held(float64(a.slots()), a.vcpu(), a.holds())))
	}
	return x
}

// represent makes a job represent a part of a queue's use. It returns false if less than that is in use.
func (x *scene) represent(q *apitypes.Queue, of record.Job, use scheduler.Vector) bool {
	fits := use.Fits(x.rest[q])
	if fits {
		x.rest[q] = x.rest[q].Minus(use)
		x.spend(q, x.namespaceOf(of), use)
	}
	return fits
}

// close adds the use that no job represents yet, as one job for each queue that cannot be evicted.
func (x *scene) close() {
	for _, q := range x.tree {
		if use := x.addNamespaceUse(q, x.rest[q]); !use.IsZero() {
			x.Jobs = append(x.Jobs, held("use of "+q.Name, record.Leaf(q), use))
		}
	}
}

// job finds or adds the scheduler's job that a waiting task belongs to. fresh means that it was added.
func (x *scene) job(id string, a *admission) (j *scheduler.Job, fresh bool) {
	i, known := x.at[id]
	if !known {
		i = len(x.Jobs)
		x.at[id] = i
		j := scheduler.Job{ID: id, Queue: record.Leaf(a.queue), Namespace: x.namespaceOf(a.job),
			Priority: a.waiting.Priority, Created: a.since(), Phase: x.phase}
		if a.task.Joins != "" {
			j.Priority -= joinsBy
		}
		x.Jobs = append(x.Jobs, j)
	}
	j = &x.Jobs[i]
	if since := a.since(); since.Before(j.Created) {
		j.Created = since
	}
	return j, !known
}

// addWaiting adds a waiting task to a job.
func (x *scene) addWaiting(j *scheduler.Job, id int, a *admission) {
	request := amount(float64(a.slots()), a.vcpu())
	if len(x.more) > 0 {
		request = x.more.held(float64(a.slots()), a.vcpu(), a.holds())
	}
	j.Tasks = append(j.Tasks, scheduler.Task{ID: strconv.Itoa(id), Spec: &scheduler.Spec{Request: request}})
}

// snapshot returns the tree with the candidates. A job of the scheduler is one of the broker's jobs, with its tasks
// that could be admitted. The capacity for the tasks in kept is reserved.
func (s *Session) snapshot(candidates, kept []*admission) (*scheduler.Snapshot, map[string]*admission) {
	x := s.scene(kept)
	if s.follows(enqueue) {
		x.phase = scheduler.Waiting
	}
	byTask := make(map[string]*admission, len(candidates))
	given := map[string]bool{}
	for _, a := range candidates {
		j, fresh := x.job(a.unit(), a)
		if fresh {
			j.Kept = true
			// The queue does not record which of a job's units holds the job's resources.
			use := x.more.held(float64(a.ledger.Slots()), a.ledger.VCPU, a.ledger.Hold)
			if !use.IsZero() && !given[a.job.ID] && x.represent(a.queue, a.job, use) {
				j.Tasks, j.Phase = held("", "", use).Tasks, scheduler.Started
				given[a.job.ID] = true
			}
			if a.gang() != "" {
				j.Min = len(j.Tasks) + len(a.with.members)
			}
		}
		x.addWaiting(j, a.waiting.Task, a)
		byTask[a.key()] = a
		if a.task.Joins != "" {
			continue // a joining task may wait for ever
		}
		j.WaitingSince = j.Created
		if a.gang() == "" { // a gang has waited as long as its first task
			j.Tasks[len(j.Tasks)-1].Since = a.since()
		}
	}
	x.close()
	return x.Snapshot, byTask
}

// taskOf returns the key of a task that a session has bound. It does not depend on the unit to which the task
// belonged.
func taskOf(bind scheduler.Bind) string {
	job, _, _ := strings.Cut(bind.Job, "/")
	return job + "/" + bind.Task
}
