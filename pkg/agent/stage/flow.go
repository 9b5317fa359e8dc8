package stage

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// costing is what a flow moves.
type costing interface {
	cost() int64 // bytes
}

// flow moves what produce hands over in batches, some at a time, until something fails. One batch is produced while
// another is moved, and no more, which bounds what is read ahead.
func flow[T costing](ctx context.Context, t Transfer,
	produce func(ctx context.Context, hand func([]T) error) error, move func(context.Context, T) error,
) error {
	group, ctx := errgroup.WithContext(ctx)
	batches := make(chan []T)
	group.Go(func() error {
		defer close(batches)
		return produce(ctx, func(batch []T) error {
			select {
			case batches <- batch:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	w := newWindow(t.parallel())
	for batch := range batches {
		for _, item := range batch {
			if !w.enter(ctx) {
				break
			}
			group.Go(func() error {
				defer w.leave(item.cost())
				return move(ctx, item)
			})
		}
	}
	return group.Wait()
}

// window is how many requests are under way at once. It grows while that moves more: a store that is far away needs
// more of them than one that is near, and a busy machine is no faster with more.
type window struct {
	mu    sync.Mutex
	room  sync.Cond
	used  int
	climb climb
	since time.Time // of moved
	moved int64
}

func newWindow(least int) *window {
	w := &window{climb: climb{limit: least, least: least, most: 8 * least}, since: time.Now()}
	w.room.L = &w.mu
	return w
}

// look is how long the pace is watched between two changes.
const look = 300 * time.Millisecond

// perRequest is what a request counts for beside its bytes.
const perRequest = 64 << 10

// enter waits for a place; false when ctx has ended. Whoever holds places leaves when ctx ends.
func (w *window) enter(ctx context.Context) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.used >= w.climb.limit && ctx.Err() == nil {
		w.room.Wait()
	}
	w.used++
	return ctx.Err() == nil
}

func (w *window) leave(bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	full := w.used >= w.climb.limit
	w.used--
	w.moved += bytes + perRequest
	if passed := time.Since(w.since); passed >= look {
		w.climb.next(float64(w.moved)/passed.Seconds(), full)
		w.since, w.moved = time.Now(), 0
	}
	w.room.Broadcast()
}

// climb decides how many requests are under way: more as long as that moves more, and the number before when it does
// not.
type climb struct {
	limit, least, most int
	before             int     // the limit before the last step; 0 when it has come to rest
	pace               float64 // bytes a second at that
}

// next takes the pace since the last call, and whether the limit was what bounded it.
func (c *climb) next(pace float64, full bool) {
	switch {
	case !full:
	case c.before > 0 && pace < 1.1*c.pace: // the step was of no use
		c.limit, c.before = c.before, 0
		c.most = c.limit
	case c.limit < c.most:
		c.before, c.pace = c.limit, pace
		c.limit = min(c.most, c.limit+(c.limit+1)/2)
	}
}
