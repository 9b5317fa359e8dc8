package api

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

// Stream is a response that lasts as long as the client reads it.
type Stream struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	head  bool // a HEAD request
	after bool // the client reads trailers
}

// writeWithin is the time that a client has to read a piece, in wall time.
const writeWithin = 15 * time.Second

// errHead ends the stream of a HEAD request.
var errHead = errors.New("api: headers only")

// Open sends the headers and returns the stream.
func Open(ctx huma.Context, contentType string) *Stream {
	r, w := humago.Unwrap(ctx)
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("X-Accel-Buffering", "no") // disables buffering in proxies
	w.WriteHeader(http.StatusOK)
	return &Stream{w: w, rc: http.NewResponseController(w), head: r.Method == http.MethodHead,
		after: strings.Contains(strings.ToLower(r.Header.Get("TE")), "trailers")}
}

// Close removes the write deadline of the last piece, which would otherwise apply to the next response on the
// connection.
func (s *Stream) Close() {
	_ = s.rc.SetWriteDeadline(time.Time{}) // succeeded before, or is not supported
}

// Write writes with a deadline: if the client does not read, the connection is cut. The data may be buffered until
// Flush.
func (s *Stream) Write(b []byte) (int, error) {
	if err := s.begin(); err != nil {
		return 0, err
	}
	return s.w.Write(b)
}

// Flush sends the buffered data, and the headers if nothing was written yet. A call means that no more data is ready
// now. A host with a time limit for responses ends the stream if no data follows for a while.
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

// begin sets the deadline for the next write.
func (s *Stream) begin() error {
	if s.head {
		return errHead
	}
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// CutOff ends a stream before its end, and names the offset at which to continue in a trailer. If the client does not
// read trailers ("TE: trailers"), the connection is cut instead. Otherwise the client would take the stream for
// complete.
func (s *Stream) CutOff(name, next string) {
	if !s.after && !s.head {
		panic(http.ErrAbortHandler)
	}
	s.w.Header().Set(http.TrailerPrefix+name, next)
}

// Event sends a server-sent event, with an ID if id is not empty. JSON has no line breaks, so one data line is enough.
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

// Alive sends a comment, which clients ignore, to show that the stream is alive.
func (s *Stream) Alive() error { return s.Send([]byte(": alive\n\n")) }
