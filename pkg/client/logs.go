package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// LogOptions select the part of a task's output to read.
type LogOptions struct {
	Attempt int   // 0 is the last one
	Rank    int   // node of a task that runs on several
	Follow  bool  // continue with new output
	Tail    int64 // begin with the last N bytes; 0 is everything
	Lines   int   // begin with the last N lines; 0 is everything. Not together with Tail

	Since      time.Time // begin with the first line printed at this time or later; zero is everything
	Timestamps bool      // begin each line with its time, or - if it is unknown, and a space
}

func (o LogOptions) query() url.Values {
	q := url.Values{}
	if o.Attempt > 0 {
		q.Set("attempt", strconv.Itoa(o.Attempt))
	}
	if o.Rank > 0 {
		q.Set("rank", strconv.Itoa(o.Rank))
	}
	if o.Follow {
		q.Set("follow", "true")
	}
	if o.Lines > 0 {
		q.Set("lines", strconv.Itoa(o.Lines))
	}
	if !o.Since.IsZero() {
		q.Set("since", o.Since.UTC().Format(time.RFC3339Nano))
	}
	if o.Timestamps {
		q.Set("timestamps", "true")
	}
	if o.Tail > 0 {
		q.Set("tail", strconv.FormatInt(o.Tail, 10))
	}
	return q
}

// Log opens the output of a task. The caller closes it; with Follow it ends when the task does. If the broker ends a
// response because of a time or size limit, the log continues with the next response.
func (c *Client) Log(ctx context.Context, job, task string, o LogOptions) (io.ReadCloser, error) {
	l := &logBody{ctx: ctx, c: c, again: reopening{c: c}, call: request{
		method: http.MethodGet, query: o.query(), path: jobPath(job) + "/tasks/" + url.PathEscape(task) + "/logs",
	}}
	var err error
	if l.res, err = c.open(ctx, l.call); err != nil {
		return nil, err
	}
	return l, nil
}

// logBody reads a log from one response or several, and reports connection errors as the client's.
type logBody struct {
	ctx   context.Context //nolint:containedctx // of the requests that the body belongs to
	c     *Client
	call  request
	res   *http.Response // the answer being read
	told  bool           // the answer had output
	again reopening
}

// Close closes the current response.
func (l *logBody) Close() error { return l.res.Body.Close() }

func (l *logBody) Read(p []byte) (int, error) {
	for {
		n, err := l.res.Body.Read(p)
		l.told = l.told || n > 0
		switch {
		case n > 0, err == nil:
			return n, nil // the next Read returns the error again
		case !errors.Is(err, io.EOF):
			return 0, l.c.unreachable(l.ctx, err)
		}
		next := l.res.Trailer.Get(apitypes.NextHeader)
		if next == "" {
			next = l.res.Header.Get(apitypes.NextHeader)
		}
		if next == "" {
			return 0, io.EOF
		}
		l.call.query.Set("after", next)
		if err := l.reopen(); err != nil {
			return 0, err
		}
	}
}

// reopen requests the continuation: at once after a response with output, otherwise after a pause.
func (l *logBody) reopen() error {
	answered, err := true, fmt.Errorf("%w: the log was cut off", ErrUnreachable)
	for at := l.told; ; at = false {
		if !at {
			if err := l.again.wait(l.ctx, answered, l.told, err); err != nil {
				return err
			}
		}
		var res *http.Response
		if res, err = l.c.open(l.ctx, l.call); err == nil {
			err = l.res.Body.Close()
			l.res, l.told = res, false
			return err
		}
		answered = false
	}
}
