package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/sim/breaks"
	"github.com/tradewind-broker/tradewind/internal/sim/timeline"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// The fractions of jobs, and of worlds with a queue, that a user suspends.
const (
	shareSuspended = 0.1
	shareClosed    = 0.15
)

// drawSuspensions makes users suspend jobs and queues at some time, and resume them later.
func (u *users) drawSuspensions() {
	r := u.w.rand.suspend
	share, closed := shareSuspended, shareClosed
	switch u.w.opt.Break {
	case breaks.Restless:
		share, closed = 0.8, 0
	case breaks.Swinging, breaks.Overtaking: // suspended tasks reclaim nothing, and may be overtaken
		share, closed = 0, 0
	}
	for _, j := range u.jobs {
		for again := 0; again < 2 && r.Chance(share); again++ {
			from := u.suspension(r, 5*time.Hour)
			u.w.After(from.begin, func() { u.suspend(j, from.lasts) })
		}
	}
	if r.Chance(closed) {
		name, drain := timeline.Pick(r, []string{"small", "cpus", "lab"}), r.Chance(0.6)
		from := u.suspension(r, 3*time.Hour)
		u.w.After(from.begin, func() { u.suspendQueue(name, drain, from.lasts) })
	}
}

// spell is the start of a situation, and its duration.
type spell struct{ begin, lasts time.Duration }

func (u *users) suspension(r timeline.Random, most time.Duration) spell {
	s := spell{r.Between(0, 5*time.Hour), r.Spread(5*time.Minute, most)}
	if end := u.w.Now.Add(s.begin + s.lasts + time.Hour); end.After(u.w.check.Suspensions.Last) {
		u.w.check.Suspensions.Last = end
	}
	return s
}

// repeatRequest repeats a request with the same key until the broker has accepted or rejected it, then calls heard.
func (u *users) repeatRequest(what string, ask func(context.Context, *broker.Broker, string) error, heard func()) {
	key := fmt.Sprint(what, u.w.Now)
	asked := func(ctx context.Context, b *broker.Broker) error { return ask(ctx, b, key) }
	var try func()
	try = func() {
		u.w.network.call(what, true, asked, func(err error) {
			switch {
			case err == nil:
				heard()
			case errors.Is(err, record.ErrFinished), errors.Is(err, record.ErrNotFound):
			default:
				u.w.After(u.w.rand.suspend.Spread(time.Second, time.Minute), try)
			}
		})
	}
	try()
}

// suspend suspends an existing job for some time.
func (u *users) suspend(j *userJob, lasts time.Duration) {
	id := u.w.check.IDOf(j.Spec.Name)
	if id == "" || j.suspends {
		return
	}
	j.suspends = true // until the job is resumed: requests on their way may overtake each other
	u.repeatRequest("suspend "+id, func(ctx context.Context, b *broker.Broker, key string) error {
		return b.Users.Suspend(ctx, id, apitypes.Suspension{By: "ann", Reason: "maintenance"}, key)
	}, func() {
		u.w.Count("job suspended")
		j.Waits = u.w.Now
		u.w.After(lasts, func() {
			j.Waits = time.Time{}
			u.repeatRequest("resume "+id, func(ctx context.Context, b *broker.Broker, key string) error {
				return b.Users.Resume(ctx, id, "bob", key)
			}, func() {
				u.w.Count("job resumed")
				j.suspends = false
			})
		})
	})
}

// suspendQueue suspends an existing queue for some time. The queue admits nothing. With drain, its running tasks are
// stopped.
func (u *users) suspendQueue(name string, drain bool, lasts time.Duration) {
	u.repeatRequest("suspend queue "+name, func(ctx context.Context, b *broker.Broker, key string) error {
		return b.Users.SuspendQueue(ctx, name, apitypes.Suspension{By: "ann", Drain: drain}, key)
	}, func() {
		u.w.Count("queue suspended")
		known := u.w.check.Suspensions
		known.Closed[name] = u.w.Now
		if drain {
			known.Empty[name] = u.w.Now
		}
		u.w.After(lasts, func() {
			delete(known.Closed, name)
			delete(known.Empty, name)
			u.repeatRequest("resume queue "+name, func(ctx context.Context, b *broker.Broker, key string) error {
				return b.Users.ResumeQueue(ctx, name, "bob", key)
			}, func() { u.w.Count("queue resumed") })
		})
	})
}
