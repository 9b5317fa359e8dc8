package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/dag"
)

// users are the people of a world: they submit jobs and cancel some, and they know what their tasks really do.
type users struct {
	w       *world
	jobs    []*userJob
	byName  map[string]*userJob
	objects map[string][]byte // the DAG bucket
	crowded bool              // their jobs share one small quota
}

// userJob is a job as its author knows it. Names are unique in a world.
type userJob struct {
	spec      *dag.Job
	byTask    map[string]int
	id        string // once the author has heard of it
	submitted time.Time
	cancelled bool // its author asked for its end
	factor    []float64
	failures  []int // runs of each task that ended with an exit code
	toFail    []int // and how many more are to, in a story
}

func newUsers(w *world) *users {
	return &users{w: w, byName: map[string]*userJob{}, objects: map[string][]byte{}}
}

// plan makes a job known, to be submitted later.
func (u *users) plan(spec *dag.Job) *userJob {
	j := &userJob{
		spec: spec, byTask: map[string]int{}, factor: make([]float64, len(spec.Tasks)),
		failures: make([]int, len(spec.Tasks)), toFail: make([]int, len(spec.Tasks)),
	}
	for i := range spec.Tasks {
		j.byTask[spec.Tasks[i].Name] = i
		// An estimate is seldom right, and now and then too small.
		j.factor[i] = 1
		if !u.w.opt.steady {
			j.factor[i] = u.w.rand.task.uniform(0.6, 1)
		}
		if u.w.rand.task.chance(u.w.faults.Overrun / 4) {
			j.factor[i] = u.w.rand.task.uniform(1, 1+2*u.w.faults.Overrun)
		}
	}
	u.jobs = append(u.jobs, j)
	u.byName[spec.Name] = j
	return j
}

// submit submits a job by the API, again until it is accepted.
func (u *users) submit(j *userJob) {
	var id string
	u.w.network.call("submit "+j.spec.Name, true, func(ctx context.Context, b *broker.Broker) error {
		job, err := b.Submit(ctx, broker.Submission{Spec: j.spec, Token: j.spec.Name, Source: "api"})
		id = job.ID
		return err
	}, func(err error) {
		if err != nil {
			u.w.after(u.w.rand.user.spread(time.Second, time.Minute), func() { u.submit(j) })
			return
		}
		j.id = id
	})
}

// put leaves a file in the DAG bucket, of which the cloud tells once or more often.
func (u *users) put(key string, body []byte, told int) {
	u.objects[key] = body
	for n := range told {
		u.w.after(u.w.rand.user.between(0, time.Minute), func() { u.tell(key, n) })
	}
}

// tell is repeated until it succeeds: object stores retry their notifications.
func (u *users) tell(key string, n int) {
	id := fmt.Sprintf("object/%s/%d", key, n)
	u.w.network.call("object "+key, true, func(ctx context.Context, b *broker.Broker) error {
		return b.Emit(ctx, "bucket", id, events.ObjectCreated{Bucket: "sim://dags", Key: key, ETag: "1",
			Size: int64(len(u.objects[key]))})
	}, func(err error) {
		if err != nil {
			u.w.after(time.Minute, func() { u.tell(key, n) })
		}
	})
}

// Settle implements broker.Objects: users name no files that lie beside a job's.
func (*users) Settle(string, string, *dag.Job) {}

// Open implements broker.Objects.
func (u *users) Open(_ context.Context, _, key string) (io.ReadCloser, error) {
	u.w.before("open")
	body, ok := u.objects[key]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(body)), nil
}

// cancel asks for the end of a job, again until the broker has heard it.
func (u *users) cancel(j *userJob, reason string) {
	id := u.w.check.idOf(j.spec.Name)
	if id == "" {
		u.w.after(time.Minute, func() { u.cancel(j, reason) })
		return
	}
	j.cancelled = true
	u.w.network.call("cancel "+id, true, func(ctx context.Context, b *broker.Broker) error {
		return b.Cancel(ctx, id, reason)
	}, func(err error) {
		if err != nil && !errors.Is(err, record.ErrOver) {
			u.w.after(u.w.rand.user.spread(time.Second, time.Minute), func() { u.cancel(j, reason) })
		}
	})
}

// setQueue configures a queue.
func (u *users) setQueue(name string, s record.QueueSettings) {
	u.w.network.call("queue "+name, true, func(ctx context.Context, b *broker.Broker) error {
		return b.SetQueue(ctx, name, s)
	}, func(err error) {
		if err != nil {
			u.w.after(time.Second, func() { u.setQueue(name, s) })
		}
	})
}

// duration is how long a task really takes on a machine, from beginning to end.
func (u *users) duration(a *wire.Assignment, o cloud.Offer) time.Duration {
	j := u.byName[a.JobName]
	if j == nil {
		u.w.violatef(InvAssigned, "%s is of a job %q that nobody submitted", a.Attempt, a.JobName)
		return time.Minute
	}
	i := j.byTask[a.Task]
	t := &j.spec.Tasks[i]
	if t.StandIn() {
		return t.Recorded
	}
	return time.Duration(float64(t.Time.For(o.InstanceType, o.Accelerator, o.AccelCount)) * j.factor[i])
}

// fails draws whether a run ends with an exit code.
func (u *users) fails(a *wire.Assignment) bool {
	if j := u.byName[a.JobName]; j != nil {
		if left := &j.toFail[j.byTask[a.Task]]; *left > 0 {
			*left--
			return true
		}
	}
	return a.Run != "" && u.w.rand.task.chance(u.w.faults.TaskFails)
}

// failed notes that one did.
func (u *users) failed(a *wire.Assignment) {
	if j := u.byName[a.JobName]; j != nil {
		j.failures[j.byTask[a.Task]]++
	}
}

// giveUp cancels what waits for what will not come: money, or a place that suits.
func (u *users) giveUp() {
	for _, j := range u.jobs {
		if s := u.w.check.byName[j.spec.Name]; s != nil && s.job.State == record.JobWaiting {
			u.cancel(j, "waited long enough")
		}
	}
	u.w.after(giveUp, u.giveUp)
}
