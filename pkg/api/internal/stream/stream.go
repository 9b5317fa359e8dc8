// Package stream writes answers that go on for as long as someone reads them.
package stream

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// Stream writes an answer that goes on for as long as someone reads it.
type Stream struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	head bool // only the headers were asked for
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
	return &Stream{w: w, rc: http.NewResponseController(w), head: r.Method == http.MethodHead}
}

// Close takes back the time limit of the last piece, which would hold for the next answer on the same connection.
func (s *Stream) Close() {
	_ = s.rc.SetWriteDeadline(time.Time{}) // could be set before, or never was
}

// Send writes and flushes within a time: who does not read is cut off.
func (s *Stream) Send(b []byte) error {
	if s.head {
		return errHead
	}
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	if err := s.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
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
