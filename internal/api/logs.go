package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// logPiece is the number of bytes of a log that are read and sent at once.
const logPiece = 32 << 10

func (a *API) logRoutes() {
	userRoute(a, huma.Operation{
		OperationID: "read-log",
		Method:      http.MethodGet,
		Path:        "/v1/jobs/{id}/tasks/{task}/logs",
		Tags:        []string{"jobs"},
		Summary:     "The output of a task",
		Description: "With `follow` the response continues until the attempt has finished or, if no attempt is " +
			"given, " +
			"until the task has: a line that begins with `== attempt` then announces a new attempt. If a response " +
			"is cut off before its end, as a function's may be, the trailer or header `Tradewind-Next` is the value " +
			"of `after` with which to continue.",
		Responses: answers("The output of one node", "text/plain; charset=utf-8", &huma.Schema{Type: huma.TypeString}),
	}, a.readLog)
}

type readLogInput struct {
	ID      string `path:"id" maxLength:"256" doc:"Job ID"`
	Task    string `path:"task" maxLength:"256" doc:"Name of the task, or its index"`
	Attempt int    `query:"attempt" minimum:"0" doc:"Number of the attempt; 0 is the last one"`
	Rank    int    `query:"rank" minimum:"0" doc:"Node of a task that runs on several"`
	Follow  bool   `query:"follow" doc:"Continue with new output"`
	Offset  int64  `query:"offset" minimum:"0" doc:"Bytes to skip"`
	Tail    int64  `query:"tail" minimum:"0" doc:"Begin with the last N bytes, at the start of a line; 0 for everything"`
	Lines   int    `query:"lines" minimum:"0" maximum:"1000000" doc:"Begin with the last N lines; 0 for everything. Not together with tail"`
	// Since and Timestamps need the times of lines, which logs stored by earlier versions do not have.
	Since      time.Time `query:"since" doc:"Begin with the first line printed at this time or later. A log without known times is returned whole"`
	Timestamps bool      `query:"timestamps" doc:"Begin each line with the time at which it was read from the task, in UTC, and a space; - if it is unknown"`
	After      string    `query:"after" pattern:"^[0-9]{1,9}:[0-9]{1,18}$" doc:"Where a response was cut off: its Tradewind-Next; instead of offset, tail and lines"`
}

// reading is a log that is being sent to a client.
type reading struct {
	api     *API
	feed    *Feed
	in      *readLogInput
	task    int
	attempt int // the current one, 0 if there is none yet
	offset  int64
}

func (a *API) readLog(ctx context.Context, in *readLogInput) (*huma.StreamResponse, error) {
	f, done := a.feeds.Follow(in.ID)
	now, err := f.Next(ctx, 0)
	if err != nil {
		done()
		return nil, err
	}
	rd := &reading{api: a, feed: f, in: in, attempt: in.Attempt, offset: in.Offset}
	if err := rd.find(now.Detail); err != nil {
		done()
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		defer done()
		ctx, cancel := context.WithCancel(hc.Context())
		defer cancel()
		defer context.AfterFunc(a.closed, cancel)()
		s := Open(hc, "text/plain; charset=utf-8")
		defer s.Close()
		if !rd.run(ctx, s, now) {
			s.CutOff(apitypes.NextHeader, fmt.Sprintf("%d:%d", rd.attempt, rd.offset))
		}
	}}, nil
}

// find looks up the task and the attempt.
func (rd *reading) find(d *apitypes.JobDetail) error {
	rd.task = slices.IndexFunc(d.TaskList, func(t apitypes.TaskView) bool { return t.Name == rd.in.Task })
	if rd.task < 0 {
		i, err := strconv.Atoi(rd.in.Task)
		if err != nil || i < 0 || i >= len(d.TaskList) {
			return problem(http.StatusNotFound, fmt.Sprintf("job %s has no task %q", d.ID, rd.in.Task))
		}
		rd.task = i
	}
	if before, offset, again := strings.Cut(rd.in.After, ":"); again {
		rd.attempt, _ = strconv.Atoi(before)            // digits, by the pattern
		rd.offset, _ = strconv.ParseInt(offset, 10, 64) // likewise
		rd.in.Tail, rd.in.Lines, rd.in.Since = 0, 0, time.Time{}
	}
	t := d.TaskList[rd.task]
	switch {
	case rd.attempt > t.Attempts:
		return problem(http.StatusNotFound,
			fmt.Sprintf("task %s has no such attempt: the last one is %d", t.Name, t.Attempts))
	case rd.attempt == 0:
		rd.attempt = t.Attempts
	}
	if rd.attempt == 0 && !rd.in.Follow {
		return problem(http.StatusNotFound, fmt.Sprintf("task %s has no attempt yet", t.Name))
	}
	if rd.in.Rank >= max(t.Nodes, 1) {
		return problem(http.StatusNotFound, fmt.Sprintf("task %s has no such rank: its ranks are 0 to %d",
			t.Name, max(t.Nodes, 1)-1))
	}
	return nil
}

