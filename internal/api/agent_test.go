package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
)

// toJSON returns the body of a request.
func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// empty checks that a response has no body.
func empty(t *testing.T, res *http.Response) {
	t.Helper()
	if b := body(t, res); res.StatusCode != http.StatusNoContent || b != "" {
		t.Fatalf("%s: %d %s", res.Request.URL.Path, res.StatusCode, b)
	}
}

func TestNodeLifecycle(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("small", 1))
	node := w.Node(job, "split", 0)
	as := bearer(node.Token)
	var work wire.Work
	for i, call := range []func() *http.Response{
		func() *http.Response { // hello is idempotent; the second response has the work, too
			return w.Do("POST", wire.PathHello, toJSON(t, wire.Hello{Address: "10.0.0.1", Version: "1"}), as)
		},
		func() *http.Response {
			return w.Do("POST", wire.PathHello, toJSON(t, wire.Hello{Address: "10.0.0.1", Version: "1"}), as)
		},
		func() *http.Response { return w.Do("GET", wire.PathWork+"?seen=0&wait=1s", "", as) },
	} {
		got := answer[wire.Work](t, call(), http.StatusOK)
		if i > 0 && !reflect.DeepEqual(got, work) {
			t.Errorf("call %d: work = %+v, first %+v", i, got, work)
		}
		work = got
	}
	w.Drain()
	if work.Command != wire.Run || work.Assignment == nil || work.Assignment.Task != "split" || work.Assignment.Nodes[0] != "10.0.0.1" {
		t.Fatalf("work = %+v", work)
	}
	if again := answer[wire.Work](t, w.Do("GET", wire.PathWork+"?wait=0s&seen="+strconv.Itoa(work.Seq), "", as), http.StatusOK); again.Command != wire.None {
		t.Errorf("after run comes %+v", again)
	}
	attempt := work.Assignment.Attempt
	for range 2 { // a report is idempotent, too
		empty(t, w.Do("POST", wire.PathReport, toJSON(t, wire.Report{ID: "1", Attempt: attempt, Event: wire.Started}), as))
	}
	w.Drain()
	if s := w.Task(job, "split").State; s != "running" {
		t.Errorf("the task is %s", s)
	}
	empty(t, w.Do("POST", wire.PathLogs+"?offset=0&attempt="+attempt, "hello\n", as))
	empty(t, w.Do("POST", wire.PathReport, toJSON(t, wire.Report{ID: "2", Attempt: attempt, Event: wire.Succeeded}), as))
	w.Drain()
	for _, p := range agentPaths()[:3] {
		sent := map[string]any{wire.PathHello: wire.Hello{Address: "x"}, wire.PathReport: wire.Report{ID: "3", Attempt: attempt, Event: wire.Alive}}[p[1]]
		trouble(t, w.Do(p[0], p[1], toJSON(t, sent), as), http.StatusGone)
	}
	if got := body(t, w.Request("GET", "/v1/jobs/"+job+"/tasks/split/logs", "")); got != "hello\n" {
		t.Errorf("log = %q", got)
	}
}

func TestNodeRejectedForOtherAttempts(t *testing.T) {
	w := apitest.New(t)
	job, other := w.Submit(apitest.Wide("one", 1)), w.Submit(apitest.Wide("two", 1))
	as := bearer(w.Node(job, "split", 0).Start().Token)
	foreign := record.ClusterID(other, 0, 1)
	trouble(t, w.Do("POST", wire.PathReport, toJSON(t, wire.Report{ID: "1", Attempt: foreign, Event: wire.Succeeded}), as), http.StatusForbidden)
	trouble(t, w.Do("POST", wire.PathLogs+"?attempt="+foreign, "x", as), http.StatusForbidden)
	trouble(t, w.Do("POST", wire.PathLogs+"?attempt="+record.ClusterID(job, 1, 1), "x", as), http.StatusForbidden)
	trouble(t, w.Do("POST", wire.PathReport, toJSON(t, wire.Report{ID: "1", Attempt: record.ClusterID(job, 0, 9), Event: wire.Succeeded}), as), http.StatusGone)
	high := w.Mint(wire.Claims{Job: job, Cluster: record.ClusterID(job, 0, 1), Rank: 7, Expires: apitest.Start().AddDate(1, 0, 0)})
	trouble(t, w.Do("GET", wire.PathWork, "", bearer(high)), http.StatusGone)
}

