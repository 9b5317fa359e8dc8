package api

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/broker"
)

// loader is the part of Broker that feeds need.
type loader interface {
	JobSince(ctx context.Context, id string, was *broker.JobDetail) (*broker.JobDetail, error)
}

// feeds look at the jobs that are followed, each once however many follow it.
type feeds struct {
	load  loader
	log   *slog.Logger
	ctx   context.Context //nolint:containedctx // the lifetime of the API
	every time.Duration

	mu   sync.Mutex
	open map[string]*feed
}

// feed is one job that is followed.
type feed struct {
	mu      sync.Mutex
	now     moment
	changed chan struct{} // closed and replaced at each change
	users   int           // guarded by feeds.mu
	stop    context.CancelFunc
}

// moment is a job as it was when it last changed. The detail is shared and not to be changed.
type moment struct {
	n      int // counts changes, from 1; 0 is before the first look
	detail *broker.JobDetail
	err    error // the job cannot be followed (any more)
}

func newFeeds(ctx context.Context, load loader, log *slog.Logger) *feeds {
	return &feeds{load: load, log: log, ctx: ctx, every: pollEvery, open: map[string]*feed{}}
}

// follow starts to look at a job, unless that is done already. The caller calls done once.
func (s *feeds) follow(job string) (f *feed, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.open[job]
	if !ok {
		ctx, stop := context.WithCancel(s.ctx)
		f = &feed{changed: make(chan struct{}), stop: stop}
		s.open[job] = f
		go s.watch(ctx, job, f)
	}
	f.users++
	return f, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f.users--; f.users > 0 {
			return
		}
		f.stop()
		if s.open[job] == f {
			delete(s.open, job)
		}
	}
}

// next returns the job as soon as it is no longer the moment n. It fails when ctx ends, or the job cannot be followed.
func (f *feed) next(ctx context.Context, n int) (moment, error) {
	for {
		f.mu.Lock()
		now, changed := f.now, f.changed
		f.mu.Unlock()
		if now.err != nil {
			return now, now.err
		}
		if now.n > n {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-changed:
		}
	}
}

// latest is the last moment that was seen.
func (f *feed) latest() moment {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *feed) tell(detail *broker.JobDetail, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = moment{n: f.now.n + 1, detail: detail, err: err}
	close(f.changed)
	f.changed = make(chan struct{})
}

// watch looks at a job until it is over or nobody follows it. A look at a large job takes longer, and looks then come
// rarer, so that following costs a tenth of a core at most.
func (s *feeds) watch(ctx context.Context, job string, f *feed) {
	var told time.Time
	for {
		began := time.Now()
		last := f.latest()
		detail, err := s.load.JobSince(ctx, job, last.detail)
		switch {
		case ctx.Err() != nil:
			f.tell(nil, ctx.Err()) // for those who wait on a context of their own
			return
		case err != nil && (last.n == 0 || errors.Is(err, broker.ErrNotFound)):
			s.forget(job, f)
			f.tell(nil, err)
			return
		case err != nil:
			s.log.Warn("api: a job that is followed cannot be read", "job", job, "err", err)
		case last.n == 0 || worthTelling(last.detail, detail, time.Since(told)):
			told = time.Now()
			f.tell(detail, nil)
		}
		if err == nil && detail.State.Over() {
			return
		}
		if !pause(ctx, max(s.every, 10*time.Since(began))) {
			f.tell(nil, ctx.Err())
			return
		}
	}
}

// forget makes the next one who follows a job look anew.
func (s *feeds) forget(job string, f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[job] == f {
		delete(s.open, job)
	}
}

// pause waits, and says whether it waited to the end.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// worthTelling says whether a job has changed. Its cost grows all the time while machines run; that alone is told once a
// second.
func worthTelling(was, is *broker.JobDetail, since time.Duration) bool {
	a, b := was.JobView, is.JobView
	if since < moneyEvery {
		a.SpentUSD = b.SpentUSD
	}
	return a != b || !slices.Equal(was.Plans, is.Plans) || !slices.EqualFunc(was.Attempts, is.Attempts, sameAttempt) ||
		!slices.EqualFunc(was.TaskList, is.TaskList, sameTask)
}

// sameTask says whether a task is as it was. What it waits for never changes.
func sameTask(a, b broker.TaskView) bool {
	return a.State == b.State && a.Progress == b.Progress && a.Attempts == b.Attempts && a.USD == b.USD && a.Offer == b.Offer &&
		a.USDPerHour == b.USDPerHour && a.Hours == b.Hours && a.Started.Equal(b.Started) && a.Ended.Equal(b.Ended) &&
		a.Reason == b.Reason && a.Waits == b.Waits && a.Name == b.Name && a.Index == b.Index && a.Nodes == b.Nodes
}

// sameAttempt says whether an attempt is as it was. What it was admitted to never changes.
func sameAttempt(a, b broker.Attempt) bool {
	return a.Number == b.Number && a.Task == b.Task && a.Outcome == b.Outcome && a.Reason == b.Reason && a.USD == b.USD &&
		a.ReservedUSD == b.ReservedUSD && a.RateUSD == b.RateUSD && a.Resumed == b.Resumed && a.ResumedFrom == b.ResumedFrom && a.Launched.Equal(b.Launched) &&
		a.Up.Equal(b.Up) && a.Started.Equal(b.Started) && a.Ended.Equal(b.Ended)
}

// JobUpdate is what a follower of a job is sent: first everything, then what changed.
type JobUpdate struct {
	Now time.Time `json:"now" doc:"The broker's clock"`
	// Full updates replace what came before; others add to it, tasks by index and attempts by task and number.
	Full     bool              `json:"full" doc:"Everything, rather than what changed"`
	Job      broker.JobView    `json:"job" doc:"The job"`
	Tasks    []broker.TaskView `json:"tasks,omitempty" doc:"The tasks, or those that changed, by index"`
	Plans    []broker.PlanHead `json:"plans,omitempty" doc:"All plans, where there is a new one"`
	Attempts []broker.Attempt  `json:"attempts,omitempty" doc:"The attempts, or those that changed, by task and number"`
}

// updateOf is what someone has to be sent who knows was, nil for nothing.
func updateOf(was, is *broker.JobDetail, now time.Time) JobUpdate {
	if was == nil || len(was.TaskList) != len(is.TaskList) {
		return JobUpdate{Now: now, Full: true, Job: is.JobView, Tasks: is.TaskList, Plans: is.Plans, Attempts: is.Attempts}
	}
	u := JobUpdate{Now: now, Job: is.JobView}
	for i := range is.TaskList {
		if !sameTask(was.TaskList[i], is.TaskList[i]) {
			u.Tasks = append(u.Tasks, is.TaskList[i])
		}
	}
	if !slices.Equal(was.Plans, is.Plans) {
		u.Plans = is.Plans
	}
	u.Attempts = newAttempts(was.Attempts, is.Attempts)
	return u
}

// newAttempts returns the attempts that were added or changed. Both lists are in the order of task and number, and none ever goes.
func newAttempts(was, is []broker.Attempt) []broker.Attempt {
	var out []broker.Attempt
	for _, a := range is {
		for len(was) > 0 && (was[0].Task < a.Task || was[0].Task == a.Task && was[0].Number < a.Number) {
			was = was[1:]
		}
		if len(was) == 0 || !sameAttempt(was[0], a) {
			out = append(out, a)
		}
	}
	return out
}