// log returns the name of the current log.
func (rd *reading) log() Log {
	return Log{Job: rd.in.ID, Attempt: record.ClusterID(rd.in.ID, rd.task, rd.attempt), Rank: rd.in.Rank}
}

// run sends the log until it is complete, the client has disconnected or the host stops. It returns true if all
// requested output was sent.
func (rd *reading) run(ctx context.Context, s *Stream, now Moment) (all bool) {
	if rd.attempt != 0 && !rd.in.Since.IsZero() {
		rd.skipSince(ctx)
	}
	switch {
	case rd.attempt == 0:
	case rd.in.Lines > 0:
		rd.skipToLines(ctx)
	case rd.in.Tail > 0:
		rd.skip(ctx)
	}
	for {
		// Check whether the attempt has finished before reading. Otherwise its last output could be missed.
		over := rd.over(now.Detail)
		if err := rd.copy(ctx, s); err != nil || !rd.in.Follow {
			return err == nil
		}
		if err := s.Flush(); err != nil {
			return false
		}
		var err error
		if !over {
			now, err = rd.wait(ctx, now)
		} else {
			now, err = rd.nextAttempt(ctx, s, now)
		}
		if err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// over reports whether the current attempt will print nothing more.
func (rd *reading) over(d *apitypes.JobDetail) bool {
	if d.State.Finished() {
		return true
	}
	return slices.ContainsFunc(d.Attempts, func(a apitypes.Attempt) bool {
		return a.Task == rd.task && a.Number == rd.attempt && a.Outcome != ""
	})
}

// copy sends all available output.
func (rd *reading) copy(ctx context.Context, s *Stream) error {
	if rd.attempt == 0 {
		return nil
	}
	buf := make([]byte, logPiece)
	for {
		n, err := rd.api.cfg.Logs.Read(ctx, rd.log(), rd.offset, buf)
		if n > 0 {
			text := buf[:n]
			if rd.in.Timestamps {
				text = rd.stamped(ctx, text)
			}
			if _, err := s.Write(text); err != nil {
				return err
			}
			rd.offset += int64(n)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, ErrNoLog):
			return nil
		case err != nil:
			rd.api.log.WarnContext(ctx, "api: cannot read a log", "job", rd.in.ID, "task", rd.task, "err", err)
			return err
		}
	}
}

// wait returns when the log grows or the job changes.
func (rd *reading) wait(ctx context.Context, now Moment) (Moment, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	type news struct {
		now Moment
		err error
	}
	changed := make(chan news, 1)
	go func() {
		next, err := rd.feed.Next(waiting, now.N)
		changed <- news{next, err}
		cancel()
	}()
	if rd.attempt == 0 {
		n := <-changed
		if n.err == nil {
			rd.attempt = n.now.Detail.TaskList[rd.task].Attempts
		}
		return n.now, n.err
	}
	err := rd.api.cfg.Logs.Wait(waiting, rd.log(), rd.offset)
	cancel()
	n := <-changed
	switch {
	case ctx.Err() != nil:
		return now, ctx.Err()
	case n.err == nil:
		return n.now, nil
	default: // the log has grown, or no longer can
		return now, err
	}
}

// nextAttempt waits for the next attempt of the task, and announces it in the output. It returns io.EOF if there will
// be none or the client wants only this one.
func (rd *reading) nextAttempt(ctx context.Context, s *Stream, now Moment) (Moment, error) {
	for {
		t := now.Detail.TaskList[rd.task]
		switch {
		case rd.in.Attempt > 0:
			return now, io.EOF
		case t.Attempts > rd.attempt:
			offer := rd.advance(ctx, now.Detail)
			return now, s.Send(fmt.Appendf(nil, "\n== attempt %d on %s\n", rd.attempt, offer))
		case now.Detail.State.Finished(), t.State == string(record.TaskSucceeded):
			return now, io.EOF
		}
		var err error
		if now, err = rd.feed.Next(ctx, now.N); err != nil {
			return now, err
		}
	}
}

// advance moves to the next attempt that has printed anything, or to the newest, and returns its offer. A client that
// was disconnected may have missed several.
func (rd *reading) advance(ctx context.Context, d *apitypes.JobDetail) (offer string) {
	t := d.TaskList[rd.task]
	rd.offset = 0
	for rd.attempt++; rd.attempt < t.Attempts; rd.attempt++ {
		if size, err := rd.api.cfg.Logs.Size(ctx, rd.log()); err == nil && size > 0 {
			break
		}
	}
	for _, a := range d.Attempts {
		if a.Task == rd.task && a.Number == rd.attempt {
			return a.OfferID
		}
	}
	return t.Offer
}

// skipToLines moves to the start of the last lines of the log. It reads the log backwards, piece by piece. If a piece
// cannot be read, the log is sent from there on.
func (rd *reading) skipToLines(ctx context.Context) {
	end, err := rd.api.cfg.Logs.Size(ctx, rd.log())
	if err != nil {
		return
	}
	// The last line may be incomplete. A line break at the very end ends the last line and begins none.
	left, from, buf := rd.in.Lines, rd.offset, make([]byte, logPiece)
	for at := end; at > from; {
		piece := buf[:min(int64(logPiece), at-from)]
		at -= int64(len(piece))
		n, err := rd.api.cfg.Logs.Read(ctx, rd.log(), at, piece)
		if n < len(piece) || err != nil && !errors.Is(err, io.EOF) {
			rd.offset = at + int64(len(piece))
			return
		}
		for i := len(piece) - 1; i >= 0; i-- {
			if piece[i] != '\n' || at+int64(i) == end-1 {
				continue
			}
			if left--; left == 0 {
				rd.offset = at + int64(i) + 1
				return
			}
		}
	}
}

// skip moves to the start of the first line in the last bytes of the log.
func (rd *reading) skip(ctx context.Context) {
	size, err := rd.api.cfg.Logs.Size(ctx, rd.log())
	if err != nil || size-rd.in.Tail <= rd.offset {
		return
	}
	rd.offset = size - rd.in.Tail
	// Start one byte earlier: if that byte ends a line, nothing has to be skipped.
	buf := make([]byte, min(logPiece, rd.in.Tail))
	n, err := rd.api.cfg.Logs.Read(ctx, rd.log(), rd.offset-1, buf)
	if err != nil && !errors.Is(err, io.EOF) {
		return
	}
	if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
		rd.offset += int64(i)
	}
}

