package stage

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// costing is an item of a flow.
type costing interface {
	cost() int64 // bytes
}

// flow moves items that produce hands over in batches, several at a time, until an error. At most one batch is
// produced while another is moved, which limits how much is read ahead.
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

// window limits the number of concurrent requests. It grows as long as that increases the throughput: a distant store
// needs more requests than a near one, and a busy machine is no faster with more.
type window struct {
	mu    sync.Mutex
	room  sync.Cond
	used  int
	climb limitControl
	since time.Time // when moved was last reset
	moved int64
}

func newWindow(least int) *window {
	w := &window{climb: limitControl{limit: least, least: least, most: 8 * least}, since: time.Now()}
	w.room.L = &w.mu
	return w
}

// look is the time for which the throughput is measured before each change.
const look = 300 * time.Millisecond

// perRequest is the number of bytes as which a request counts in addition to its own bytes.
const perRequest = 64 << 10

// enter waits for a free place. It returns false if ctx has ended. The requests that hold places end when ctx ends.
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

// limitControl controls the limit of concurrent requests: it raises the limit as long as that increases the throughput,
// and otherwise goes back to the previous one.
type limitControl struct {
	limit, least, most int
	before             int     // limit before the last step; 0 once the limit no longer changes
	pace               float64 // throughput with that limit, bytes per second
}

// next adjusts the limit. Its arguments are the throughput since the last call, and whether the limit was reached.
func (c *limitControl) next(pace float64, full bool) {
	switch {
	case !full:
	case c.before > 0 && pace < 1.1*c.pace: // the last step did not help
		c.limit, c.before = c.before, 0
		c.most = c.limit
	case c.limit < c.most:
		c.before, c.pace = c.limit, pace
		c.limit = min(c.most, c.limit+(c.limit+1)/2)
	}
}
