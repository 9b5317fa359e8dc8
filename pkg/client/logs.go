package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// LogOptions say which part of a task's output to read.
type LogOptions struct {
	Attempt int   // 0 is the last one
	Rank    int   // node of a task that runs on several
	Follow  bool  // go on with what is printed from now on
	Tail    int64 // begin with the last so many bytes; 0 is everything
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
	if o.Tail > 0 {
		q.Set("tail", strconv.FormatInt(o.Tail, 10))
	}
	return q
}

// Log opens what a task printed. The caller closes it; with Follow it ends when the task does. Where the broker cannot
// hold an answer for as long, or not send one as large, the log goes on with the next answer.
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

// logBody is a log on its way here, in one answer or several. That it broke off is told in the client's words.
type logBody struct {
	ctx   context.Context //nolint:containedctx // of the requests that the body belongs to
	c     *Client
	call  request
	res   *http.Response // the answer being read
	told  bool           // it had something
	again reopening
}

// Close lets go of the answer that is being read.
func (l *logBody) Close() error { return l.res.Body.Close() }

func (l *logBody) Read(p []byte) (int, error) {
	for {
		n, err := l.res.Body.Read(p)
		l.told = l.told || n > 0
		switch {
		case n > 0, err == nil:
			return n, nil // an error comes again
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

// reopen asks for what follows: after an answer that had something at once, else after a while.
func (l *logBody) reopen() error {
	answered, err := true, fmt.Errorf("%w: the log broke off", ErrUnreachable)
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
