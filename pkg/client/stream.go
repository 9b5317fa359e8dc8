package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/tradewind-broker/tradewind/pkg/api"
	"github.com/tradewind-broker/tradewind/pkg/clock"
)

// Follow yields a job's updates until it is over, beginning with everything. A stream that breaks off, because the
// broker was started anew, is opened again where it ended, if the broker still knows that place; else the first update
// after that is full. The last pair has an error when the job could not be followed to its end.
func (c *Client) Follow(ctx context.Context, id string) iter.Seq2[api.JobUpdate, error] {
	return func(yield func(api.JobUpdate, error) bool) {
		var broken time.Time // since when nothing came
		var last string      // ID of the last event
		for {
			told, over, err := c.follow(ctx, id, &last, yield)
			if over {
				return
			}
			if err == nil {
				err = fmt.Errorf("%w: the stream of job %s broke off", ErrUnreachable, id)
			}
			if told {
				broken = time.Time{}
			}
			if broken.IsZero() {
				broken = time.Now()
			}
			lasting := !errors.Is(err, ErrUnreachable) && Status(err) != http.StatusServiceUnavailable
			if lasting || ctx.Err() != nil || time.Since(broken) > reconnectFor || clock.Pause(ctx, c.retry) != nil {
				yield(api.JobUpdate{}, errors.Join(ctx.Err(), err))
				return
			}
		}
	}
}

// follow reads one stream. told says that it brought something, over that there is nothing more to tell, or that nobody
// wants to know.
func (c *Client) follow(ctx context.Context, id string, last *string,
	yield func(api.JobUpdate, error) bool) (told, over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	res, err := c.open(ctx, request{method: http.MethodGet, path: jobPath(id) + "/events", last: *last})
	if err != nil {
		return false, false, err
	}
	defer res.Body.Close() //nolint:errcheck // only read from
	for ev, err := range readEvents(res.Body) {
		switch {
		case err != nil:
			return told, false, c.unreachable(ctx, err)
		case ev.name == api.EventEnd:
			return true, true, nil
		case ev.name != api.EventJob:
			continue // of a newer broker
		}
		var u api.JobUpdate
		if err := json.Unmarshal(ev.data, &u); err != nil {
			return told, false, fmt.Errorf("job %s: an event is not the API's: %w", id, err)
		}
		told, *last = true, ev.id
		if !yield(u, nil) {
			return true, true, nil
		}
	}
	return told, false, nil
}

// event is a server-sent event.
type event struct {
	name, id string
	data     []byte
}

// errEventSize says that an event is longer than any broker's.
var errEventSize = errors.New("an event is beyond all limits")

// readEvents parses a stream of server-sent events (WHATWG HTML, section 9.2) as far as the API uses the format: names
// and data. It ends with the stream; an event cut short is dropped.
func readEvents(r io.Reader) iter.Seq2[event, error] {
	return func(yield func(event, error) bool) {
		br := bufio.NewReaderSize(r, 64<<10)
		var ev event
		for {
			line, err := readLine(br)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(event{}, err)
				}
				return
			}
			if len(line) == 0 {
				if ev.data != nil && !yield(ev, nil) {
					return
				}
				ev = event{}
				continue
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "event":
				ev.name = string(value)
			case "id":
				ev.id = string(value)
			case "data":
				if ev.data != nil {
					ev.data = append(ev.data, '\n')
				}
				ev.data = append(ev.data, value...)
				if len(ev.data) > maxAnswer {
					yield(event{}, errEventSize)
					return
				}
			}
		}
	}
}

// readLine reads a line without its end, of at most maxAnswer bytes.
func readLine(br *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		piece, err := br.ReadSlice('\n')
		line = append(line, piece...)
		switch {
		case err == nil:
			return bytes.TrimSuffix(line[:len(line)-1], []byte("\r")), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxAnswer:
			return nil, errEventSize
		}
	}
}

// LogOptions say which part of a task's output to read.
type LogOptions struct {
	Attempt int   // 0 is the last one
	Rank    int   // node of a task that runs on several
	Follow  bool  // go on with what is printed from now on
	Tail    int64 // begin with the last so many bytes; 0 is everything
}

// Log opens what a task printed. The caller closes it; with Follow it ends when the task does.
func (c *Client) Log(ctx context.Context, job, task string, o LogOptions) (io.ReadCloser, error) {
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
	res, err := c.open(ctx,
		request{method: http.MethodGet, path: jobPath(job) + "/tasks/" + url.PathEscape(task) + "/logs", query: q})
	if err != nil {
		return nil, err
	}
	return &logBody{ReadCloser: res.Body, c: c, ctx: ctx}, nil
}

// logBody is a log on its way here. That it broke off is told in the client's words.
type logBody struct {
	io.ReadCloser
	c   *Client
	ctx context.Context //nolint:containedctx // of the request that the body belongs to
}

func (b *logBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.c.unreachable(b.ctx, err)
	}
	return n, err
}
