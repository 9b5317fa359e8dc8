package desk

import (
	"bytes"
	"errors"
	"net/http"
	"time"
)

// errLetter means that an object is not a letter of an agent.
var errLetter = errors.New("mailbox: not a letter")

func badLetter(err error) bool { return errors.Is(err, errLetter) }

// recorder keeps the answer of a handler.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// SetReadDeadline is called by handlers that limit how long a body may take. A letter is there as a whole.
func (r *recorder) SetReadDeadline(time.Time) error { return nil }

func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}
