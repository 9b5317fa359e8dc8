package agent

import (
	"context"
	"strconv"
	"sync"

	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
)

// reports sends an attempt's reports in their order, each until it is accepted. The queue stays short: of heartbeats and of
// checkpoints only the newest matters.
type reports struct {
	client  *client
	attempt string
	rank    int

	mu    sync.Mutex
	queue []pending
	count int
	err   error         // that ended it
	wake  chan struct{} // of one; something was added
	moved chan struct{} // closed and replaced when the queue got shorter, or err was set
}

type pending struct {
	report   wire.Report
	accepted func() // when the broker has it; may be nil
	sending  bool
}

func newReports(c *client, attempt string, rank int) *reports {
	return &reports{client: c, attempt: attempt, rank: rank, wake: make(chan struct{}, 1), moved: make(chan struct{})}
}

// add queues a report.
func (q *reports) add(r wire.Report, accepted func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.Event == wire.Alive && len(q.queue) > 0 {
		return // whatever waits says as much
	}
	q.count++
	r.Attempt = q.attempt
	r.ID = q.attempt + "/" + strconv.Itoa(q.rank) + "/" + strconv.Itoa(q.count)
	p := pending{report: r, accepted: accepted}
	if last := len(q.queue) - 1; last >= 0 && !q.queue[last].sending && q.queue[last].report.Event == r.Event {
		q.queue[last] = p
	} else {
		q.queue = append(q.queue, p)
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run sends until ctx ends or the broker has had the last word, which it returns.
func (q *reports) run(ctx context.Context) error {
	for {
		p, ok := q.next()
		if !ok {
			select {
			case <-q.wake:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		err := q.client.report(ctx, p.report)
		q.sent(err)
		if err != nil {
			return err
		}
		if p.accepted != nil {
			p.accepted()
		}
	}
}

func (q *reports) next() (pending, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		return pending{}, false
	}
	q.queue[0].sending = true
	return q.queue[0], true
}

func (q *reports) sent(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err = err; err == nil {
		q.queue = q.queue[1:]
	}
	close(q.moved)
	q.moved = make(chan struct{})
}

// drain waits until every report is accepted, or none will be any more.
func (q *reports) drain(ctx context.Context) error {
	for {
		q.mu.Lock()
		left, err, moved := len(q.queue), q.err, q.moved
		q.mu.Unlock()
		if left == 0 || err != nil {
			return err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
