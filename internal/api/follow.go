package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/clock"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

const (
	pollEvery  = 200 * time.Millisecond // how often a followed job is polled
	moneyEvery = time.Second            // how often a change of only the cost is sent
	keepFeed   = time.Minute            // how long a feed without followers is kept, for followers that reconnect
)

// loader is the part of the broker that feeds need.
type loader interface {
	JobSince(ctx context.Context, id string, was *view.Look) (*view.Look, error)
}

// Feeds polls each job that has followers, once for all its followers, and computes for each follower the changes
// since its last update.
type Feeds struct {
	load  loader
	log   *slog.Logger
	ctx   context.Context //nolint:containedctx // the lifetime of the API
	every time.Duration

	mu   sync.Mutex
	open map[string]*Feed
}

// Feed is one followed job.
type Feed struct {
	mu      sync.Mutex
	now     Moment
	changed chan struct{} // closed and replaced at each change
	looked  chan struct{} // closed at the first poll since there are followers
	name    string        // unique among all feeds of all processes
	users   int           // guarded by feeds.mu
	stop    context.CancelFunc
	forget  *time.Timer // removes a feed without followers
}

// Moment is a job's state after a change. The detail is shared and must not be changed.
type Moment struct {
	N      int // counts changes from 1; 0 is before the first poll
	Detail *apitypes.JobDetail
	look   *view.Look // source of the detail
	told   []int      // by task: the moment at which it or one of its attempts last changed
	plans  int        // the moment at which the latest plan came
	err    error      // why the job cannot be followed (any more)
}

// newFeeds makes Feeds that work until ctx ends.
func newFeeds(ctx context.Context, load loader, log *slog.Logger) *Feeds {
	return &Feeds{load: load, log: log, ctx: ctx, every: pollEvery, open: map[string]*Feed{}}
}

// Follow starts polling a job, unless it is already being polled. The caller calls done once.
func (s *Feeds) Follow(job string) (f *Feed, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, ok := s.open[job]
	if !ok {
		f = &Feed{changed: make(chan struct{}), name: rand.Text()[:8]}
		s.open[job] = f
	}
	if f.users == 0 {
		if f.forget != nil {
			f.forget.Stop()
		}
		var ctx context.Context
		ctx, f.stop = context.WithCancel(s.ctx)
		looked := make(chan struct{})
		f.mu.Lock()
		f.looked = looked
		f.mu.Unlock()
		go s.watch(ctx, job, f, sync.OnceFunc(func() { close(looked) }))
	}
	f.users++
	return f, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if f.users--; f.users > 0 {
			return
		}
		f.stop()
		f.forget = time.AfterFunc(keepFeed, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if f.users == 0 && s.open[job] == f {
				delete(s.open, job)
			}
		})
	}
}

// Next returns the job's state as soon as it is newer than moment n. It fails if ctx ends or the job cannot be
// followed.
func (f *Feed) Next(ctx context.Context, n int) (Moment, error) {
	f.mu.Lock()
	looked := f.looked
	f.mu.Unlock()
	select {
	case <-ctx.Done():
		return f.latest(), ctx.Err()
	case <-looked: // an earlier follower's state may be old
	}
	for {
		f.mu.Lock()
		now, changed := f.now, f.changed
		f.mu.Unlock()
		if now.err != nil {
			return now, now.err
		}
		if now.N > n {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case <-changed:
		}
	}
}

// latest returns the last known moment.
func (f *Feed) latest() Moment {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *Feed) publish(look *view.Look, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	is := Moment{N: f.now.N + 1, look: look, err: err}
	if err == nil {
		is.Detail = &look.JobDetail
		is.plans, is.told = f.now.changes(is.N, is.Detail)
	}
	f.now = is
	close(f.changed)
	f.changed = make(chan struct{})
}

// watch polls a job until it has finished or has no followers. Large jobs take longer to read and are polled less
// often, so that following one costs at most a tenth of a core.
func (s *Feeds) watch(ctx context.Context, job string, f *Feed, looked func()) {
	defer looked()
	var told time.Time
	for {
		began := time.Now()
		last := f.latest()
		look, err := s.load.JobSince(ctx, job, last.look)
		switch {
		case ctx.Err() != nil:
			s.ended(ctx, f)
			return
		case err != nil && (last.N == 0 || errors.Is(err, record.ErrNotFound)):
			s.forget(job, f)
			f.publish(nil, err)
			return
		case err != nil:
			s.log.Warn("api: cannot read a followed job", "job", job, "err", err)
		case last.N == 0 || needsUpdate(last.Detail, &look.JobDetail, time.Since(told)):
			told = time.Now()
			f.publish(look, nil)
		}
		looked()
		if err == nil && look.State.Finished() {
			return
		}
		if clock.Pause(ctx, max(s.every, 10*time.Since(began))) != nil {
			s.ended(ctx, f)
			return
		}
	}
}

