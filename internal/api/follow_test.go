package api

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/broker/view"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// looks is a job that a test can change. It counts how many times it is read.
type looks struct {
	mu    sync.Mutex
	job   apitypes.JobDetail
	err   error
	count int
}

func (l *looks) JobSince(context.Context, string, *view.Look) (*view.Look, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if l.err != nil {
		return nil, l.err
	}
	return &view.Look{JobDetail: l.job}, nil
}

func (l *looks) set(change func(*apitypes.JobDetail)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.job)
}

func TestFollowersShareOnePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looks{job: apitypes.JobDetail{JobView: apitypes.JobView{State: apitypes.JobRunning}}}
		s := newFeeds(t.Context(), l, slog.New(slog.DiscardHandler))
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				f, done := s.Follow("j")
				defer done()
				n := 0
				for {
					m, err := f.Next(t.Context(), n)
					if err != nil {
						t.Error(err)
						return
					}
					if n = m.N; m.Detail.State.Finished() {
						return
					}
				}
			})
		}
		time.Sleep(10 * pollEvery)
		l.set(func(d *apitypes.JobDetail) { d.State = apitypes.JobSucceeded })
		all.Wait()
		if l.count > 15 {
			t.Errorf("looked %d times in %d intervals", l.count, 10)
		}
		time.Sleep(2 * keepFeed)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.open) != 0 {
			t.Errorf("%d feeds are left open", len(s.open))
		}
	})
}

func TestCostAloneUpdatesOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looks{job: apitypes.JobDetail{JobView: apitypes.JobView{State: apitypes.JobRunning}}}
		s := newFeeds(t.Context(), l, slog.New(slog.DiscardHandler))
		f, done := s.Follow("j")
		defer done()
		stop := time.Now().Add(10 * time.Second)
		go func() {
			for time.Now().Before(stop) {
				l.set(func(d *apitypes.JobDetail) { d.SpentUSD += 0.01 })
				time.Sleep(pollEvery)
			}
			l.set(func(d *apitypes.JobDetail) { d.Succeeded = 1 })
		}()
		told := 0
		for m := (Moment{}); ; told++ {
			var err error
			if m, err = f.Next(t.Context(), m.N); err != nil {
				t.Fatal(err)
			}
			if m.Detail.Succeeded == 1 {
				break
			}
		}
		if told < 8 || told > 11 {
			t.Errorf("told %d times in 10 s", told)
		}
	})
}

func TestFollowUnknownJobFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looks{err: record.ErrNotFound}
		s := newFeeds(t.Context(), l, slog.New(slog.DiscardHandler))
		f, done := s.Follow("j")
		defer done()
		if _, err := f.Next(t.Context(), 0); !errors.Is(err, record.ErrNotFound) {
			t.Errorf("next = %v", err)
		}
		// The job may be submitted a moment later. A follower that arrives then must not get earlier events.
		l.set(func(d *apitypes.JobDetail) { d.State = apitypes.JobSucceeded })
		l.err = nil
		f, done = s.Follow("j")
		defer done()
		if _, err := f.Next(t.Context(), 0); err != nil {
			t.Errorf("next = %v", err)
		}
	})
}

func TestTemporaryErrorDoesNotEndFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looks{job: apitypes.JobDetail{JobView: apitypes.JobView{State: apitypes.JobRunning}}}
		s := newFeeds(t.Context(), l, slog.New(slog.DiscardHandler))
		f, done := s.Follow("j")
		defer done()
		m, err := f.Next(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		l.set(func(*apitypes.JobDetail) { l.err = errors.New("throttled") })
		time.Sleep(time.Second)
		l.set(func(d *apitypes.JobDetail) { l.err, d.Succeeded = nil, 1 })
		if m, err = f.Next(t.Context(), m.N); err != nil || m.Detail.Succeeded != 1 {
			t.Errorf("next = %+v, %v", m, err)
		}
	})
}

func TestUpdatesContainChanges(t *testing.T) {
	was := &apitypes.JobDetail{
		TaskList: []apitypes.TaskView{{Index: 0, State: "running"}, {Index: 1, State: "waiting", After: []int{0}}},
		Plans:    []apitypes.PlanHead{{Version: 1}},
		Attempts: []apitypes.Attempt{{Task: 0, Number: 1}},
	}
	f := &Feed{name: "f", changed: make(chan struct{})}
	f.publish(&view.Look{JobDetail: *was}, nil)
	first, places := f.Since(f.now, "", time.Time{})
	if u := first[0]; !u.Full || len(u.Tasks) != 2 || len(u.Plans) != 1 || len(u.Attempts) != 1 {
		t.Errorf("the first update is not everything: %+v", u)
	}
	is := &apitypes.JobDetail{
		TaskList: []apitypes.TaskView{{Index: 0, State: "queued"}, {Index: 1, State: "waiting", After: []int{0}}},
		Plans:    []apitypes.PlanHead{{Version: 1}, {Version: 2}},
		Attempts: []apitypes.Attempt{{Task: 0, Number: 1, Outcome: apitypes.OutcomePreempted}, {Task: 0, Number: 2}},
	}
	f.publish(&view.Look{JobDetail: *is}, nil)
	next, places := f.Since(f.now, places[0], time.Time{})
	if u := next[0]; u.Full || len(u.Tasks) != 1 || u.Tasks[0].State != "queued" || len(u.Plans) != 2 || len(u.Attempts) != 2 {
		t.Errorf("update = %+v", u)
	}
	f.publish(&view.Look{JobDetail: *is}, nil)
	none, _ := f.Since(f.now, places[0], time.Time{})
	if u := none[0]; u.Full || u.Tasks != nil || u.Plans != nil || u.Attempts != nil {
		t.Errorf("an update of nothing = %+v", u)
	}
}
