package stage

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"
)

// ErrStalled says that nothing has come for long of what was asked for: who gives it, or the way to it, is stuck.
var ErrStalled = errors.New("nothing has come for too long")

// stillFor is how long nothing may come.
const stillFor = time.Minute

// Watch ends a request of which nothing comes for so long: neither the head of its answer, nor more of its body. How
// long all of it may take it does not say. Nil watches nothing.
type Watch struct {
	limit  time.Duration
	timer  *time.Timer
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// NewWatch begins with the request, which is to be made with the context. Stop ends it. A limit of 0 is a minute.
func NewWatch(ctx context.Context, limit time.Duration) (context.Context, *Watch) {
	limit = cmp.Or(limit, stillFor)
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &Watch{
		limit: limit, ctx: ctx, cancel: cancel, timer: time.AfterFunc(limit, func() { cancel(ErrStalled) }),
	}
}

// Stop ends the request, unless it is over.
func (w *Watch) Stop() {
	if w != nil {
		w.timer.Stop()
		w.cancel(nil)
	}
}

// Err is an error of the request: ErrStalled in the place of what that has brought about.
func (w *Watch) Err(err error) error {
	if w != nil && err != nil && errors.Is(context.Cause(w.ctx), ErrStalled) {
		return ErrStalled
	}
	return err
}

// Body is that of the answer. While nobody reads it no time counts. With its end the watch is over.
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
