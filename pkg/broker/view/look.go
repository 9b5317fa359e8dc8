package view

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tradewind-broker/tradewind/pkg/broker/bid"
	"github.com/tradewind-broker/tradewind/pkg/broker/book"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/unit"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Part is a part of a job's tasks: those from the index From on, as many as Limit and partBytes allow; a Limit of 0 is
// all.
type Part struct{ From, Limit int }

// partBytes is about how long the JSON of a part may be: a function's answer has at most 6 MB, and the story of the
// same tasks is longer.
const partBytes = 2 << 20

// sight is what a look at a job has read, for the next one to read what may have changed since.
type sight struct {
	phases   []record.Phase
	clusters []record.Cluster
	tasks    []record.Task    // by index, as stored
	attempts []record.Attempt // by task and number, as stored
}

// JobDetail loads all that users see of a job. It fails with ErrNotFound.
func (b *Views) JobDetail(ctx context.Context, id string) (*JobDetail, error) {
	return b.look(ctx, id, Part{}, nil)
}

// JobPart loads what users see of a job and of some of its tasks; the plans come with the first. It fails with
// ErrNotFound.
func (b *Views) JobPart(ctx context.Context, id string, p Part) (*JobDetail, error) {
	return b.look(ctx, id, p, nil)
}

// JobSince is JobDetail for whoever has looked at the job before: it reads only what may have changed. Nil is no look.
func (b *Views) JobSince(ctx context.Context, id string, was *JobDetail) (*JobDetail, error) {
	return b.look(ctx, id, Part{}, was)
}

// look reads in the order in which a task ends, its phase before its machines and these before its history: what is
// over and without machines by the first two does not change after the third.
func (b *Views) look(ctx context.Context, id string, p Part, was *JobDetail) (*JobDetail, error) {
	u := b.NewUnit(ctx, "api")
	if err := u.Preload(record.JobKey(id), record.ProgressKey(id), record.LedgerKey(id)); err != nil {
		return nil, err
	}
	job, found, err := book.Get[record.Job](u, record.JobKey(id))
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("job %s: %w", id, record.ErrNotFound)
	}
	progress, _, err := book.Get[record.Progress](u, record.ProgressKey(id))
	if err != nil {
		return nil, err
	}
	d := &JobDetail{seen: sight{phases: progress.Phases}}
	s := &d.seen
	if d.JobView, s.clusters, err = b.viewOf(u, job); err != nil {
		return nil, err
	}
	if p.From == 0 {
		if d.Plans, err = book.List[record.PlanHead](u, record.JobPart(id), record.PlanHeadPrefix, 0); err != nil {
			return nil, err
		}
	}
	from, to := min(p.From, job.Tasks), job.Tasks
	if p.Limit > 0 {
		to = min(from+p.Limit, to)
	}
	if open, ok := s.open(was); ok && 10*len(open) <= job.Tasks {
		err = s.again(ctx, b.Store, id, open, was.seen)
	} else {
		err = s.read(ctx, b.Store, id, from, to)
	}
	if err != nil {
		return nil, err
	}
	if err := b.tell(u, job, d, from, to); err != nil {
		return nil, err
	}
	if p.Limit > 0 {
		d.cut(from, job.Tasks)
	}
	return d, nil
}

// read loads the tasks from one index to below another with their attempts.
func (s *sight) read(ctx context.Context, st store.Store, job string, from, to int) (err error) {
	below := func(prefix string, task int) string { return fmt.Sprintf("%s%06d", prefix, task) }
	if s.tasks, err = between[record.Task](ctx, st, record.JobPart(job), "task#", below("task#", from),
		below("task#", to), to-from+1); err != nil {
		return err
	}
	s.attempts, err = between[record.Attempt](ctx, st, record.JobPart(job), "attempt#", below("attempt#", from),
		below("attempt#", to), to-from+1)
	return err
}

// between loads the records of a prefix whose keys lie between two, some at once: with one more than there are likely
// to be, that one ends it.
func between[T any](ctx context.Context, st store.Store, partition, prefix, from, below string,
	some int) (out []T, err error) {
	// A page begins after a key: the last that is below the first wanted ends in what no key has.
	page := store.Page{After: from[:len(from)-1] + string(rune(from[len(from)-1]-1)) + "~", Limit: some}
	for more := true; more; {
		var records []store.Record
		if records, more, err = st.Query(ctx, partition, prefix, page); err != nil {
			return nil, err
		}
		for _, r := range records {
			if page.After = r.Key.Sort; page.After >= below {
				return out, nil
			}
			var v T
			if err := json.Unmarshal(r.Body, &v); err != nil {
				return nil, fmt.Errorf("broker: record %s: %w", r.Key, err)
			}
			out = append(out, v)
		}
	}
	return out, nil
}

// open lists the tasks of which something may have changed since an earlier look: all that are neither waiting nor
// over, and those that had or have machines. It cannot tell before tasks were announced.
func (s *sight) open(was *JobDetail) (open []int, ok bool) {
	if was == nil || len(s.phases) == 0 || len(was.seen.phases) != len(s.phases) {
		return nil, false
	}
	for i, p := range s.phases {
		if p == record.PhaseReady || p != was.seen.phases[i] {
			open = append(open, i)
		}
	}
	for _, cl := range slices.Concat(s.clusters, was.seen.clusters) {
		open = append(open, cl.Task)
	}
	slices.Sort(open)
	return slices.Compact(open), true
}

