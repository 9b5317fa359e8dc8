package agent

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// reports sends an attempt's reports in order and retries each until it is accepted. The queue stays short, because a
// newer heartbeat or checkpoint replaces an older one.
type reports struct {
	client  *client
	attempt string
	rank    int
	stores  traffic // the attempt's traffic with stores, which every report contains

	mu    sync.Mutex
	queue []pending
	count int
	err   error         // that ended sending
	wake  chan struct{} // capacity 1: a report was added
	moved chan struct{} // closed and replaced when the queue got shorter or err was set
}

type pending struct {
	report   wire.Report
	accepted func()        // called when the broker has accepted the report; may be nil
	log      *taskLog      // the log whose end is in the report; may be nil
	most     int64         // maximum bytes of log in a report that lingers
	until    time.Time     // time at which to give up on the log and send the report without it
	linger   time.Duration // time that the report waits for some log, or for the next report; 0 means none
	quiet    bool          // not sent if the task succeeds before the report has lingered
	at       time.Time     // when it was queued
	sending  bool
}

func newReports(c *client, attempt string, rank int) *reports {
	return &reports{client: c, attempt: attempt, rank: rank, wake: make(chan struct{}, 1), moved: make(chan struct{})}
}

// add queues a report.
func (q *reports) add(r wire.Report, accepted func()) {
	q.put(pending{report: r, accepted: accepted})
}

// end queues the last report. It may carry the end of a log; if that is not accepted in time, the report is sent
// without the log. accepted, if not nil, is called when the broker has it.
func (q *reports) end(r wire.Report, log *taskLog, until time.Time, accepted func()) {
	q.put(pending{report: r, log: log, until: until, accepted: accepted})
}

// soon queues a report that is not urgent. It is sent after linger, or as soon as another report follows, together
// with the log so far (at most most bytes), so that the two need only one call. A quiet report is not sent if the task
// succeeds meanwhile.
func (q *reports) soon(r wire.Report, log *taskLog, most int64, linger time.Duration, quiet bool) {
	q.put(pending{report: r, log: log, most: most, linger: linger, quiet: quiet, at: time.Now()})
}

func (q *reports) put(p pending) {
	r := &p.report
	q.mu.Lock()
	defer q.mu.Unlock()
	if r.Event == wire.Alive && len(q.queue) > 0 {
		return // any queued report also shows that the node is alive
	}
	q.count++
	r.Attempt = q.attempt
	r.ID = q.attempt + "/" + strconv.Itoa(q.rank) + "/" + strconv.Itoa(q.count)
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

// run sends reports until ctx ends or the broker's answer is final. It returns that error.
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
		if p.linger > 0 {
			q.linger(ctx, p.linger)
			if p.quiet && q.skipToEnd(p.at) {
				continue
			}
			p.report.LogFrom, p.report.Log = p.log.lend(p.most)
			p.report.LogTimes = p.log.times(p.report.LogFrom, len(p.report.Log))
			p.until = time.Now().Add(flushTimeout)
		}
		p.report.Moved = q.stores.all()
		kept, err := q.send(ctx, p)
		if p.linger > 0 {
			p.log.endLoan(p.report.LogFrom+int64(len(p.report.Log)), err == nil && kept)
		}
		q.sent(err)
		if err != nil {
			return err
		}
		if p.accepted != nil {
			p.accepted()
		}
	}
}

// skipToEnd removes the first report if the next one is the success of the task. The success then also contains the
// task's run time.
func (q *reports) skipToEnd(began time.Time) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) < 2 || q.queue[1].report.Event != wire.Succeeded {
		return false
	}
	q.queue = q.queue[1:]
	if q.queue[0].report.Ran == 0 {
		q.queue[0].report.Ran = time.Since(began)
	}
	return true
}

// linger waits for d, or until another report is queued.
func (q *reports) linger(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-q.wake:
	case <-ctx.Done():
	}
}

// send sends a report until it is accepted. kept reports whether the broker has stored the log that it carried. The
// end of a task is more important than the end of its log: if the log is not accepted in time, the report is sent
// without it.
func (q *reports) send(ctx context.Context, p pending) (kept bool, err error) {
	if !p.report.HasLog() {
		return true, q.client.report(ctx, p.report)
	}
	soon, cancel := context.WithDeadline(ctx, p.until)
	defer cancel()
	err = q.client.report(soon, p.report)
	var resume *resumeError
	missing := errors.As(err, &resume)
	if err == nil || ctx.Err() != nil || isFinal(err) && !missing {
		return err == nil, err
	}
	if missing {
		err = p.log.sendFrom(soon, resume.offset)
		if isFinal(err) && !errors.As(err, &resume) {
			return false, err
		}
		kept = errors.Is(err, io.EOF) // everything was sent
	}
	return kept, q.client.report(ctx, p.report.WithoutLog())
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

// drain waits until every report is accepted or sending has failed for good.
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