// skipSince moves to the first line that was printed at a time or later, or to the end.
func (rd *reading) skipSince(ctx context.Context) {
	for at, known := rd.offset, false; ; known = true {
		marks, err := rd.api.cfg.Logs.Marks(ctx, rd.log(), at)
		if err != nil || len(marks) == 0 && !known {
			return // the times are unknown
		}
		i := slices.IndexFunc(marks, func(m wire.LogMark) bool { return !m.At.Before(rd.in.Since) })
		if i >= 0 {
			rd.offset = max(rd.offset, rd.lineAt(ctx, marks[i].Offset))
			return
		}
		if last := marks[len(marks)-1].Offset; last > at {
			at = last
			continue
		}
		if size, err := rd.api.cfg.Logs.Size(ctx, rd.log()); err == nil {
			rd.offset = max(rd.offset, size)
		}
		return
	}
}

// lineAt returns where the first line begins at or after an offset.
func (rd *reading) lineAt(ctx context.Context, offset int64) int64 {
	if offset == 0 {
		return 0
	}
	buf := make([]byte, logPiece)
	n, err := rd.api.cfg.Logs.Read(ctx, rd.log(), offset-1, buf)
	if err != nil && !errors.Is(err, io.EOF) {
		return offset
	}
	if i := bytes.IndexByte(buf[:n], '\n'); i >= 0 {
		return offset + int64(i)
	}
	return offset
}

// timeFormat is the format of the times of lines: RFC 3339 with milliseconds.
const timeFormat = "2006-01-02T15:04:05.000Z07:00"

// lineBegins reports whether a line begins at the current offset.
func (rd *reading) lineBegins(ctx context.Context) bool {
	if rd.offset == 0 {
		return true
	}
	var before [1]byte
	n, err := rd.api.cfg.Logs.Read(ctx, rd.log(), rd.offset-1, before[:])
	return n == 0 || err != nil && !errors.Is(err, io.EOF) || before[0] == '\n'
}

// stamped returns a piece of the log that begins at the current offset, with the time before each line.
func (rd *reading) stamped(ctx context.Context, text []byte) []byte {
	marks := rd.marks(ctx, rd.offset+int64(len(text)))
	begins := rd.lineBegins(ctx)
	var out []byte
	for at := rd.offset; len(text) > 0; begins = true {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line = text[:i+1]
		}
		if begins {
			marks = wire.MarksAt(marks, at)
			stamp := "-"
			if len(marks) > 0 && marks[0].Offset <= at {
				stamp = marks[0].At.Format(timeFormat)
			}
			out = append(append(out, stamp...), ' ')
		}
		out = append(out, line...)
		text, at = text[len(line):], at+int64(len(line))
	}
	return out
}

// marks returns the marks from the current offset up to an end.
func (rd *reading) marks(ctx context.Context, end int64) (all []wire.LogMark) {
	for at := rd.offset; ; {
		marks, err := rd.api.cfg.Logs.Marks(ctx, rd.log(), at)
		if err != nil || len(marks) == 0 {
			return all
		}
		if len(all) > 0 && marks[0].Offset == all[len(all)-1].Offset {
			marks = marks[1:]
		}
		all = append(all, marks...)
		if len(marks) == 0 || all[len(all)-1].Offset >= end {
			return all
		}
		at = all[len(all)-1].Offset
	}
}
