package progress

import (
	"cmp"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
)

// The states of a task that TaskView.State may have beside the broker's own.
const (
	stateWaiting   = "waiting"
	stateCancelled = "cancelled"
)

// Job is a job as far as it was told of.
type Job struct {
	apitypes.JobView
	Tasks []apitypes.TaskView
	Plans []apitypes.PlanHead
	// Counts has the number of tasks in each state.
	Counts map[string]int

	attempts map[attemptKey]apitypes.Attempt
	failed   map[int]bool // tasks that are known to have failed for good
	moves    []int        // by task: attempts that went elsewhere than the one before
	weight   []float64    // by task: machine hours expected at most, its share of the whole
	weights  float64

	scale float64   // wall seconds per second of the broker's clock
	now   time.Time // the broker's clock when it last told something
	told  time.Time // the wall's then
}

type attemptKey struct{ task, number int }

// NewJob makes a job of which nothing is known, of a broker with a time scale.
func NewJob(scale float64) *Job {
	if scale <= 0 {
		scale = 1
	}
	return &Job{scale: scale, Counts: map[string]int{}, attempts: map[attemptKey]apitypes.Attempt{},
		failed: map[int]bool{}}
}

// Known says whether anything is known of the job.
func (j *Job) Known() bool { return j.ID != "" }

// Compressed says whether the broker's time is not the wall's.
func (j *Job) Compressed() bool { return j.scale != 1 }

// Now is the broker's clock at a moment of the wall's. It stands when the job is over.
func (j *Job) Now(wall time.Time) time.Time {
	if j.State.Over() && !j.Finished.IsZero() {
		return j.Finished
	}
	// A broker that has been silent for a while may be gone; guessing much further would tell of a time that was not.
	const ahead = 20 * time.Second
	return j.now.Add(time.Duration(float64(min(max(wall.Sub(j.told), 0), ahead)) / j.scale))
}

// Apply takes in an update that came at a moment of the wall's, and returns what happened since the one before, in the
// order of the broker's time. Nothing is said to have happened in the first one but what makes the job's story so far.
func (j *Job) Apply(u apitypes.JobUpdate, wall time.Time) []Happening {
	was := *j
	j.JobView, j.now, j.told = u.Job, u.Now, wall
	var news []Happening
	if !was.Known() {
		news = append(news, submitted(u.Job))
	}
	if u.Plans != nil {
		for _, p := range u.Plans[min(len(was.Plans), len(u.Plans)):] {
			news = append(news, planned(p, len(was.Plans) > 0 || p.Version > 1))
		}
		j.Plans = u.Plans
	}
	news = append(news, j.applyTasks(u)...)
	news = append(news, j.applyAttempts(u)...)
	news = append(news, j.gaveUp()...)
	if u.Job.State != was.State {
		news = append(news, turned(u.Job, u.Now)...)
	}
	slices.SortStableFunc(news, func(a, b Happening) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.order, b.order))
	})
	return news
}

// applyTasks takes in the tasks that changed.
func (j *Job) applyTasks(u apitypes.JobUpdate) (news []Happening) {
	old := j.Tasks
	if u.Full {
		j.Tasks = make([]apitypes.TaskView, max(u.Job.Tasks, len(u.Tasks))) // of a large job the others follow
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
		news = append(news, taskTurned(before, t, u.Now)...)
		j.weigh(t)
	}
	clear(j.Counts)
	for i := range j.Tasks {
		j.Counts[j.Tasks[i].State]++
	}
	return news
}

// weigh notes how much of the job a task is. A later plan expects less of a task that has saved some of its work, so
// the most that was ever expected counts.
func (j *Job) weigh(t apitypes.TaskView) {
	const little = 1e-3 // hours: a task of which nothing is known is a task all the same
	w := max(t.Hours*float64(max(t.Nodes, 1)), little, j.weight[t.Index])
	j.weights += w - j.weight[t.Index]
	j.weight[t.Index] = w
}

// applyAttempts takes in the attempts that changed.
func (j *Job) applyAttempts(u apitypes.JobUpdate) (news []Happening) {
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
		news = append(news, attempted(before, a, j.Tasks[a.Task].Name, moved)...)
	}
	return news
}

// Share is how much of the work is done at a moment of the broker's time, 0 to 1: by machine hours, a running task
// counting by its time so far.
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

// taskShare is how much of a task is done, 0 to 1.
func taskShare(t *apitypes.TaskView, now time.Time) float64 {
	const almost = 0.97 // until it says so itself
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

// End is when the plan in force expects the job to be done; zero when there is none.
func (j *Job) End() time.Time {
	if len(j.Plans) == 0 {
		return time.Time{}
	}
	p := j.Plans[len(j.Plans)-1]
	return p.At.Add(span(p.Hours))
}

// Attempts is how many attempts there were in all, and how many of them went elsewhere than the one before.
func (j *Job) Attempts() (attempts, moves int) {
	for _, m := range j.moves {
		moves += m
	}
	return len(j.attempts), moves
}

// Outcomes counts the attempts that ended in one of some ways.
func (j *Job) Outcomes(of ...apitypes.Outcome) (n int) {
	for _, a := range j.attempts {
		if slices.Contains(of, a.Outcome) {
			n++
		}
	}
	return n
}