// again takes over what an earlier look has read, and loads the open tasks anew with those of their attempts that were
// not settled.
func (s *sight) again(ctx context.Context, st store.Store, job string, open []int, was sight) error {
	keys := make([]store.Key, len(open))
	for k, i := range open {
		keys[k] = record.TaskKey(job, i)
	}
	tasks, err := fetch[record.Task](ctx, st, keys)
	if err != nil {
		return err
	}
	had := map[string]bool{}
	for i := range was.clusters {
		had[was.clusters[i].ID] = true
	}
	keys = keys[:0]
	for i := range tasks {
		for n := 1; n <= tasks[i].Attempt; n++ {
			a := record.Attempt{Task: tasks[i].Index, Number: n}
			k, known := slices.BinarySearchFunc(was.attempts, a, attemptOrder)
			if !known || was.attempts[k].Ended.IsZero() || had[record.ClusterID(job, a.Task, n)] {
				keys = append(keys, record.AttemptKey(job, a.Task, n))
			}
		}
	}
	attempts, err := fetch[record.Attempt](ctx, st, keys)
	s.tasks = merged(was.tasks, tasks, func(a, b record.Task) int { return cmp.Compare(a.Index, b.Index) })
	s.attempts = merged(was.attempts, attempts, attemptOrder)
	return err
}

// attemptOrder is that of the attempts' keys.
func attemptOrder(a, b record.Attempt) int {
	return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Number, b.Number))
}

// fetch loads the records that exist among keys, in their order.
func fetch[T any](ctx context.Context, st store.Store, keys []store.Key) ([]T, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	records, err := st.Get(ctx, keys...)
	out := make([]T, len(records))
	for i, r := range records {
		if err := json.Unmarshal(r.Body, &out[i]); err != nil {
			return nil, fmt.Errorf("broker: record %s: %w", r.Key, err)
		}
	}
	return out, err
}

// merged joins two lists in an order; where both have one, it is the second's.
func merged[T any](old, fresh []T, order func(a, b T) int) []T {
	out := make([]T, 0, len(old)+len(fresh))
	for _, f := range fresh {
		for len(old) > 0 && order(old[0], f) < 0 {
			out, old = append(out, old[0]), old[1:]
		}
		if len(old) > 0 && order(old[0], f) == 0 {
			old = old[1:]
		}
		out = append(out, f)
	}
	return append(out, old...)
}

// tell makes the views of the tasks from one index to below another.
func (b *Views) tell(u *unit.Unit, job record.Job, d *JobDetail, from, to int) error {
	d.Attempts = slices.Clone(d.seen.attempts)
	tasks := slices.Clone(d.seen.tasks)
	for i := range d.seen.clusters {
		cl := &d.seen.clusters[i]
		if j, ok := slices.BinarySearchFunc(d.Attempts, record.Attempt{Task: cl.Task, Number: cl.Attempt},
			attemptOrder); ok {
			cl.Tell(&d.Attempts[j])
		}
	}
	record.TellTasks(d.seen.clusters, tasks)
	spec, err := u.Spec(job)
	if err != nil {
		return err
	}
	var plan *record.Plan
	if !job.Plan.IsZero() {
		if plan, err = u.Plan(job); err != nil {
			return err
		}
	}
	d.TaskList = taskViews(job, spec, plan, tasks, d.Attempts, from, to)
	return b.tellWaits(u, job, tasks, d.TaskList)
}

// cut ends a part where it is as long as one may be, but after one task, and says where the job goes on.
func (d *JobDetail) cut(from, tasks int) {
	const task, attempt = 250, 550 // bytes of JSON besides what is of any length
	size, at := 0, 0
	for i := range d.TaskList {
		t := &d.TaskList[i]
		size += task + 7*len(t.After) + len(t.Name) + len(t.Offer) + len(t.Reason) + len(t.Waits)
		next := at
		for next < len(d.Attempts) && d.Attempts[next].Task == t.Index {
			size += attempt + len(d.Attempts[next].Reason)
			next++
		}
		if size > partBytes && i > 0 {
			d.TaskList, d.Attempts = d.TaskList[:i], d.Attempts[:at]
			break
		}
		at = next
	}
	if to := from + len(d.TaskList); to < tasks {
		d.Next = to
	}
}

// tellWaits adds what the tasks of a job wait for.
func (b *Views) tellWaits(u *unit.Unit, job record.Job, tasks []record.Task, views []TaskView) error {
	if !job.Waits || job.State != record.JobRunning {
		return nil
	}
	for _, t := range tasks {
		if t.WaitSince.IsZero() {
			continue
		}
		w, err := bid.LoadWaiting(u, b.Config, job, t)
		if err != nil {
			return err
		}
		if w == nil {
			continue
		}
		if _, wait := w.Wait(u.Now); wait {
			views[t.Index-views[0].Index].Waits = w.Tell(u.Now)
		}
	}
	return nil
}
