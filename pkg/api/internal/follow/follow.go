// Package follow looks at jobs that somebody follows, each once however many do, and tells each follower what changed
// since what that one knows.
package follow

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

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/clock"
)

const (
	pollEvery  = 200 * time.Millisecond // how often a job that is followed is looked at
	moneyEvery = time.Second            // how often a change of nothing but its cost is told
	keepFeed   = time.Minute            // that nobody follows: whose stream broke off comes back for what changed
)

// loader is the part of the broker that feeds need.
type loader interface {
	JobSince(ctx context.Context, id string, was *view.Look) (*view.Look, error)
}

// Feeds look at the jobs that are followed, each once however many follow it.
type Feeds struct {
	load  loader
	log   *slog.Logger
	ctx   context.Context //nolint:containedctx // the lifetime of the API
	every time.Duration

	mu   sync.Mutex
	open map[string]*Feed
}

// Feed is one job that is followed.
type Feed struct {
	mu      sync.Mutex
	now     Moment
	changed chan struct{} // closed and replaced at each change
	looked  chan struct{} // closed by the first look since someone follows
	name    string        // of this feed among all that ever were, in every process
	users   int           // guarded by feeds.mu
	stop    context.CancelFunc
	forget  *time.Timer // ends a feed that nobody follows
}

// Moment is a job as it was when it last changed. The detail is shared and not to be changed.
type Moment struct {
	N      int // counts changes, from 1; 0 is before the first look
	Detail *apitypes.JobDetail
	look   *view.Look // that the detail is of
	told   []int      // by task: the moment at which it, or an attempt of it, last changed
	plans  int        // the moment at which a plan came
	err    error      // the job cannot be followed (any more)
}

// New makes Feeds that last until ctx ends.
func New(ctx context.Context, load loader, log *slog.Logger) *Feeds {
	return &Feeds{load: load, log: log, ctx: ctx, every: pollEvery, open: map[string]*Feed{}}
}

// Follow starts to look at a job, unless that is done already. The caller calls done once.
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

// Next returns the job as soon as it is no longer the moment n. It fails when ctx ends, or the job cannot be followed.
func (f *Feed) Next(ctx context.Context, n int) (Moment, error) {
	f.mu.Lock()
	looked := f.looked
	f.mu.Unlock()
	select {
	case <-ctx.Done():
		return f.latest(), ctx.Err()
	case <-looked: // what an earlier follower was told may be long ago
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

// latest is the last moment that was seen.
func (f *Feed) latest() Moment {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *Feed) tell(look *view.Look, err error) {
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

// watch looks at a job until it is over or nobody follows it. A look at a large job takes longer, and looks then come
// rarer, so that following costs a tenth of a core at most.
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
			f.tell(nil, err)
			return
		case err != nil:
			s.log.Warn("api: a job that is followed cannot be read", "job", job, "err", err)
		case last.N == 0 || worthTelling(last.Detail, &look.JobDetail, time.Since(told)):
			told = time.Now()
			f.tell(look, nil)
		}
		looked()
		if err == nil && look.State.Over() {
			return
		}
		if clock.Pause(ctx, max(s.every, 10*time.Since(began))) != nil {
			s.ended(ctx, f)
			return
		}
	}
}

// ended tells whoever waits that the host stops; a feed that only lost its followers may have others.
func (s *Feeds) ended(ctx context.Context, f *Feed) {
	if s.ctx.Err() != nil {
		f.tell(nil, ctx.Err())
	}
}

// forget makes the next one who follows a job look anew.
func (s *Feeds) forget(job string, f *Feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[job] == f {
		delete(s.open, job)
	}
}

// worthTelling says whether a job has changed. Its cost grows all the time while machines run; that alone is told once
// a second.
func worthTelling(was, is *apitypes.JobDetail, since time.Duration) bool {
	a, b := was.JobView, is.JobView
	if since < moneyEvery {
		a.SpentUSD = b.SpentUSD
	}
	return a != b || !slices.Equal(was.Plans, is.Plans) ||
		!slices.EqualFunc(was.Attempts, is.Attempts, view.SameAttempt) ||
		!slices.EqualFunc(was.TaskList, is.TaskList, view.SameTask)
}

// changes returns as of which moment the plans and each task of a job, with its attempts, are as they are now, if this
// is the moment n. Attempts are in the order of task and number, and none ever goes.
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

// eventTasks is how many tasks one update tells of at most: a stream may be cut behind each, where a host's answers
// have a largest size.
const eventTasks = 500

// Since returns what someone has to be sent who knows the job as of a place in its stream, and the place after each. An
// update without a task tells that there is none.
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

// place names what someone knows who was told of a moment's first tasks.
func (f *Feed) place(n, tasks int) string { return fmt.Sprintf("%s.%d.%d", f.name, n, tasks) }
