package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/check"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// users are the users of a world. They submit jobs, cancel some, and determine how their tasks really run.
type users struct {
	w       *world
	jobs    []*userJob
	byName  map[string]*userJob
	objects map[string][]byte // the DAG bucket
	crowded bool              // their jobs share one small quota
	placed  bool              // some of their jobs have placement rules
	sharing bool              // tasks of some of their jobs share machines
	spark   timeline.Random
	unset   int // queues that are still to be set up; jobs wait for them
}

// userJob is a job of a user of the world.
type userJob struct {
	check.Wanted // its Spec has the workers
	file         *dag.Job
	suspends     bool  // the user has suspended the job, and has no answer yet that it was resumed
	toFail       []int // remaining runs of each task that fail, in a story
}

func newUsers(w *world) *users {
	return &users{w: w, byName: map[string]*userJob{}, objects: map[string][]byte{},
		spark: timeline.NewRandom(w.Seed, "spark")}
}

// plan registers a job that will be submitted later.
func (u *users) plan(file *dag.Job) *userJob {
	spec := file.WithWorkers()
	j := &userJob{
		file: file,
		Wanted: check.Wanted{Spec: spec, ByTask: map[string]int{}, Factor: make([]float64, len(spec.Tasks)),
			Failures: make([]int, len(spec.Tasks)), Endless: make([]bool, len(spec.Tasks)),
			Deadly: make([]bool, len(spec.Tasks))},
		toFail: make([]int, len(spec.Tasks)),
	}
	for i := range spec.Tasks {
		j.ByTask[spec.Tasks[i].Name] = i
		// Estimates are usually too high, and sometimes too low.
		j.Factor[i] = 1
		if !u.w.opt.steady {
			j.Factor[i] = u.w.rand.task.Uniform(0.6, 1)
		}
		if u.w.rand.task.Chance(u.w.faults.Overrun / 4) {
			j.Factor[i] = u.w.rand.task.Uniform(1, 1+2*u.w.faults.Overrun)
		}
	}
	u.drawEndless(j)
	u.drawDeadly(j)
	u.jobs = append(u.jobs, j)
	u.byName[spec.Name] = j
	u.w.check.Expect(&j.Wanted)
	return j
}

// submit submits a job through the API, and retries until it is accepted.
func (u *users) submit(j *userJob) {
	if u.unset > 0 {
		u.w.After(time.Second, func() { u.submit(j) })
		return
	}
	u.w.network.call("submit "+j.Spec.Name, true, func(ctx context.Context, b *broker.Broker) error {
		_, err := b.Users.Submit(ctx, broker.Submission{Spec: j.file, Token: j.Spec.Name, Source: "api"})
		return err
	}, func(err error) {
		if err != nil {
			u.w.After(u.w.rand.user.Spread(time.Second, time.Minute), func() { u.submit(j) })
		}
	})
}

// put stores a file in the DAG bucket. told is the number of times that the cloud notifies the broker.
func (u *users) put(key string, body []byte, told int) {
	u.objects[key] = body
	for n := range told {
		u.w.After(u.w.rand.user.Between(0, time.Minute), func() { u.notifyObject(key, n) })
	}
}

// notifyObject notifies the broker of an object and retries until it succeeds, as object stores do.
func (u *users) notifyObject(key string, n int) {
	if u.unset > 0 {
		u.w.After(time.Second, func() { u.notifyObject(key, n) })
		return
	}
	id := fmt.Sprintf("object/%s/%d", key, n)
	u.w.network.call("object "+key, true, func(ctx context.Context, b *broker.Broker) error {
		return b.Functions.Emit(ctx, "bucket", id, events.ObjectCreated{Bucket: "sim://dags", Key: key, ETag: "1",
			Size: int64(len(u.objects[key]))})
	}, func(err error) {
		if err != nil {
			u.w.After(time.Minute, func() { u.notifyObject(key, n) })
		}
	})
}

// Settle implements broker.Objects: users refer to no files next to a job's.
func (*users) Settle(context.Context, string, string, *dag.Job) error { return nil }

// Open implements broker.Objects.
func (u *users) Open(_ context.Context, o events.ObjectCreated) (r io.ReadCloser, tag string, err error) {
	u.w.before("open")
	body, ok := u.objects[o.Key]
	if !ok {
		return nil, "", fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(body)), "", nil
}

// cancel cancels a job, and retries until the broker has accepted it.
func (u *users) cancel(j *userJob, reason string) {
	id := u.w.check.IDOf(j.Spec.Name)
	if id == "" {
		u.w.After(time.Minute, func() { u.cancel(j, reason) })
		return
	}
	j.Cancelled = true
	u.w.network.call("cancel "+id, true, func(ctx context.Context, b *broker.Broker) error {
		return b.Users.Cancel(ctx, id, reason)
	}, func(err error) {
		if err != nil && !errors.Is(err, record.ErrFinished) && !errors.Is(err, record.ErrNotFound) {
			u.w.After(u.w.rand.user.Spread(time.Second, time.Minute), func() { u.cancel(j, reason) })
		}
	})
}

