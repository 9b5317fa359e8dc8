package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// stream writes an answer that goes on for as long as someone reads it.
type stream struct {
	w    http.ResponseWriter
	rc   *http.ResponseController
	head bool // only the headers were asked for
}

// errHead ends a stream of which only the headers were asked for.
var errHead = errors.New("api: headers only")

// openStream sends the headers of a stream.
func openStream(ctx huma.Context, contentType string) *stream {
	r, w := humago.Unwrap(ctx)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Accel-Buffering", "no") // for proxies that would hold it back
	w.WriteHeader(http.StatusOK)
	return &stream{w: w, rc: http.NewResponseController(w), head: r.Method == http.MethodHead}
}

// close takes back the time limit of the last piece, which would hold for the next answer on the same connection.
func (s *stream) close() {
	_ = s.rc.SetWriteDeadline(time.Time{}) // could be set before, or never was
}

// send writes and flushes within a time: who does not read is cut off.
func (s *stream) send(b []byte) error {
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

// event sends a server-sent event, with an ID if it has one. JSON has no line breaks of its own, so one data line is
// enough.
func (s *stream) event(name, id string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if id != "" {
		id = "id: " + id + "\n"
	}
	return s.send(slices.Concat([]byte("event: "+name+"\n"+id+"data: "), body, []byte("\n\n")))
}

// alive tells that nothing happened, in a comment that clients ignore.
func (s *stream) alive() error { return s.send([]byte(": alive\n\n")) }
