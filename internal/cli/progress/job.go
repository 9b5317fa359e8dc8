package progress

import (
	"cmp"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// States of a task that TaskView.State may have in addition to the broker's own.
const (
	stateWaiting   = "waiting"
	stateCancelled = "cancelled"
)

// Job is the known state of a job.
type Job struct {
	apitypes.JobView
	Tasks []apitypes.TaskView
	Plans []apitypes.PlanHead
	// Counts is the number of tasks in each state.
	Counts map[string]int

	attempts map[attemptKey]apitypes.Attempt
	failed   map[int]bool // tasks known to have failed permanently
	moves    []int        // by task: attempts in another place than the one before
	weight   []float64    // by task: maximum expected machine hours, its weight in the progress
	weights  float64

	scale     float64   // wall seconds per second of the broker's clock
	now       time.Time // the broker's clock at the last update
	updatedAt time.Time // the wall clock at the last update
}

type attemptKey struct{ task, number int }

// NewJob returns an empty job of a broker with a time scale.
func NewJob(scale float64) *Job {
	if scale <= 0 {
		scale = 1
	}
	return &Job{scale: scale, Counts: map[string]int{}, attempts: map[attemptKey]apitypes.Attempt{},
		failed: map[int]bool{}}
}

// Known reports whether an update has arrived.
func (j *Job) Known() bool { return j.ID != "" }

// Compressed reports whether the broker's time differs from wall time.
func (j *Job) Compressed() bool { return j.scale != 1 }

// Now returns the broker's time for a wall time. It stops when the job has finished.
func (j *Job) Now(wall time.Time) time.Time {
	if j.State.Finished() && !j.Finished.IsZero() {
		return j.Finished
	}
	// A broker that has been silent for a while may be gone, so do not extrapolate much further.
	const ahead = 20 * time.Second
	return j.now.Add(time.Duration(float64(min(max(wall.Sub(j.updatedAt), 0), ahead)) / j.scale))
}

// Apply applies an update that arrived at a wall time, and returns the events since the previous one, ordered by the
// broker's time. For the first update it returns the events of the job so far.
func (j *Job) Apply(u apitypes.JobUpdate, wall time.Time) []Event {
	was := *j
	j.JobView, j.now, j.updatedAt = u.Job, u.Now, wall
	var news []Event
	if !was.Known() {
		news = append(news, submitEvent(u.Job))
	}
	if u.Plans != nil {
		for _, p := range u.Plans[min(len(was.Plans), len(u.Plans)):] {
			news = append(news, planEvent(p, len(was.Plans) > 0 || p.Version > 1))
		}
		j.Plans = u.Plans
	}
	news = append(news, j.applyTasks(u)...)
	news = append(news, j.applyAttempts(u)...)
	news = append(news, j.failedTaskEvents()...)
	if u.Job.State != was.State {
		news = append(news, jobStateEvents(u.Job, u.Now)...)
	}
	slices.SortStableFunc(news, func(a, b Event) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.order, b.order))
	})
	return news
}

// applyTasks applies the changed tasks.
func (j *Job) applyTasks(u apitypes.JobUpdate) (news []Event) {
	old := j.Tasks
	if u.Full {
		j.Tasks = make([]apitypes.TaskView, max(u.Job.Tasks, len(u.Tasks))) // for a large job, more tasks arrive later
		grown := make([]float64, len(j.Tasks))
		copy(grown, j.weight)
		moves := make([]int, len(j.Tasks))
		copy(moves, j.moves)
		j.weight, j.moves = grown, moves
	}
	for _, t := range u.Tasks {
		if t.Index < 0 || t.Index >= len(j.Tasks) {
			continue
		}
		var before apitypes.TaskView
		if t.Index < len(old) {
			before = old[t.Index]
		}
		j.Tasks[t.Index] = t
		news = append(news, taskStateEvents(before, t, u.Now)...)
		j.weigh(t)
	}
	clear(j.Counts)
	for i := range j.Tasks {
		j.Counts[j.Tasks[i].State]++
	}
	return news
}

// weigh records how large a part of the job a task is. A later plan expects less of a task that has saved some work, so
// the maximum expectation counts.
func (j *Job) weigh(t apitypes.TaskView) {
	const little = 1e-3 // hours: a task without an estimate still counts
	w := max(t.Hours*float64(max(t.Nodes, 1)), little, j.weight[t.Index])
	j.weights += w - j.weight[t.Index]
	j.weight[t.Index] = w
}

// applyAttempts applies the changed attempts.
func (j *Job) applyAttempts(u apitypes.JobUpdate) (news []Event) {
	changed := slices.Clone(u.Attempts)
	slices.SortStableFunc(changed, func(a, b apitypes.Attempt) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(a.Number, b.Number))
	})
	for _, a := range changed {
		if a.Task < 0 || a.Task >= len(j.Tasks) {
			continue
		}
		key := attemptKey{a.Task, a.Number}
		before, known := j.attempts[key]
		last, tried := j.attempts[attemptKey{a.Task, a.Number - 1}]
		moved := tried && last.OfferID != a.OfferID
		if !known && moved {
			j.moves[a.Task]++
		}
		j.attempts[key] = a
		news = append(news, attemptEvents(before, a, j.Tasks[a.Task].Name, moved, j.Simulated)...)
	}
	return news
}

// Share returns the finished share of the work at a broker time, 0 to 1, weighted by machine hours. A running task
// counts by its time so far.
func (j *Job) Share(now time.Time) float64 {
	if j.State == apitypes.JobSucceeded {
		return 1
	}
	if j.weights <= 0 {
		return 0
	}
	done := 0.0
	for i := range j.Tasks {
		done += j.weight[i] * taskShare(&j.Tasks[i], now)
	}
	return min(done/j.weights, 1)
}

// taskShare returns the finished share of a task, 0 to 1.
func taskShare(t *apitypes.TaskView, now time.Time) float64 {
	const almost = 0.97 // maximum until the task reports its end
	switch t.State {
	case string(record.TaskSucceeded):
		return 1
	case string(record.TaskRunning):
		share := t.Progress
		if t.Hours > 0 && !t.Started.IsZero() {
			share += (1 - t.Progress) * max(now.Sub(t.Started).Hours(), 0) / t.Hours
		}
		return min(share, almost)
	default:
		return min(t.Progress, almost)
	}
}

// End returns when the current plan expects the job to finish; zero if there is no plan.
func (j *Job) End() time.Time {
	if len(j.Plans) == 0 {
		return time.Time{}
	}
	p := j.Plans[len(j.Plans)-1]
	return p.At.Add(span(p.Hours))
}

// Attempts returns the number of attempts, and how many of them ran in another place than the one before.
func (j *Job) Attempts() (attempts, moves int) {
	for _, m := range j.moves {
		moves += m
	}
	return len(j.attempts), moves
}

// Outcomes counts the attempts with one of the given outcomes.
func (j *Job) Outcomes(of ...apitypes.Outcome) (n int) {
	for _, a := range j.attempts {
		if slices.Contains(of, a.Outcome) {
			n++
		}
	}
	return n
}
