package notices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/bootstrap/imdstest"
	"github.com/tradewind-broker/tradewind/internal/base/clock"
)

var now = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// impatient is a clock on which every wait ends at once. Each wait moves its time forward by the length of the wait.
type impatient struct {
	clock.Clock
	mu     sync.Mutex
	pauses []time.Duration
}

func newImpatient() *impatient { return &impatient{Clock: clock.NewManual(now)} }

func (c *impatient) After(ctx context.Context, until time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pauses = append(c.pauses, until.Sub(now))
	return ctx.Err()
}

// metadata is a metadata service.
type metadata struct {
	t      *testing.T
	mu     sync.Mutex
	calls  []string
	answer func(n int, r *http.Request) (int, string, http.Header)
}

func (m *metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.calls = append(m.calls, r.Method+" "+r.URL.RequestURI())
	n := len(m.calls)
	m.mu.Unlock()
	status, body, header := m.answer(n, r)
	for name, v := range header {
		w.Header()[name] = v
	}
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// first watches until there are count notices, and returns them and the clock.
func first(t *testing.T, cloud string, count int, m *metadata) ([]Notice, *impatient) {
	t.Helper()
	m.t = t
	s := httptest.NewServer(m)
	defer s.Close()
	c := newImpatient()
	w, err := New(cloud, Config{URL: s.URL, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var got []Notice
	w.Watch(ctx, func(n Notice) {
		if got = append(got, n); len(got) == count {
			cancel()
		}
	})
	if len(got) != count {
		t.Fatalf("%v after %q", got, m.calls)
	}
	return got, c
}

func TestAWSInterruptionAndRebalance(t *testing.T) {
	const good = "token-2"
	tokens := 0
	m := &metadata{}
	m.answer = func(n int, r *http.Request) (int, string, http.Header) {
		token := r.Header.Get("X-Aws-Ec2-Metadata-Token")
		switch {
		case r.URL.Path == awsToken && r.Method == http.MethodPut && r.Header.Get("X-Aws-Ec2-Metadata-Token-Ttl-Seconds") == "21600":
			tokens++
			return 200, fmt.Sprint("token-", tokens), nil
		case token != good: // the first token has expired
			return 401, "", nil
		case r.URL.Path == awsScheduled:
			return 404, "", nil
		case n > 12 && r.URL.Path == awsAction:
			return 200, `{"action": "terminate", "time": "2026-11-21T09:02:00Z"}`, nil
		case n > 6 && r.URL.Path == awsRebalance:
			return 200, `{"noticeTime": "2026-11-21T08:59:00Z"}`, nil
		case n == 5:
			return 500, "", nil
		}
		return 404, "", nil
	}
	got, c := first(t, "aws", 2, m)
	want := []Notice{
		{Kind: Rebalance, ID: "rebalance@2026-11-21T08:59:00Z", At: now.Add(-time.Minute)},
		{Kind: Interruption, ID: "terminate@2026-11-21T09:02:00Z", At: now.Add(2 * time.Minute)},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	if !slices.Contains(c.pauses, 5*time.Second) || !slices.Contains(c.pauses, 10*time.Second) {
		t.Errorf("pauses %v: want 5 s, and longer after a failure", c.pauses)
	}
}

func TestGoogleWaitsForChange(t *testing.T) {
	m := &metadata{}
	var count atomic.Int32 // number of requests for the value
	m.answer = func(_ int, r *http.Request) (int, string, http.Header) {
		if strings.HasSuffix(r.URL.Path, "maintenance-event") {
			<-r.Context().Done()
			return 503, "", nil
		}
		n := int(count.Add(1))
		header := http.Header{"Metadata-Flavor": {"Google"}, "Etag": {fmt.Sprint("e", n)}}
		switch {
		case r.Header.Get("Metadata-Flavor") != "Google":
			return 403, "", nil
		case n == 1 && r.URL.RawQuery == "":
			return 200, "FALSE\n", header
		case n == 2 && r.URL.Query().Get("wait_for_change") == "true" && r.URL.Query().Get("last_etag") == "e1":
			return 503, "", nil
		case n == 3 && r.URL.RawQuery == "": // after a failure, the watcher reads the value again
			return 200, "FALSE", header
		case n == 4:
			return 200, "TRUE", nil // from another server
		case n == 5:
			return 200, "TRUE", header
		}
		m.t.Errorf("call %d: %s", n, r.URL)
		return 404, "", nil
	}
	got, _ := first(t, "gcp", 1, m)
	if want := (Notice{Kind: Interruption, ID: "preempted", At: now.Add(30 * time.Second)}); got[0] != want {
		t.Errorf("%+v", got)
	}
}

// The host of a machine that cannot be moved will be maintained, which must count as an interruption. A live
// migration must not. Google announces maintenance 60 seconds ahead, for GPUs up to an hour (Compute Engine
// documentation, "Query metadata server for maintenance event notices").
func TestGoogleHostMaintenanceIsInterruption(t *testing.T) {
	machine := &imdstest.GoogleMachine{ID: "1"}
	s := httptest.NewServer(machine)
	defer s.Close()
	w, err := New(Google, Config{URL: s.URL, Clock: newImpatient()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	machine.Maintain("MIGRATE_ON_HOST_MAINTENANCE")
	time.AfterFunc(50*time.Millisecond, func() { machine.Maintain("TERMINATE_ON_HOST_MAINTENANCE") })
	var got []Notice
	w.Watch(ctx, func(n Notice) {
		got = append(got, n)
		cancel()
	})
	want := Notice{Kind: Interruption, ID: "maintenance-event", At: now.Add(time.Minute)}
	if len(got) != 1 || got[0] != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

const scheduled = `{"DocumentIncarnation": 2, "Events": [
	{"EventId": "1", "EventType": "Freeze", "ResourceType": "VirtualMachine", "Resources": ["node-1"], "EventStatus": "Scheduled", "NotBefore": "Sat, 21 Nov 2026 09:15:00 GMT"},
	{"EventId": "2", "EventType": "Preempt", "ResourceType": "VirtualMachine", "Resources": ["node-2"], "EventStatus": "Scheduled", "NotBefore": "Sat, 21 Nov 2026 09:00:40 GMT"},
	{"EventId": "3", "EventType": "Preempt", "ResourceType": "VirtualMachine", "Resources": ["node-0", "NODE-1"], "EventStatus": "Scheduled", "NotBefore": "Sat, 21 Nov 2026 09:00:45 GMT", "Description": "", "EventSource": "Platform", "DurationInSeconds": -1},
	{"EventId": "4", "EventType": "Preempt", "Resources": ["node-1"], "EventStatus": "Started", "NotBefore": ""},
	{"EventId": "5", "EventType": "Preempt", "Resources": ["node-1"], "EventStatus": "Scheduled", "NotBefore": "soon"},
	{"EventId": "6", "EventType": "Preempt", "Resources": ["node-1"], "EventStatus": "Canceled", "NotBefore": ""}]}`

// AWS stops, retires and reboots machines for maintenance, also on-demand ones. Each such event must become a notice.
// Completed events stay in the list for a week, with another state, and must be ignored. Source: EC2 User Guide,
// "Scheduled events for your instances"; EC2 API, EventCode.
func TestAWSReportsScheduledEventsThatEndTheMachine(t *testing.T) {
	for _, c := range []struct {
		code, state string
		in          time.Duration
		reported    bool
	}{
		{"instance-stop", "active", 15 * time.Minute, true}, {"instance-retirement", "active", time.Minute, true},
		{"instance-reboot", "active", 10 * time.Minute, true}, {"system-reboot", "active", -time.Minute, true},
		{"system-maintenance", "active", time.Minute, false}, {"system-reboot", "completed", -time.Hour, false},
		{"system-reboot", "canceled", time.Minute, false}, {"instance-retirement", "active", 14 * 24 * time.Hour, false},
	} {
		body := fmt.Sprintf(`[{"NotBefore": %q, "Code": %q, "Description": "", "EventId": "instance-event-1", "State": %q}]`,
			now.Add(c.in).UTC().Format("2 Jan 2006 15:04:05")+" GMT", c.code, c.state)
		got, err := MaintenanceEvents([]byte(body), now)
		want := Notice{Kind: Interruption, ID: "instance-event-1", At: now.Add(c.in)}
		if err != nil || c.reported != (len(got) == 1) || c.reported && (got[0].ID != want.ID || !got[0].At.Equal(want.At) || got[0].Kind != want.Kind) {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
	for body, valid := range map[string]bool{"[]": true, "{}": false, `[{"NotBefore": "soon", "Code": "system-reboot", "State": "active"}]`: false} {
		if got, err := MaintenanceEvents([]byte(body), now); len(got) > 0 || (err == nil) != valid {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}

// The list of scheduled events is requested once a minute.
func TestAWSRequestsScheduledEvents(t *testing.T) {
	m := &metadata{}
	scheduled := 0
	m.answer = func(_ int, r *http.Request) (int, string, http.Header) {
		switch r.URL.Path {
		case awsToken:
			return 200, "token", nil
		case awsScheduled:
			if scheduled++; scheduled == 3 {
				return 200, `[{"NotBefore": "21 Nov 2026 09:10:00 GMT", "Code": "instance-stop", "EventId": "instance-event-1", "State": "active"}]`, nil
			}
			return 200, "[]", nil
		}
		return 404, "", nil
	}
	_, c := first(t, "aws", 1, m)
	if polls := len(c.pauses); polls != 25 { // one every five seconds, from 0 to 120
		t.Errorf("reported in poll %d", polls)
	}
}

// Reboot, Redeploy and Terminate end the work on a machine, so they must become notices, on demand and on spot.
// Freeze only pauses the machine for seconds. Azure announces a Reboot at least 15 minutes ahead, a Redeploy 10, a
// Terminate 5, and a predicted hardware failure up to a week ahead: the machine works until then. Source:
// learn.microsoft.com/azure/virtual-machines/linux/scheduled-events, "Event properties" and "Event scheduling".
func TestAzureReportsEventsThatEndTheMachine(t *testing.T) {
	for _, c := range []struct {
		kind, status string
		in, want     time.Duration // below 0: not reported
	}{
		{"Reboot", "Scheduled", 15 * time.Minute, 15 * time.Minute}, {"Redeploy", "Scheduled", 10 * time.Minute, 10 * time.Minute},
		{"Terminate", "Scheduled", 5 * time.Minute, 5 * time.Minute}, {"Preempt", "Scheduled", 30 * time.Second, 30 * time.Second},
		{"Reboot", "Started", -time.Second, 0}, {"Freeze", "Scheduled", 15 * time.Minute, -1}, {"Freeze", "Started", 0, -1},
		{"Redeploy", "Scheduled", 7 * 24 * time.Hour, -1}, {"Redeploy", "Canceled", time.Minute, -1}, {"New", "Scheduled", time.Minute, -1},
	} {
		body := fmt.Sprintf(`{"Events": [{"EventId": "7", "EventType": %q, "EventStatus": %q, "Resources": ["node-1"], "NotBefore": %q}]}`,
			c.kind, c.status, now.Add(c.in).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT"))
		got, err := ScheduledEvents([]byte(body), "node-1", now)
		reported := len(got) == 1 && got[0].Kind == Interruption && got[0].At.Equal(now.Add(c.want))
		if err != nil || c.want < 0 && len(got) > 0 || c.want >= 0 && !reported {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
	}
}

func TestAzureReportsOnlyOwnPreemption(t *testing.T) {
	m := &metadata{}
	m.answer = func(n int, r *http.Request) (int, string, http.Header) {
		switch {
		case r.Header.Get("Metadata") != "true":
			return 400, "", nil
		case strings.HasPrefix(r.URL.Path, "/metadata/instance/compute/name"):
			return 200, "node-1", nil
		case n == 2:
			return 200, `{"DocumentIncarnation": 1, "Events": []}`, nil
		}
		return 200, scheduled, nil
	}
	got, _ := first(t, "azure", 3, m)
	want := []Notice{
		{Kind: Interruption, ID: "3", At: now.Add(45 * time.Second)}, {Kind: Interruption, ID: "4", At: now},
		{Kind: Interruption, ID: "5", At: now.Add(30 * time.Second)},
	}
	if !slices.EqualFunc(got, want, func(a, b Notice) bool { return a.Kind == b.Kind && a.ID == b.ID && a.At.Equal(b.At) }) {
		t.Errorf("%+v", got)
	}
	for _, bad := range []string{"", "[]", `{"Events": 1}`, "<html>"} {
		if n, err := ScheduledEvents([]byte(bad), "node-1", now); err == nil {
			t.Errorf("%q is %v", bad, n)
		}
	}
}

func TestLeadsReturnsRemainingTime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	leads := Leads(ctx, told{
		{Kind: Rebalance, At: now}, {Kind: Interruption, At: now.Add(2 * time.Minute)}, {Kind: Interruption, At: now.Add(-time.Second)},
	}, func() time.Time { return now }, slog.New(slog.DiscardHandler))
	if d := <-leads; d != 2*time.Minute {
		t.Errorf("%v", d)
	}
	if d := <-leads; d != 0 {
		t.Errorf("%v", d)
	}
	cancel()
	if d, ok := <-leads; ok {
		t.Errorf("%v after the end", d)
	}
}

// told is a watcher with a fixed list of notices.
type told []Notice

func (w told) Watch(ctx context.Context, tell func(Notice)) {
	for _, n := range w {
		tell(n)
	}
	<-ctx.Done()
}

func TestFromEnvironmentSelectsWatcher(t *testing.T) {
	for _, c := range []struct {
		environ map[string]string
		kind    string
		base    string
	}{
		{map[string]string{}, "<nil>", ""},
		{map[string]string{EnvCloud: "aws"}, "*notices.aws", linkLocal},
		{map[string]string{EnvCloud: "imds", "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1/"}, "*notices.aws", "http://127.0.0.1:1"},
		{map[string]string{EnvCloud: "gcp", "GCE_METADATA_HOST": "127.0.0.1:2"}, "*notices.gcp", "http://127.0.0.1:2"},
		{map[string]string{EnvCloud: "azure", EnvURL: "http://127.0.0.1:3"}, "*notices.azure", "http://127.0.0.1:3"},
	} {
		w, err := FromEnvironment(func(name string) string { return c.environ[name] }, Config{})
		base := ""
		switch w := w.(type) {
		case *aws:
			base = w.base
		case *gcp:
			base = w.base
		case *azure:
			base = w.base
		}
		if err != nil || fmt.Sprintf("%T", w) != c.kind || base != c.base {
			t.Errorf("%v: %T at %q, %v", c.environ, w, base, err)
		}
	}
	for _, bad := range []map[string]string{{EnvCloud: "moon"}, {EnvCloud: "aws", EnvURL: "file:///etc/passwd"}, {EnvCloud: "gcp", EnvURL: "::"}} {
		if w, err := FromEnvironment(func(name string) string { return bad[name] }, Config{}); !errors.Is(err, ErrUnknown) {
			t.Errorf("%v: %T, %v", bad, w, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(scheduled))
	f.Add([]byte(`{"action": "terminate", "time": "2026-11-21T09:02:00Z"}`))
	f.Add([]byte(`{"noticeTime": "2026-11-21T08:59:00Z"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if n, err := decodeAction(body); err == nil && (n.Kind != Interruption || n.At.IsZero()) {
			t.Errorf("%+v", n)
		}
		if n, err := decodeRebalance(body); err == nil && (n.Kind != Rebalance || n.At.IsZero()) {
			t.Errorf("%+v", n)
		}
		found, err := ScheduledEvents(body, "node-1", now)
		for _, n := range found {
			if err != nil || n.Kind != Interruption || n.At.IsZero() {
				t.Errorf("%+v, %v", n, err)
			}
		}
	})
}
