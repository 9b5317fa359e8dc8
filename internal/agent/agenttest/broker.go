// Package agenttest is a test broker for agents: it assigns work, and records reports and logs. Its state survives
// Stop and Start, as a broker's store survives the broker.
package agenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/token"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/grant/filegrant"
	"github.com/tradewind-broker/tradewind/pkg/grant"
)

// patience is the time for which a test waits for an expected event.
const patience = 60 * time.Second

// Node is a node of a cluster.
type Node struct {
	Cluster string
	Rank    int
}

// Report is a report and the node that sent it.
type Report struct {
	wire.Report
	Node
}

// Broker serves the API of package wire on a loopback address. It grants every request for files in the test's
// temporary folders; it has no other stores unless Mounts adds them. Its methods are safe for concurrent use.
type Broker struct {
	t    testing.TB
	key  []byte
	addr string
	data *filegrant.Store

	others grant.Mux // other stores by scheme; see Mounts

	mu      sync.Mutex
	server  *http.Server
	changed chan struct{} // closed and replaced at every change
	work    map[Node]wire.Work
	hellos  map[Node]wire.Hello
	reports []Report
	logs    map[string][]byte
	refuse  func(path string) int
	noLogs  bool
	calls   map[string]int
	program string
}

// New starts a broker that stops with the test.
func New(t testing.TB) *Broker {
	t.Helper()
	b := &Broker{
		t: t, key: bytes.Repeat([]byte("k"), token.MinKeyBytes), addr: "127.0.0.1:0", changed: make(chan struct{}),
		work: map[Node]wire.Work{}, hellos: map[Node]wire.Hello{}, logs: map[string][]byte{}, calls: map[string]int{},
	}
	b.Start()
	t.Cleanup(b.Stop)
	b.openData()
	return b
}

// Start starts to serve, at the same address as before.
func (b *Broker) Start() {
	b.t.Helper()
	l, err := net.Listen("tcp", b.addr)
	if err != nil {
		b.t.Fatal(err)
	}
	server := &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
	b.mu.Lock()
	b.addr, b.server = l.Addr().String(), server
	b.mu.Unlock()
	go func() { _ = server.Serve(l) }()
}

// Stop closes every connection, as if the broker had died.
func (b *Broker) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.server.Close()
}

// URL is the endpoint.
func (b *Broker) URL() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return "http://" + b.addr
}

// Token returns a valid token for a node.
func (b *Broker) Token(n Node) string {
	b.t.Helper()
	s, err := token.Mint(b.key,
		wire.Claims{Job: "job", Cluster: n.Cluster, Rank: n.Rank, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// Tokens returns valid tokens for all nodes of a cluster.
func (b *Broker) Tokens(cluster string, nodes int) []string {
	b.t.Helper()
	var out []string
	for rank := range nodes {
		out = append(out, b.Token(Node{cluster, rank}))
	}
	return out
}

// Refuse makes calls fail with the status that f returns for their path. If f is nil or returns 0, calls succeed.
func (b *Broker) Refuse(f func(path string) int) { b.update(func() { b.refuse = f }) }

// Program sets the URL from which machines download the agent.
func (b *Broker) Program(url string) { b.update(func() { b.program = url }) }

// Mounts adds a store that grants access to everything of its scheme, and lends credentials for it.
func (b *Broker) Mounts(scheme string, s grant.Store) {
	b.update(func() { b.others = grant.Mux{scheme: s} })
}

// stores returns all stores.
func (b *Broker) stores() grant.Mux {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := grant.Mux{"file": b.data}
	maps.Copy(all, b.others)
	return all
}

// RefuseLogs makes reports fail that carry a log.
func (b *Broker) RefuseLogs() { b.update(func() { b.noLogs = true }) }

// SendCommand gives a node a new command.
func (b *Broker) SendCommand(n Node, w wire.Work) {
	b.update(func() {
		w.Seq = b.work[n].Seq + 1
		b.work[n] = w
	})
}

// Run gives a node an assignment.
func (b *Broker) Run(n Node, a *wire.Assignment) {
	b.SendCommand(n, wire.Work{Command: wire.Run, Assignment: a})
}

func (b *Broker) update(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
}

// Await waits until ok returns true. It calls ok with its lock held.
func (b *Broker) Await(what string, ok func() bool) {
	b.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		b.mu.Lock()
		done, changed := ok(), b.changed
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			b.t.Fatalf("timeout waiting for %s\n%s", what, b.dump())
		}
	}
}

func (b *Broker) dump() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("reports: %+v\nlogs: %.4000q", b.reports, b.logs)
}

// Hello waits until a node has registered.
func (b *Broker) Hello(n Node) wire.Hello {
	b.t.Helper()
	var h wire.Hello
	b.Await(fmt.Sprintf("hello of %v", n), func() (ok bool) {
		h, ok = b.hellos[n]
		return ok
	})
	return h
}

// Report waits for the first report of one of the events from a node about an attempt.
func (b *Broker) Report(n Node, attempt string, events ...wire.Event) wire.Report {
	b.t.Helper()
	return b.ReportAfter(0, n, attempt, events...)
}

// ReportAfter is Report without the first skip matching reports.
func (b *Broker) ReportAfter(skip int, n Node, attempt string, events ...wire.Event) wire.Report {
	b.t.Helper()
	var found wire.Report
	b.Await(fmt.Sprintf("%v of %s from %v", events, attempt, n), func() bool {
		left := skip
		for _, r := range b.reports {
			if r.Node == n && r.Attempt == attempt && slices.Contains(events, r.Event) {
				if left--; left < 0 {
					found = r.Report
					return true
				}
			}
		}
		return false
	})
	return found
}