func TestRejectsBadAgentRequests(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 1))
	as := bearer(w.Node(job, "split", 0).Start().Token)
	for _, c := range [][3]string{
		{"GET", wire.PathWork + "?wait=long", ""}, {"GET", wire.PathWork + "?wait=-1s", ""}, {"GET", wire.PathWork + "?seen=x", ""},
		{"POST", wire.PathReport, `{"id":"","attempt":"","event":"alive"}`}, {"POST", wire.PathReport, `{}`},
		{"POST", wire.PathLogs, "x"}, {"POST", wire.PathLogs + "?attempt=a&offset=-1", "x"},
	} {
		trouble(t, w.Do(c[0], c[1], c[2], as), http.StatusUnprocessableEntity)
	}
	attempt := record.ClusterID(job, 0, 1)
	trouble(t, w.Do("POST", wire.PathLogs+"?attempt="+attempt, strings.Repeat("x", wire.MaxLogChunk+1), as), http.StatusRequestEntityTooLarge)
	empty(t, w.Do("POST", wire.PathLogs+"?attempt="+attempt, strings.Repeat("x", wire.MaxLogChunk), as))
	// A newer agent may send fields that the API does not know.
	empty(t, w.Do("POST", wire.PathReport, fmt.Sprintf(`{"id":"9","attempt":%q,"event":"alive","more":{"a":1}}`, attempt), as))
}

func TestLogAppendContinuesAtEnd(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 1))
	as := bearer(w.Node(job, "split", 0).Start().Token)
	send := func(offset int, text string) *http.Response {
		return w.Do("POST", fmt.Sprintf("%s?attempt=%s&offset=%d", wire.PathLogs, record.ClusterID(job, 0, 1), offset), text, as)
	}
	empty(t, send(0, "abc"))
	for _, offset := range []int{0, 1, 4, 100} { // a piece that was sent before, or with a gap
		res := send(offset, "abc")
		trouble(t, res, http.StatusConflict)
		if got := res.Header.Get(wire.HeaderOffset); got != "3" {
			t.Errorf("offset %d: %s = %q", offset, wire.HeaderOffset, got)
		}
	}
	empty(t, send(3, "def"))
	if got := body(t, w.Request("GET", "/v1/jobs/"+job+"/tasks/0/logs", "")); got != "abcdef" {
		t.Errorf("log = %q", got)
	}
}

// signalling is a broker that sends a signal when an agent asks for work.
type signalling struct {
	api.Agents
	asked chan struct{}
}

func (s signalling) Work(ctx context.Context, c wire.Claims, seen int) (wire.Work, error) {
	w, err := s.Agents.Work(ctx, c, seen)
	select {
	case s.asked <- struct{}{}:
	default:
	}
	return w, err
}

func TestWaitingNodeGetsRunCommand(t *testing.T) {
	asked := make(chan struct{}, 1)
	w := apitest.New(t, func(c *api.Config) { c.Broker.Agents = signalling{c.Broker.Agents, asked} })
	job := w.Submit(apitest.Wide("one", 1))
	node := w.Node(job, "split", 0)
	told := make(chan wire.Work, 1)
	go func() {
		told <- answer[wire.Work](t, w.Do("GET", wire.PathWork+"?seen=0&wait=60s", "", bearer(node.Token)), http.StatusOK)
	}()
	<-asked
	answer[wire.Work](t, w.Do("POST", wire.PathHello, toJSON(t, wire.Hello{Address: "10.0.0.1"}), bearer(node.Token)), http.StatusOK)
	if work := <-told; work.Command != wire.Run {
		t.Errorf("work = %+v", work)
	}
}

