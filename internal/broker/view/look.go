package view

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/attempt"
	"github.com/tradewind-broker/tradewind/internal/broker/bid"
	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/recordcache"
	"github.com/tradewind-broker/tradewind/internal/broker/txn"
	"github.com/tradewind-broker/tradewind/internal/readable"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// Part is a part of a job's tasks: those from index From, up to Limit (0 is all) and about partBytes of JSON.
type Part struct{ From, Limit int }

// partBytes is about the maximum length of a part's JSON: a function's response has at most 6 MB, and the story of the
// same tasks is longer.
const partBytes = 2 << 20

// reading is the data that was read for a job, so that the next look only reads records that may have changed since.
type reading struct {
	phases   []record.Phase
	clusters []record.Cluster
	tasks    []record.Task      // by index, as stored
	attempts []apitypes.Attempt // by task and number, as stored
}

// Look is the view of a job, and the data that was read for it: the next look only reads records that may have changed
// since.
type Look struct {
	apitypes.JobDetail

	seen        reading
	plan        *record.Plan // the current plan; nil before the first
	suspensions []apitypes.Suspension
	planTries   record.PlanTries
}

// JobDetail loads everything that users see of a job. It fails with ErrNotFound.
func (b *Views) JobDetail(ctx context.Context, id string) (*apitypes.JobDetail, error) {
	return b.JobPart(ctx, id, Part{})
}

// JobPart loads the view of a job and of some of its tasks. The first part includes the plans. It fails with
// ErrNotFound.
func (b *Views) JobPart(ctx context.Context, id string, p Part) (*apitypes.JobDetail, error) {
	d, err := b.look(ctx, id, p, nil)
	if err != nil {
		return nil, err
	}
	return &d.JobDetail, nil
}

// JobSince loads the same as JobDetail. was is the result of an earlier call, or nil. If few tasks can have changed
// since that call, the others are not read again.
func (b *Views) JobSince(ctx context.Context, id string, was *Look) (*Look, error) {
	return b.look(ctx, id, Part{}, was)
}

// look reads the phases of tasks first, then clusters, then tasks and attempts, the same order as they are written at
// the end of a task. So if a task has finished according to the first two, the third is final.
func (b *Views) look(ctx context.Context, id string, p Part, was *Look) (*Look, error) {
	u := b.txns.NewUnit(ctx, "api")
	if err := u.Preload(record.JobKey(id), record.ProgressKey(id), record.LedgerKey(id)); err != nil {
		return nil, err
	}
	job, err := LoadJob(u, id)
	if err != nil {
		return nil, err
	}
	progress, _, err := recordcache.Get[record.Progress](u, record.ProgressKey(id))
	if err != nil {
		return nil, err
	}
	d := &Look{seen: reading{phases: progress.Phases}, suspensions: job.Suspensions,
		planTries: job.PlanTries}
	s := &d.seen
	if d.JobView, s.clusters, err = b.viewOf(u, job); err != nil {
		return nil, err
	}
	if p.From == 0 {
		if d.Plans, err = recordcache.List[apitypes.PlanHead](
			u,
			record.JobPart(id),
			record.PlanHeadPrefix,
			0,
		); err != nil {
			return nil, err
		}
	}
	from, to := min(p.From, job.Tasks), job.Tasks
	if p.Limit > 0 {
		to = min(from+p.Limit, to)
	}
	if open, ok := s.open(was); ok && 10*len(open) <= job.Tasks {
		err = s.reload(u, job, open, was.seen)
	} else {
		err = s.read(ctx, b.txns.Store, id, from, to)
	}
	if err != nil {
		return nil, err
	}
	if err := b.addTasks(u, job, d, from, to); err != nil {
		return nil, err
	}
	if p.Limit > 0 {
		d.cut(from, job.Tasks)
	}
	return d, nil
}

// read loads the tasks with index from up to but excluding to, and their attempts.
func (s *reading) read(ctx context.Context, st store.Store, job string, from, to int) (err error) {
	if s.tasks, err = between[record.Task](ctx, st, job, "task#", from, to); err == nil {
		s.attempts, err = between[apitypes.Attempt](ctx, st, job, "attempt#", from, to)
	}
	return err
}

