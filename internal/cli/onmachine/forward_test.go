package onmachine

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/proc"
	"github.com/tradewind-broker/tradewind/internal/agent/visit"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/tunnel/relay"
	"github.com/tradewind-broker/tradewind/internal/tunnel/tunneltest"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

func TestMain(m *testing.M) {
	proc.Reexec()
	os.Exit(m.Run())
}

// visited is a client of an API with one task, whose machine serves visits like an agent.
func visited(t *testing.T) *client.Client {
	t.Helper()
	ctx := t.Context()
	r := relay.New(mem.New(), time.Now, 0)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/jobs/j/tasks/t/visits", func(w http.ResponseWriter, q *http.Request) {
		var v client.Visiting
		if err := json.NewDecoder(q.Body).Decode(&v); err != nil {
			t.Error(err)
		}
		go visit.Serve(ctx, tunneltest.Calls{Relay: r, Out: "down", In: "up"},
			wire.Visit{Number: 1, Kind: string(v.Kind), Port: v.Port}, visit.Place{Grace: time.Second})
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"job":"j","attempt":"0.1","visit":1}`)
	})
	offset := func(q *http.Request) int64 {
		n, err := strconv.ParseInt(q.URL.Query().Get("offset"), 10, 64)
		if err != nil {
			t.Error(err)
		}
		return n
	}
	mux.HandleFunc("POST /v1/jobs/j/visits/0.1/1/person", func(w http.ResponseWriter, q *http.Request) {
		piece, _ := io.ReadAll(q.Body) // a truncated piece is sent again
		if err := r.Append(q.Context(), "up", offset(q), piece); err != nil {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	})
	mux.HandleFunc("GET /v1/jobs/j/visits/0.1/1/machine", func(w http.ResponseWriter, q *http.Request) {
		held, stop := context.WithTimeout(q.Context(), time.Second)
		defer stop()
		piece, _ := r.Read(held, "down", offset(q)) // no data yet is not an error
		_, _ = w.Write(piece)
	})
	mux.HandleFunc("POST /v1/jobs/j/visits/0.1/1/end", func(http.ResponseWriter, *http.Request) {})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return client.New(s.URL, "token")
}

// Ctrl-C ends forwarding while an idle client is connected, such as a database prompt.
func TestForwardEndsWithIdleClients(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close() //nolint:errcheck // a test's
	go func() {
		if conn, err := server.Accept(); err == nil {
			_, _ = io.WriteString(conn, "hello")
		}
	}()
	here, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := visited(t)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Forward(ctx, c, Target{Job: "j", Task: "t"}, here, server.Addr().(*net.TCPAddr).Port,
			Process{Err: io.Discard}, func() error { return nil })
	}()
	idle, err := net.Dial("tcp", here.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close() //nolint:errcheck // a test's
	if _, err := io.ReadFull(idle, make([]byte, len("hello"))); err != nil {
		t.Fatal(err)
	}
	interrupt()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(idle); err != nil {
		t.Errorf("the client's connection ends with %v", err)
	}
}