// Result waits for the end of an attempt.
func (b *Broker) Result(n Node, attempt string) wire.Report {
	b.t.Helper()
	return b.Report(n, attempt, wire.Succeeded, wire.Failed, wire.Stopped)
}

// Events returns the reports of a node about an attempt, without heartbeats.
func (b *Broker) Events(n Node, attempt string) []wire.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []wire.Event
	for _, r := range b.reports {
		if r.Node == n && r.Attempt == attempt && r.Event != wire.Alive {
			out = append(out, r.Event)
		}
	}
	return out
}

// AwaitLog waits until a node's log of an attempt contains want.
func (b *Broker) AwaitLog(n Node, attempt, want string) {
	b.t.Helper()
	b.Await("log "+want, func() bool { return bytes.Contains(b.logs[logKey(n, attempt)], []byte(want)) })
}

// Log returns the log of an attempt that a node has sent so far.
func (b *Broker) Log(n Node, attempt string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.logs[logKey(n, attempt)])
}

// ForgetLog truncates a log, as if its end had not been on disk when the broker died.
func (b *Broker) ForgetLog(n Node, attempt string, keep int) {
	b.update(func() {
		k := logKey(n, attempt)
		b.logs[k] = b.logs[k][:min(keep, len(b.logs[k]))]
	})
}

// Calls returns how often a path was called.
func (b *Broker) Calls(path string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[path]
}

func logKey(n Node, attempt string) string {
	return n.Cluster + "#" + strconv.Itoa(n.Rank) + "#" + attempt
}

// ServeHTTP serves the API.
func (b *Broker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, dataPath) { // its URLs have their own signatures
		b.data.ServeHTTP(w, r)
		return
	}
	var refuse func(string) int
	b.update(func() {
		b.calls[r.URL.Path]++
		refuse = b.refuse
	})
	if refuse != nil {
		if code := refuse(r.URL.Path); code != 0 {
			w.WriteHeader(code)
			return
		}
	}
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	claims, err := token.Verify(b.key, bearer, time.Now())
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	n := Node{claims.Cluster, claims.Rank}
	switch r.Method + " " + r.URL.Path {
	case "GET " + wire.PathProgram + path.Base(r.URL.Path):
		b.mu.Lock()
		defer b.mu.Unlock()
		http.Redirect(w, r, b.program, http.StatusTemporaryRedirect)
	case "POST " + wire.PathGrants, "POST " + wire.PathList, "POST " + wire.PathUploads, "POST " + wire.PathPrune,
		"POST " + wire.PathMounts:
		b.serveData(w, r)
	case "POST " + wire.PathHello:
		b.serveHello(w, r, n)
	case "POST " + wire.PathReport:
		var rep wire.Report
		b.accept(w, r, &rep, func() int {
			k := logKey(n, rep.Attempt)
			switch {
			case len(rep.Log) > 0 && b.noLogs:
				return http.StatusServiceUnavailable
			case len(rep.Log) > 0 && rep.LogFrom > int64(len(b.logs[k])):
				w.Header().Set(wire.HeaderOffset, strconv.Itoa(len(b.logs[k])))
				return http.StatusConflict
			}
			if len(rep.Log) > 0 {
				b.logs[k] = append(b.logs[k][:rep.LogFrom], rep.Log...)
			}
			if !slices.ContainsFunc(b.reports, func(o Report) bool { return o.Node == n && o.ID == rep.ID }) {
				b.reports = append(b.reports, Report{rep, n})
			}
			return http.StatusNoContent
		})
	case "GET " + wire.PathWork:
		b.serveWork(w, r, n)
	case "POST " + wire.PathLogs:
		b.serveLogs(w, r, n)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (b *Broker) accept(w http.ResponseWriter, r *http.Request, v any, store func() int) {
	if err := json.NewDecoder(r.Body).Decode(v); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var code int
	b.update(func() { code = store() })
	w.WriteHeader(code)
}

// serveHello answers with the node's work, if there is any.
func (b *Broker) serveHello(w http.ResponseWriter, r *http.Request, n Node) {
	var h wire.Hello
	if err := json.NewDecoder(r.Body).Decode(&h); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var work wire.Work
	b.update(func() { b.hellos[n], work = h, b.work[n] })
	if work.Seq == 0 {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	_ = json.NewEncoder(w).Encode(work)
}

func (b *Broker) serveWork(w http.ResponseWriter, r *http.Request, n Node) {
	seen, err := strconv.Atoi(r.FormValue("seen"))
	wait, waitErr := time.ParseDuration(r.FormValue("wait"))
	if err != nil || waitErr != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	timeout := time.NewTimer(wait)
	defer timeout.Stop()
	for {
		b.mu.Lock()
		work, changed := b.work[n], b.changed
		b.mu.Unlock()
		if work.Seq > seen {
			_ = json.NewEncoder(w).Encode(work)
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			_ = json.NewEncoder(w).Encode(wire.Work{Seq: seen, Command: wire.None})
			return
		case <-r.Context().Done():
			return
		}
	}
}

func (b *Broker) serveLogs(w http.ResponseWriter, r *http.Request, n Node) {
	offset, err := strconv.Atoi(r.FormValue("offset"))
	piece, readErr := io.ReadAll(io.LimitReader(r.Body, wire.MaxLogChunk+1))
	if err != nil || readErr != nil || len(piece) > wire.MaxLogChunk {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	k, code := logKey(n, r.FormValue("attempt")), http.StatusNoContent
	b.update(func() {
		if have := len(b.logs[k]); offset != have {
			w.Header().Set(wire.HeaderOffset, strconv.Itoa(have))
			code = http.StatusConflict
			return
		}
		b.logs[k] = append(b.logs[k], piece...)
	})
	w.WriteHeader(code)
}
