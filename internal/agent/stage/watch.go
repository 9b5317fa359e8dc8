package stage

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"
)

// ErrStalled means that no data has arrived for too long.
var ErrStalled = errors.New("no data has arrived for too long")

// stillFor is the default limit without data.
const stillFor = time.Minute

// Watch cancels a request if no data arrives for some time: neither the header of its answer nor more of its body. It
// does not limit the total time. A nil Watch does nothing.
type Watch struct {
	limit  time.Duration
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// NewWatch starts a watch. The request must use the returned context. Stop ends the watch. A limit of 0 is a minute.
func NewWatch(ctx context.Context, limit time.Duration) (context.Context, *Watch) {
	limit = cmp.Or(limit, stillFor)
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &Watch{
		limit: limit, ctx: ctx, cancel: cancel, timer: time.AfterFunc(limit, func() { cancel(ErrStalled) }),
	}
}

// Stop ends the watch, and cancels the request if it is still running.
func (w *Watch) Stop() {
	if w != nil {
		w.timer.Stop()
		w.cancel(nil)
	}
}

// Err returns ErrStalled if that was the reason for err, otherwise err.
func (w *Watch) Err(err error) error {
	if w != nil && err != nil && errors.Is(context.Cause(w.ctx), ErrStalled) {
		return ErrStalled
	}
	return err
}

// Body wraps the body of the answer. Only time spent in Read counts. Closing the body stops the watch.
func (w *Watch) Body(body io.ReadCloser) io.ReadCloser {
	if w == nil {
		return body
	}
	w.timer.Stop()
	return &watched{body, w}
}

type watched struct {
	io.ReadCloser
	by *Watch
}

// Read implements io.Reader.
func (w *watched) Read(p []byte) (int, error) {
	w.by.timer.Reset(w.by.limit)
	n, err := w.ReadCloser.Read(p)
	w.by.timer.Stop()
	return n, w.by.Err(err)
}

// Close implements io.Closer.
func (w *watched) Close() error {
	err := w.ReadCloser.Close()
	w.by.Stop()
	return err
}
