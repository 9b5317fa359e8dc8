package session

import (
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/scheduler"
)

// snapshot is the tree with candidates: a job of the scheduler is a job of ours, with those of its tasks that could go.
// What others need that room has been made for is kept for them.
func (s *Session) snapshot(candidates, kept []admission) (*scheduler.Snapshot, map[string]admission) {
	snap := snapshot(s.tree, s.u.Now)
	addKept(snap, kept)
	byTask := make(map[string]admission, len(candidates))
	index, given := map[string]int{}, map[string]bool{}
	rest := map[*record.Queue]scheduler.Vector{}
	for _, q := range s.tree {
		rest[q] = amount(float64(q.Running), q.VCPU)
	}
	for _, a := range candidates {
		i, ok := index[a.unit()]
		if !ok {
			i = len(snap.Jobs)
			index[a.unit()] = i
			j := scheduler.Job{ID: a.unit(), Queue: a.queue.Leaf(), Priority: a.waiting.Priority,
				Created: a.waiting.Since, Phase: scheduler.Started, Kept: true}
			if use := amount(float64(a.ledger.Outstanding), a.ledger.VCPU); !use.IsZero() && use.Fits(rest[a.queue]) &&
				!given[a.job.ID] {
				j.Tasks = held("", "", use).Tasks
				rest[a.queue] = rest[a.queue].Minus(use)
				given[a.job.ID] = true // which of a job's units have it makes no difference to its queue
			}
			if a.gang != nil {
				j.Min = len(j.Tasks) + len(a.gang.members)
			}
			snap.Jobs = append(snap.Jobs, j)
		}
		j := &snap.Jobs[i]
		j.Created = earlier(j.Created, a.waiting.Since)
		j.WaitingSince = j.Created
		id := strconv.Itoa(a.waiting.Task)
		j.Tasks = append(j.Tasks, scheduler.Task{ID: id, Spec: &scheduler.Spec{Request: amount(1, a.vcpu())}})
		byTask[a.job.ID+"/"+id] = a
	}
	for _, q := range s.tree {
		if use := rest[q]; !use.IsZero() {
			snap.Jobs = append(snap.Jobs, held("use of "+q.Name, q.Leaf(), use))
		}
	}
	return snap, byTask
}

// addKept adds what is kept for tasks that room has been made for.
func addKept(snap *scheduler.Snapshot, kept []admission) {
	for _, a := range kept {
		snap.Jobs = append(snap.Jobs, held("kept for "+a.claim()+"/"+strconv.Itoa(a.waiting.Task), a.queue.Leaf(),
			amount(1, a.vcpu())))
	}
}

// taskOf is the key of the task that a session has bound: that of its job, whatever unit it was a member of.
func taskOf(bind scheduler.Bind) string {
	job, _, _ := strings.Cut(bind.Job, "/")
	return job + "/" + bind.Task
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