// between loads the records of a job's tasks with index from up to but excluding to. It requests one more record than
// there should be; that one ends the loop.
func between[T any](ctx context.Context, st store.Store, job, prefix string, from, to int) (out []T, err error) {
	// A page begins after a key: use one that follows all keys of the task before the first.
	page := store.Page{After: fmt.Sprintf("%s%06d~", prefix, from-1), Limit: to - from + 1}
	end := fmt.Sprintf("%s%06d", prefix, to)
	for more := true; more; {
		var records []store.Record
		if records, more, err = st.Query(ctx, record.JobPart(job), prefix, page); err != nil {
			return nil, err
		}
		for _, r := range records {
			if page.After = r.Key.Sort; page.After >= end {
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

// open lists the tasks that may have changed since an earlier look: all that are neither waiting nor finished, and
// those that had or have machines. ok is false if the tasks had not been announced yet.
func (s *reading) open(was *Look) (open []int32, ok bool) {
	if was == nil || len(s.phases) == 0 || len(was.seen.phases) != len(s.phases) {
		return nil, false
	}
	for i, p := range s.phases {
		if p == record.PhaseReady || p != was.seen.phases[i] {
			open = append(open, int32(i)) //nolint:gosec // a task of the job
		}
	}
	for _, cl := range slices.Concat(s.clusters, was.seen.clusters) {
		if cl.Task < len(s.phases) { // it is no worker
			open = append(open, int32(cl.Task)) //nolint:gosec // a task of the job
		}
	}
	slices.Sort(open)
	return slices.Compact(open), true
}

// reload copies what an earlier look has read, and reloads the open tasks and those of their attempts that were not
// settled.
func (s *reading) reload(u *txn.Unit, job record.Job, open []int32, was reading) error {
	tasks, err := attempt.LoadTasks(u, job, open)
	if err != nil {
		return err
	}
	had := map[string]bool{}
	for i := range was.clusters {
		had[was.clusters[i].ID] = true
	}
	var keys []record.Key
	for i := range tasks {
		for n := 1; n <= tasks[i].Attempt; n++ {
			a := apitypes.Attempt{Task: tasks[i].Index, Number: n}
			k, known := slices.BinarySearchFunc(was.attempts, a, attemptOrder)
			if !known || was.attempts[k].Ended.IsZero() || had[record.ClusterID(job.ID, a.Task, n)] {
				keys = append(keys, record.AttemptKey(job.ID, a.Task, n))
			}
		}
	}
	if err := u.Preload(keys...); err != nil {
		return err
	}
	var attempts []apitypes.Attempt
	for _, key := range keys {
		a, found, err := recordcache.Get[apitypes.Attempt](u, key)
		if err != nil {
			return err
		}
		if found {
			attempts = append(attempts, a)
		}
	}
	s.tasks = merged(was.tasks, tasks, func(a, b record.Task) int { return cmp.Compare(a.Index, b.Index) })
	s.attempts = merged(was.attempts, attempts, attemptOrder)
	return nil
}

// attemptOrder is the order of the attempts' keys.
func attemptOrder(a, b apitypes.Attempt) int {
	return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Number, b.Number))
}

// merged merges two sorted lists; for equal items it takes the one in fresh.
func merged[T any](old, fresh []T, order func(a, b T) int) []T {
	all := slices.Concat(fresh, old)
	slices.SortStableFunc(all, order)
	return slices.CompactFunc(all, func(a, b T) bool { return order(a, b) == 0 })
}

// addTasks makes the views of the tasks with index from up to but excluding to.
func (b *Views) addTasks(u *txn.Unit, job record.Job, d *Look, from, to int) error {
	d.Attempts = slices.Clone(d.seen.attempts)
	tasks := slices.Clone(d.seen.tasks)
	for i := range d.seen.clusters {
		cl := &d.seen.clusters[i]
		if j, ok := slices.BinarySearchFunc(d.Attempts, apitypes.Attempt{Task: cl.Task, Number: cl.Attempt},
			attemptOrder); ok {
			cl.UpdateAttempt(&d.Attempts[j])
		}
	}
	record.UpdateTasks(d.seen.clusters, tasks)
	spec, err := u.Spec(job)
	if err != nil {
		return err
	}
	if !job.Plan.IsZero() {
		if d.plan, err = u.Plan(job); err != nil {
			return err
		}
	}
	d.ForecastUSD = forecast(job, d, u.Now)
	d.TaskList = taskViews(job, spec, d.plan, tasks, d.Attempts, from, to)
	addSkipped(d.seen.phases, d.TaskList)
	addChunked(d.seen.phases, d.TaskList)
	for i := range tasks {
		v := &d.TaskList[tasks[i].Index-from]
		v.Output = outputOf(b.txns.Config, tasks[i], v.Nodes)
	}
	for _, cl := range d.seen.clusters {
		if cl.Kept(u.Now) && cl.Task >= from && cl.Task < to {
			d.TaskList[cl.Task-from].KeptUntil = cl.KeptUntil
		}
	}
	if job.Serves {
		d.addServices(job, spec, tasks, from)
	}
	b.addUnanswered(u.Now, d, from, to)
	addUnsaved(job, d.TaskList)
	return b.addWaits(u, job, tasks, d.TaskList)
}

// outputOf is the URI of the folder with the outputs of a task; empty if it has none. Agents write the files of each
// machine below RANK/files, next to a manifest.
func outputOf(cfg config.Config, t record.Task, nodes int) string {
	if t.Output == "" {
		return ""
	}
	uri := cfg.At(t.Output)
	if t.Listed || nodes > 1 {
		return uri
	}
	return uri + "0/files/"
}

// addSkipped marks the tasks that will not run because of a failure that their job survives.
func addSkipped(phases []record.Phase, tasks []apitypes.TaskView) {
	for i := range tasks {
		t := &tasks[i]
		if t.Index < len(phases) && record.NeverRuns(phases[t.Index]) && phases[t.Index] != record.PhaseFailed {
			t.State, t.Reason = "cancelled", "did not run, because it depends on a failed task"
		}
	}
}

// addChunked marks the members of arrays that run after another one, in its attempt: they are queued behind it.
func addChunked(phases []record.Phase, tasks []apitypes.TaskView) {
	for i := range tasks {
		t := &tasks[i]
		if t.Index < len(phases) && phases[t.Index] == record.PhaseChunked && t.State == "waiting" {
			t.State = string(record.TaskQueued)
		}
	}
}

// addUnsaved adds which tasks of a suspended job have lost their work, or will.
func addUnsaved(job record.Job, tasks []apitypes.TaskView) {
	if job.Suspended() == nil || job.State == apitypes.JobEnding || job.State.Finished() {
		return
	}
	for i := range tasks {
		if t := &tasks[i]; t.LosesWork() && t.Waits == "" {
			t.Waits = "until the job is resumed; it saves no checkpoints, so it then " + restarts
		}
	}
}

// restarts describes the consequence for a task without checkpoints that left its machine.
const restarts = "starts again from the beginning"

// addUnanswered adds which launches clouds have not answered, and which machines have not called for long.
func (b *Views) addUnanswered(now time.Time, d *Look, from, to int) {
	for _, cl := range d.seen.clusters {
		if cl.Task < from || cl.Task >= to || cl.Outcome != "" {
			continue
		}
		late := now.Sub(cl.Since) > b.txns.Config.BootLimit(cl.Offer)/lateBoot
		t := &d.TaskList[cl.Task-from]
		if s := record.TaskState(t.State); s == record.TaskSucceeded || s == record.TaskFailed {
			continue // its machines are on their way out
		}
		waits := &t.Waits
		switch {
		case cl.State == record.ClusterLaunching && cl.Tries > 0:
			*waits = fmt.Sprintf("for the launch of attempt %d, which the cloud has failed, or not answered, %s",
				cl.Attempt, readable.Times(cl.Tries))
		case cl.State == record.ClusterBooting && late && cl.NeverAnswered() != "":
			*waits = fmt.Sprintf("for the machines of attempt %d: %s", cl.Attempt, cl.NeverAnswered())
		}
	}
}

// lateBoot is the part of the time limit of a boot after which machines that have not called are worth a note.
const lateBoot = 5

// cut shortens a part to the maximum length, but at least one task, and sets where the job continues.
func (d *Look) cut(from, tasks int) {
	const task, attempt = 250, 550 // bytes of JSON apart from fields of variable length
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

// addWaits adds the reasons why the tasks of a job wait.
func (b *Views) addWaits(u *txn.Unit, job record.Job, tasks []record.Task, views []apitypes.TaskView) error {
	if !job.Waits || job.State != apitypes.JobRunning {
		return nil
	}
	for _, t := range tasks {
		if t.WaitSince.IsZero() {
			continue
		}
		w, err := bid.LoadWaiting(u, b.txns.Config, job, t)
		if err != nil {
			return err
		}
		if w != nil && w.Waits(u.Now) {
			views[t.Index-views[0].Index].Waits = w.Describe(u.Now)
		}
	}
	return nil
}
