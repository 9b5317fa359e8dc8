package record

import (
	"fmt"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// A worker is a machine that the broker buys for the tasks of a job that share machines. It is bought as an attempt
// of one of the job's worker tasks (dag.Task.Worker), so it has the identity, lease and cost of that attempt. When it
// is up, it becomes a machine of the job's own pool, and tasks run on it as on any machine of a pool.

// JobPool returns the name of the pool of a job's workers. No name of a user's pool contains a dot.
func JobPool(job string) string { return apitypes.JobPool + job }

// JobOfPool returns the job whose workers are in a pool. ok is false for the pool of a user.
func JobOfPool(pool string) (job string, ok bool) { return strings.CutPrefix(pool, apitypes.JobPool) }

// NewJobPool is the record of a new job's pool.
func NewJobPool(job string, now time.Time) Pool {
	return Pool{Name: JobPool(job), PoolSettings: PoolSettings{Partitions: 1}, Created: now}
}

// WorkerName returns the name of a worker in its job's pool. It names one attempt of a worker task.
func WorkerName(task, attempt int) string { return fmt.Sprintf("w%d-%d", task, attempt) }

// WorkerAttempt returns the task and attempt in the name of a worker. ok is false for another name.
func WorkerAttempt(name string) (task, attempt int, ok bool) {
	n, err := fmt.Sscanf(name, "w%d-%d", &task, &attempt)
	return task, attempt, err == nil && n == 2 && name == WorkerName(task, attempt)
}

// IsWorker reports whether a task of a job is one of its workers.
func IsWorker(spec *dag.Job, task int) bool { return spec.Tasks[task].Worker != nil }

// Shared reports whether the machine of a cluster is a worker of its job.
func (cl *Cluster) Shared() bool {
	_, ok := JobOfPool(cl.Offer.Region)
	return ok && cl.Assigned()
}

// PoolWorker has the facts about a pool machine that is a worker.
type PoolWorker struct {
	Task    int            `json:"task"`    // the worker task; the machine belongs to one of its attempts
	Attempt int            `json:"attempt"` // its number
	Group   int            `json:"group"`   // the share group
	Offer   apitypes.Offer `json:"offer"`   // what was bought
	OfferID string         `json:"offerID"`
	// IdleSince is the time since which nothing runs on it; zero while something runs.
	IdleSince time.Time `json:"idleSince,omitzero"`
}

// Unplaced returns the number of tasks of a share group that are announced and not on a worker.
func Unplaced(spec *dag.Job, progress Progress, part *Partition, group int) (n int) {
	for i, phase := range progress.Phases {
		if phase == PhaseReady && spec.Tasks[i].ShareGroup == group+1 {
			n++
		}
	}
	for i := range part.Machines {
		if m := &part.Machines[i]; m.IsWorker() && m.Worker.Group == group {
			n -= len(m.Uses)
		}
	}
	return n
}

// Unfinished reports whether a task of a share group has neither succeeded nor failed.
func Unfinished(spec *dag.Job, progress Progress, group int) bool {
	for i, phase := range progress.Phases {
		if IsOpen(phase) && spec.Tasks[i].ShareGroup == group+1 {
			return true
		}
	}
	return false
}
