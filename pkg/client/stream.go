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
	"time"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// Follow yields a job's updates until the job has finished, beginning with a full one. If the stream breaks, for
// example because the broker was restarted, it is reopened after the last update received; if the broker no longer
// knows that position, the next update is full. The last pair has an error if the job could not be followed to its end.
func (c *Client) Follow(ctx context.Context, id string) iter.Seq2[apitypes.JobUpdate, error] {
	return func(yield func(apitypes.JobUpdate, error) bool) {
		for ev, err := range c.Events(ctx, id, "") {
			var u apitypes.JobUpdate
			switch {
			case err != nil:
			case ev.Name != apitypes.EventJob:
				continue // the end, or an event type of a newer broker
			default:
				if err = json.Unmarshal(ev.Data, &u); err != nil {
					err = fmt.Errorf("job %s: malformed event: %w", id, err)
				}
			}
			if !yield(u, err) || err != nil {
				return
			}
		}
	}
}

// Event is a raw event of a job's stream: apitypes.EventJob with an apitypes.JobUpdate, or apitypes.EventEnd, the last.
type Event struct {
	Name, ID string
	Data     []byte // JSON
}

// Events yields the raw events of a job's stream after the event with the ID last; "" starts with everything. Like
// Follow, it continues after a broken stream.
func (c *Client) Events(ctx context.Context, id, last string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		again := reopening{c: c}
		for {
			told, over, err := c.events(ctx, id, &last, yield)
			if over {
				return
			}
			if err == nil {
				err = fmt.Errorf("%w: the stream of job %s was cut off", ErrUnreachable, id)
			}
			if err := again.wait(ctx, told, told, err); err != nil {
				yield(Event{}, err)
				return
			}
		}
	}
}

// events reads one stream. told reports that updates arrived. over reports that the stream is
// complete, or that the consumer stopped.
func (c *Client) events(ctx context.Context, id string, last *string,
	yield func(Event, error) bool) (told, over bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	res, err := c.open(ctx, request{method: http.MethodGet, path: jobPath(id) + "/events", last: *last})
	if err != nil {
		return false, false, err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	for ev, err := range readEvents(res.Body) {
		if err != nil {
			return told, false, c.unreachable(ctx, err)
		}
		if ev.Name == apitypes.EventJob {
			told, *last = true, ev.ID
		}
		if !yield(ev, nil) || ev.Name == apitypes.EventEnd {
			return true, true, nil
		}
	}
	return told, false, nil
}

// reopening decides when to reopen a broken stream, and for how long to try until the broker returns.
type reopening struct {
	c      *Client
	broken time.Time     // when the broker stopped answering
	pause  time.Duration // before the next try
}

// seldom is the longest pause before reopening a stream that had no news.
const seldom = 5 * time.Second

// wait pauses before a stream that ended with err is reopened. It returns the error with which to
// give up, or nil. answered: the broker had answered. news: the stream had brought updates.
func (o *reopening) wait(ctx context.Context, answered, news bool, err error) error {
	if answered {
		o.broken = time.Time{}
	} else if o.broken.IsZero() {
		o.broken = time.Now()
	}
	if o.pause = min(o.pause*3/2, seldom); news || o.pause < o.c.retry {
		o.pause = o.c.retry
	}
	lasting := !errors.Is(err, ErrUnreachable) && Status(err) != http.StatusServiceUnavailable
	late := !o.broken.IsZero() && time.Since(o.broken) > reconnectFor
	if !lasting && !late && pause(ctx, o.pause) {
		return nil
	}
	switch gone := ctx.Err(); {
	case gone == nil || errors.Is(err, gone) && !answered:
		return err
	case answered:
		return gone // the broker had answered, so its error is not the cause
	default:
		return fmt.Errorf("%w: %w", gone, err)
	}
}

// pause waits for d and reports whether ctx is still valid.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// errEventSize means that an event exceeds the size limit.
var errEventSize = errors.New("event too large")

// readEvents parses a stream of server-sent events (WHATWG HTML, section 9.2) as far as the API uses the format: names
// and data. It ends with the stream; an event cut short is dropped.
func readEvents(r io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		br := bufio.NewReaderSize(r, 64<<10)
		var ev Event
		for {
			line, err := readLine(br)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					yield(Event{}, err)
				}
				return
			}
			if len(line) == 0 {
				if ev.Data != nil && !yield(ev, nil) {
					return
				}
				ev = Event{}
				continue
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch string(field) {
			case "event":
				ev.Name = string(value)
			case "id":
				ev.ID = string(value)
			case "data":
				if ev.Data != nil {
					ev.Data = append(ev.Data, '\n')
				}
				ev.Data = append(ev.Data, value...)
				if len(ev.Data) > maxAnswer {
					yield(Event{}, errEventSize)
					return
				}
			}
		}
	}
}

// readLine reads a line without its line break, of at most maxAnswer bytes.
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
