package arm

import (
	"encoding/json"
	"net/http"
	"time"
)

// operation is an asynchronous operation.
type operation struct {
	id, location string
	left         int
	done         bool
	failure      *Fault
	finish       func() *Fault
}

// begin starts an operation.
func (s *Server) begin(location string, finish func() *Fault) *operation {
	o := &operation{id: newID(), location: location, left: s.cfg.Steps, finish: finish}
	s.operations[o.id] = o
	if s.cfg.Within > 0 {
		time.AfterFunc(s.cfg.Within, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			o.end()
		})
	}
	return o
}

// step advances an operation by one poll.
func (s *Server) step(o *operation) {
	if o.left--; o.left <= 0 {
		o.end()
	}
}

func (o *operation) end() {
	if !o.done {
		o.done = true
		o.failure = o.finish()
	}
}

// poll answers with the state of an operation.
func (s *Server) poll(w http.ResponseWriter, id string) error {
	o, ok := s.operations[id]
	if !ok {
		return fault(http.StatusNotFound, "NotFound", "The operation '%s' was not found.", id)
	}
	s.step(o)
	body := map[string]any{"name": o.id, "status": "InProgress"}
	switch {
	case o.done && o.failure != nil:
		body["status"] = "Failed"
		body["error"] = map[string]string{"code": o.failure.Code, "message": o.failure.Message}
	case o.done:
		body["status"] = "Succeeded"
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	return json.NewEncoder(w).Encode(body)
}

// Settle ends all operations and makes all lists complete.
func (s *Server) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.operations {
		o.end()
	}
	for _, v := range s.machines {
		v.unseen = 0
	}
	for _, r := range s.resources {
		r.reserved = 0
	}
}