// setUpQueue configures a queue before any job is submitted: a job whose queue does not exist is refused when queues
// are set up.
func (u *users) setUpQueue(name string, s record.QueueSettings) {
	u.unset++
	u.configure(name, s, func() { u.unset-- })
}

// setQueue changes a queue.
func (u *users) setQueue(name string, s record.QueueSettings) { u.configure(name, s, func() {}) }

func (u *users) configure(name string, s record.QueueSettings, done func()) {
	u.w.network.call("queue "+name, true, func(ctx context.Context, b *broker.Broker) error {
		return b.Users.SetQueue(ctx, name, s)
	}, func(err error) {
		if err != nil {
			u.w.After(time.Second, func() { u.configure(name, s, done) })
			return
		}
		done()
	})
}

// liftBudgets is the time at which users lift the monthly budgets, some hours into the second month. A wait for a
// third month would take longer than a world lasts.
const liftBudgets = 30 * time.Hour

// drawMonth gives some queues a monthly budget.
func (u *users) drawMonth(name string, s *record.QueueSettings) {
	r, b := u.w.rand.month, u.w.opt.Break
	of := b == breaks.Spendthrift || b == breaks.Hoarding
	if b != "" && !of || !of && !r.Chance(0.2) { // so that other bugs show as often as without
		return
	}
	lifted := *s
	s.Max = s.Max.Plus(apitypes.Amounts{apitypes.USDPerMonth: r.Uniform(0.1, 3)})
	u.w.Count("a month's budget")
	u.w.After(liftBudgets, func() { u.setQueue(name, lifted) })
	if end := u.w.Now.Add(liftBudgets + time.Hour); end.After(u.w.check.Suspensions.Last) {
		u.w.check.Suspensions.Last = end
	}
}

// duration returns the real run time of a task on a machine, from start to end.
func (u *users) duration(a *wire.Assignment, o apitypes.Offer) time.Duration {
	j := u.byName[a.JobName]
	if j == nil {
		u.w.Violatef(check.InvAssigned, "%s is of a job %q that no user submitted", a.Attempt, a.JobName)
		return time.Minute
	}
	i := j.ByTask[a.Task]
	t := &j.Spec.Tasks[i]
	if t.StandIn() {
		return a.StandIn
	}
	return time.Duration(float64(record.TimeOn(t, o)) * j.Factor[i])
}

// drawEndless makes some tasks run until their gang's chief ends them, if nothing limits their time.
func (u *users) drawEndless(j *userJob) {
	if (j.Spec.Queue != "" || j.Spec.Budget > 0) && u.w.opt.Break != breaks.Headless || u.w.opt.steady {
		return
	}
	for i := range j.Spec.Tasks {
		gang := j.Spec.Gang(i)
		led := slices.ContainsFunc(gang, func(m int) bool { return m != i && j.Spec.Chief(m) })
		j.Endless[i] = led && !j.Spec.Chief(i) && !j.Spec.Tasks[i].StandIn() && u.w.rand.role.Chance(0.5)
	}
}

// drawDeadly makes some tasks kill the agents of their machines, in worlds where machines fail. It excludes tasks
// that save their work.
func (u *users) drawDeadly(j *userJob) {
	tireless := u.w.opt.Break == breaks.Tireless
	if u.w.faults.Dies == 0 && !tireless || u.w.opt.steady {
		return
	}
	for i := range j.Spec.Tasks {
		if t := &j.Spec.Tasks[i]; t.Checkpoint == nil && !t.StandIn() && t.Service == nil && t.Worker == nil {
			j.Deadly[i] = u.w.rand.deadly.Chance(0.06) || tireless
		}
	}
}

// deadly reports whether a run kills the agent of its machine.
func (u *users) deadly(a *wire.Assignment) bool {
	j := u.byName[a.JobName]
	return j != nil && j.Deadly[j.ByTask[a.Task]]
}

// serves reports whether a run has no end of its own, like a service.
func (u *users) serves(a *wire.Assignment) bool {
	j := u.byName[a.JobName]
	return j != nil && j.Endless[j.ByTask[a.Task]]
}

// fails draws whether a run ends with an exit code.
func (u *users) fails(a *wire.Assignment) bool {
	if j := u.byName[a.JobName]; j != nil {
		if left := &j.toFail[j.ByTask[a.Task]]; *left > 0 {
			*left--
			return true
		}
	}
	return a.Run != "" && u.w.rand.task.Chance(u.w.faults.TaskFails)
}

// failed counts a failed run.
func (u *users) failed(a *wire.Assignment) {
	if j := u.byName[a.JobName]; j != nil {
		j.Failures[j.ByTask[a.Task]]++
	}
}

// giveUp cancels jobs that wait in vain, for money or a suitable place.
func (u *users) giveUp() {
	for _, j := range u.jobs {
		if s := u.w.check.Named(j.Spec.Name); s != nil && s.Record.State == apitypes.JobWaiting {
			u.cancel(j, "waited long enough")
		}
	}
	u.w.After(check.GiveUp, u.giveUp)
}
