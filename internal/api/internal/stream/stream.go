// Package stream writes answers that go on for as long as someone reads them.
package stream

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Stream writes an answer that goes on for as long as someone reads it.
type Stream struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	head  bool // only the headers were asked for
	after bool // the reader reads what is told after all that was written
}

// writeWithin is how long a follower may take to take in what it is sent. Wall time.
const writeWithin = 15 * time.Second

// errHead ends a stream of which only the headers were asked for.
var errHead = errors.New("api: headers only")

// Open sends the headers of a stream.
func Open(ctx huma.Context, contentType string) *Stream {
	r, w := humago.Unwrap(ctx)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that would hold it back
	w.WriteHeader(http.StatusOK)
	return &Stream{w: w, rc: http.NewResponseController(w), head: r.Method == http.MethodHead,
		after: strings.Contains(strings.ToLower(r.Header.Get("TE")), "trailers")}
}

// Close takes back the time limit of the last piece, which would hold for the next answer on the same connection.
func (s *Stream) Close() {
	_ = s.rc.SetWriteDeadline(time.Time{}) // could be set before, or never was
}

// Write writes within a time: who does not read is cut off. What is written may wait for Flush.
func (s *Stream) Write(b []byte) (int, error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	return s.w.Write(b)
}

// Flush sends what was written, and the headers where nothing was. Nothing more is ready to be sent: a host that cannot
// hold an answer for long ends the stream where nothing follows a flush for a while.
func (s *Stream) Flush() error {
	if err := s.begin(); err != nil {
		return err
	}
	return s.flush()
}

// Send writes and flushes.
func (s *Stream) Send(b []byte) error {
	if _, err := s.Write(b); err != nil {
		return err
	}
	return s.flush()
}

func (s *Stream) flush() error {
	if err := s.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// begin sets the time within which what follows is to be taken in.
func (s *Stream) begin() error {
	if s.head {
		return errHead
	}
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// BreakOff ends a stream before its end, and tells in a trailer where to go on. Of a reader that reads none, as its
// "TE: trailers" would say, the connection is cut: to it the stream would look whole.
func (s *Stream) BreakOff(name, next string) {
	if !s.after && !s.head {
		panic(http.ErrAbortHandler)
	}
	s.w.Header().Set(http.TrailerPrefix+name, next)
}

// Event sends a server-sent event, with an ID if it has one. JSON has no line breaks of its own, so one data line is
// enough.
func (s *Stream) Event(name, id string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return s.Send(slices.Concat([]byte("event: "+name+"\n"+id+"data: "), body, []byte("\n\n")))
}

// Alive tells that nothing happened, in a comment that clients ignore.
func (s *Stream) Alive() error { return s.Send([]byte(": alive\n\n")) }
