package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// deadlines is a response writer that records the deadlines that are set on it.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error { d.set = append(d.set, t); return nil }

func TestCloseResetsWriteDeadline(t *testing.T) {
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	s := Open(humago.NewContext(&huma.Operation{}, httptest.NewRequest("GET", "/", http.NoBody), w), "text/plain")
	if err := s.Send([]byte("x")); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if len(w.set) != 2 || w.set[0].IsZero() || !w.set[1].IsZero() {
		t.Errorf("time limits %v: each piece needs one, and the connection's next answer none", w.set)
	}
}