// TestUnheldPollsReturnPause: an API that runs as a function must answer a poll at once, with a pause, because
// functions pay for the time that they wait.
func TestUnheldPollsReturnPause(t *testing.T) {
	w := apitest.New(t, func(c *api.Config) { c.Unheld = 2 * time.Minute })
	spec := apitest.Wide("small", 1)
	spec.Tasks[0].Nodes = 2
	job := w.Submit(spec)
	as, other := bearer(w.Node(job, "split", 0).Token), bearer(w.Node(job, "split", 1).Token)
	res := w.Do("POST", wire.PathHello, toJSON(t, wire.Hello{Address: "10.0.0.1"}), as)
	empty(t, res)
	if after := res.Header.Get("Retry-After"); after != "2" {
		t.Errorf("a new node should ask again after %q seconds", after)
	}
	ask := func(seen int) wire.Work {
		return answer[wire.Work](t, w.Do("GET", wire.PathWork+"?wait=20s&seen="+strconv.Itoa(seen), "", as), http.StatusOK)
	}
	if work := ask(0); work.Command != wire.None || work.Pause != 2*time.Second {
		t.Errorf("before its work comes %+v", work)
	}
	last := answer[wire.Work](t, w.Do("POST", wire.PathHello, toJSON(t, wire.Hello{Address: "10.0.0.2"}), other), http.StatusOK)
	work := ask(0)
	if work.Command != wire.Run || len(work.Assignment.Nodes) != 2 || len(work.Assignment.Exchange) != 32 || !reflect.DeepEqual(work, last) || work.Pause != 2*time.Minute {
		t.Fatalf("its work is %+v, the last one's %+v", work, last)
	}
	if again := ask(work.Seq); again.Command != wire.None || again.Pause != 2*time.Minute {
		t.Errorf("after its work comes %+v", again)
	}
}

func TestReportCarriesEndOfLog(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("one", 1))
	as := bearer(w.Node(job, "split", 0).Start().Token)
	attempt := record.ClusterID(job, 0, 1)
	send := func(from int, text string, event wire.Event) *http.Response {
		return w.Do("POST", wire.PathReport, toJSON(t, wire.Report{ID: "end", Attempt: attempt, Event: event, Log: []byte(text), LogFrom: int64(from)}), as)
	}
	log := func() string { return body(t, w.Request("GET", "/v1/jobs/"+job+"/tasks/split/logs", "")) }
	empty(t, w.Do("POST", wire.PathLogs+"?offset=0&attempt="+attempt, "abc", as))
	res := send(4, "e", wire.Succeeded)
	trouble(t, res, http.StatusConflict)
	if got := res.Header.Get(wire.HeaderOffset); got != "3" {
		t.Errorf("%s = %q", wire.HeaderOffset, got)
	}
	if w.Drain(); w.Task(job, "split").State != "running" {
		t.Error("a report was accepted without its log")
	}
	trouble(t, send(3, strings.Repeat("x", wire.MaxReportLog+1), wire.Succeeded), http.StatusUnprocessableEntity)
	trouble(t, send(-1, "x", wire.Succeeded), http.StatusUnprocessableEntity)
	empty(t, send(2, "cde", wire.Alive)) // the log already has the first byte
	for range 2 {
		empty(t, send(3, "def", wire.Succeeded))
	}
	if w.Drain(); w.Task(job, "split").State != "succeeded" || log() != "abcdef" {
		t.Errorf("%s, log %q", w.Task(job, "split").State, log())
	}
	trouble(t, send(3, "def", wire.Succeeded), http.StatusGone) // repeated after the machine has ended
	if log() != "abcdef" {
		t.Errorf("log %q", log())
	}
}