// ended reports to the followers that the host stops. A feed that only lost its followers may get new ones.
func (s *Feeds) ended(ctx context.Context, f *Feed) {
	if s.ctx.Err() != nil {
		f.publish(nil, ctx.Err())
	}
}

// forget removes a feed, so that the next follower starts a new one.
func (s *Feeds) forget(job string, f *Feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[job] == f {
		delete(s.open, job)
	}
}

// needsUpdate reports whether a job has changed enough for an update. The cost and its forecast change all the time
// while machines run. If only these have changed, an update is sent once a second.
func needsUpdate(was, is *apitypes.JobDetail, since time.Duration) bool {
	a, b := was.JobView, is.JobView
	if since < moneyEvery {
		a.SpentUSD, a.ForecastUSD = b.SpentUSD, b.ForecastUSD
	}
	return a != b || !slices.Equal(was.Plans, is.Plans) ||
		!slices.EqualFunc(was.Attempts, is.Attempts, view.SameAttempt) ||
		!slices.EqualFunc(was.TaskList, is.TaskList, view.SameTask)
}

// changes returns the moments at which the plans, and each task with its attempts, last changed, if is becomes moment
// n. Attempts are sorted by task and number, and are never removed.
func (m Moment) changes(n int, is *apitypes.JobDetail) (plans int, told []int) {
	was := m.Detail
	if was == nil {
		was = &apitypes.JobDetail{}
	}
	if plans = m.plans; !slices.Equal(was.Plans, is.Plans) {
		plans = n
	}
	told = make([]int, len(is.TaskList))
	copy(told, m.told)
	for i := range is.TaskList {
		if i >= len(was.TaskList) || !view.SameTask(was.TaskList[i], is.TaskList[i]) {
			told[i] = n
		}
	}
	old := was.Attempts
	for _, a := range is.Attempts {
		for len(old) > 0 && (old[0].Task < a.Task || old[0].Task == a.Task && old[0].Number < a.Number) {
			old = old[1:]
		}
		if len(old) == 0 || !view.SameAttempt(old[0], a) {
			told[a.Task] = n
		}
	}
	return plans, told
}

// eventTasks is the maximum number of tasks per update. A host that limits the size of responses may cut the stream
// after each update.
const eventTasks = 500

// Since returns the updates for a follower that knows the job up to a place in its stream, and the place after each
// update. If no task has changed, it returns one update without tasks.
func (f *Feed) Since(is Moment, place string, now time.Time) (updates []apitypes.JobUpdate, places []string) {
	var n, known int
	name, rest, _ := strings.Cut(place, ".")
	if _, err := fmt.Sscanf(rest, "%d.%d", &n, &known); err != nil || name != f.name || n > is.N ||
		known > len(is.told) {
		n, known = 0, 0
	}
	attempts, size := is.Detail.Attempts, 0
	u := apitypes.JobUpdate{Now: now, Full: known == 0, Job: is.Detail.JobView}
	if known == 0 || is.plans > n {
		u.Plans = is.Detail.Plans
	}
	for i, at := range is.told {
		if i > 0 && i >= known && size >= eventTasks {
			updates, places = append(updates, u), append(places, f.place(is.N, i))
			u, size = apitypes.JobUpdate{Now: now, Job: u.Job}, 0
		}
		first := attempts
		for len(attempts) > 0 && attempts[0].Task == i {
			attempts = attempts[1:]
		}
		if i < known && at <= n {
			continue
		}
		tried := first[:len(first)-len(attempts)]
		u.Tasks, u.Attempts = append(u.Tasks, is.Detail.TaskList[i]), append(u.Attempts, tried...)
		size += 1 + len(tried)
	}
	return append(updates, u), append(places, f.place(is.N, len(is.told)))
}

// place identifies a position in the stream: after the first tasks of moment n.
func (f *Feed) place(n, tasks int) string { return fmt.Sprintf("%s.%d.%d", f.name, n, tasks) }
