package broker

import (
	"context"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/history"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// Rerun submits a job again as a new job, with its deadline counted from now and its whole budget. It runs all tasks,
// or with failed only those that failed or never ran: the other tasks then count as succeeded, and their outputs are
// read from the first job. The same token returns the same new job. It fails with ErrNotFound. It fails with a
// *dag.Error if something that the job needs no longer exists: the values of its secrets, which are kept only while
// it is open, or uploaded code. With failed, it fails with ErrUnfinished if the job still runs, and with ErrNoFailure
// if no task failed.
func (b *Users) Rerun(ctx context.Context, id, token string, failed bool) (record.Job, error) {
	u := b.txns.NewUnit(ctx, FnAPI)
	job, err := view.LoadJob(u, id)
	if err != nil {
		return record.Job{}, err
	}
	spec, err := u.Spec(job)
	if err != nil {
		return record.Job{}, err
	}
	s := Submission{Spec: history.Unlearned(spec), Token: token, Source: job.Source}
	how := "again\x00"
	if failed {
		how = "failed\x00"
		if s.done, err = succeeded(u, job, spec); err != nil {
			return record.Job{}, err
		}
		s.from = append(slices.Clone(job.From), job.ID)
	}
	if token != "" {
		s.Token = how + id + "\x00" + token
	}
	return b.Submit(ctx, s)
}

// succeeded returns the tasks of a finished job that need not run again. Tasks of a gang run again together.
func succeeded(u *txn.Unit, job record.Job, spec *dag.Job) ([]record.Task, error) {
	if !job.State.Finished() {
		return nil, fmt.Errorf("job %s %w: only a finished job can be rerun in part", job.ID,
			record.ErrUnfinished)
	}
	tasks, _, err := attempt.TasksNow(u, job.ID)
	if err != nil {
		return nil, err
	}
	done := make([]bool, job.Tasks)
	for i := range tasks {
		done[tasks[i].Index] = tasks[i].State == record.TaskSucceeded
	}
	if !slices.Contains(done, false) {
		return nil, fmt.Errorf("job %s %w", job.ID, record.ErrNoFailure)
	}
	again := map[string]bool{} // gangs
	for i := range spec.Tasks {
		if t := &spec.Tasks[i]; !done[i] && t.Gang != "" {
			again[t.Gang] = true
		}
	}
	return slices.DeleteFunc(tasks, func(t record.Task) bool {
		of := &spec.Tasks[t.Index]
		return !done[t.Index] || again[of.Gang] || again[of.Joins]
	}), nil
}

// takenAtOnce is the number of tasks of another job that one transaction takes over.
const takenAtOnce = 40

// takeOver writes the records of tasks that a new job does not run, before the job itself. It does nothing if the job
// exists.
func (b *Users) takeOver(ctx context.Context, id string, tasks []record.Task) error {
	for part := range slices.Chunk(tasks, takenAtOnce) {
		cause := fmt.Sprintf("rerun/%s/%d", id, part[0].Index)
		err := b.txns.Transact(ctx, FnAPI, cause, false, func(u *txn.Unit) error {
			var d record.Decision
			if _, exists, err := recordcache.Get[record.Job](u, record.JobKey(id)); err != nil || exists {
				return record.OrSkip(err)
			}
			d.Hold(record.JobKey(id))
			for _, t := range part {
				d.Put(record.TaskKey(id, t.Index), record.Task{
					Job: id, Index: t.Index, State: record.TaskSucceeded, Progress: 1, Place: t.Place, Output: t.Output,
					ReadyAt: t.ReadyAt, StartedAt: t.StartedAt, EndedAt: t.EndedAt, Gang: t.Gang, Joins: t.Joins,
				})
			}
			return u.Apply(d)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// progressOf returns the progress of a new job, some of whose tasks are done.
func progressOf(job record.Job, done []record.Task) record.Progress {
	p := record.Progress{Phases: slices.Repeat([]byte{record.PhaseWaiting}, job.Tasks), Succeeded: len(done)}
	for i := range done {
		p.Phases[done[i].Index] = record.PhaseSucceeded
	}
	return p
}
