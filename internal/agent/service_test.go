package agent_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent"
	"github.com/tradewind-broker/tradewind/internal/agent/agenttest"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
)

// server is a web server on $PORT. It answers with the status in the file named status, and logs the requests.
const server = `cat > serve.py <<'END'
import http.server, os, signal, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        print(self.command, self.path, self.headers.get("X-Probe", ""), body, flush=True)
        self.send_response(int(open("status").read()))
        self.end_headers()
    do_GET = do_POST = answer
    def log_message(self, *a): pass
def ended(*a):
    print("ended by SIGTERM", time.time(), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, ended)
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
END
echo 200 > status
echo "$TRADEWIND_SERVICE $TRADEWIND_REPLICA $SKYPILOT_SERVE_REPLICA_ID $PWD" > names; cat names
exec python3 serve.py
`

// replica returns an assignment of a service's replica that is probed often.
func replica(t *testing.T, attempt, run string) *wire.Assignment {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is missing")
	}
	a := task(t, attempt, run)
	a.Service = &wire.Service{
		Name: "web", Replica: 1, Port: 8080, Path: "/health?deep=1", Headers: map[string]string{"x-probe": "yes"},
		InitialDelay: time.Minute, Every: 20 * time.Millisecond, Timeout: 5 * time.Second, Patience: time.Hour,
	}
	return a
}

// statusFile is the file from which an attempt's server reads its status.
func statusFile(t *testing.T, b *agenttest.Broker, attempt string) string {
	t.Helper()
	b.AwaitLog(node, attempt, "web 1 2 ")
	_, rest, _ := strings.Cut(b.Log(node, attempt), "web 1 2 ")
	dir, _, _ := strings.Cut(rest, "\n")
	return filepath.Join(dir, "status")
}

func TestReplicaReportsReadiness(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	b.Run(node, replica(t, "a1", server))
	first := b.Report(node, "a1", wire.Ready)
	if first.Port < 1024 {
		t.Fatalf("it listens on port %d", first.Port)
	}
	b.AwaitLog(node, "a1", "GET /health?deep=1 yes")
	answer, err := http.Get("http://127.0.0.1:" + strconv.Itoa(first.Port) + "/") //nolint:noctx // of a test
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	status := statusFile(t, b, "a1")
	if err := os.WriteFile(status, []byte("503"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.Report(node, "a1", wire.Unready); !strings.Contains(r.Message, "503") {
		t.Errorf("it is unready because of %q", r.Message)
	}
	if err := os.WriteFile(status, []byte("200"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.ReportAfter(1, node, "a1", wire.Ready)
}

func TestReplicaProbeWithPost(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	a := replica(t, "a1", server)
	a.Service.Post = `{"ask": 1}`
	b.Run(node, a)
	b.Report(node, "a1", wire.Ready)
	b.AwaitLog(node, "a1", `POST /health?deep=1 yes {"ask": 1}`)
}

func TestReplicaProbeWithTCP(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	a := replica(t, "a1", server)
	a.Service.Path = ""
	b.Run(node, a)
	b.Report(node, "a1", wire.Ready)
	if log := b.Log(node, "a1"); strings.Contains(log, "GET") {
		t.Errorf("it was asked: %s", log)
	}
}

func TestReplicaWithoutPortIsReadyAtStart(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	a := replica(t, "a1", `echo "port ${PORT-none}"; sleep 1000`)
	a.Service.Port, a.Service.Path = 0, ""
	b.Run(node, a)
	if r := b.Report(node, "a1", wire.Ready); r.Port != 0 {
		t.Errorf("it listens on %d", r.Port)
	}
	b.AwaitLog(node, "a1", "port none")
}

func TestReplicaFailsIfNeverReady(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Grace: 10 * time.Millisecond})
	a := replica(t, "a1", "sleep 1000")
	a.Service.InitialDelay = 50 * time.Millisecond
	b.Run(node, a)
	if r := b.Result(node, "a1"); r.Event != wire.Failed || !strings.Contains(r.Message, "not ready within 50ms") {
		t.Errorf("%+v", r)
	}
}

func TestReplicaFailsIfUnreadyForLong(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{Grace: 10 * time.Millisecond})
	a := replica(t, "a1", server)
	a.Service.Patience = 300 * time.Millisecond
	b.Run(node, a)
	b.Report(node, "a1", wire.Ready)
	if err := os.WriteFile(statusFile(t, b, "a1"), []byte("500"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.Result(node, "a1"); r.Event != wire.Failed || !strings.Contains(r.Message, "not ready for 300ms") {
		t.Errorf("%+v", r)
	}
}

// A replica that has been replaced must end at once. A replica whose machine will be taken must serve for half of the
// notice.
func TestReplicaServesUntilLastMoment(t *testing.T) {
	for name, c := range map[string]struct {
		now           bool
		notice        time.Duration
		after, before time.Duration
	}{
		"replaced": {now: true, notice: time.Hour, before: 10 * time.Minute},
		"taken":    {notice: 8 * time.Second, after: 4 * time.Second, before: 8 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			b := agenttest.New(t)
			start(t, b, node, agent.Config{})
			b.Run(node, replica(t, "a1", server))
			b.Report(node, "a1", wire.Ready)
			began := time.Now()
			b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: c.notice, Now: c.now})
			if r := b.Result(node, "a1"); r.Event != wire.Stopped {
				t.Errorf("%+v", r)
			}
			if took := time.Since(began); took < c.after || took > c.before {
				t.Errorf("it ended after %v", took)
			}
			b.AwaitLog(node, "a1", "ended by SIGTERM")
		})
	}
}

// A replica continues to serve during a notice. When it has been replaced, it must end.
func TestServingReplicaIsReplaced(t *testing.T) {
	b := agenttest.New(t)
	start(t, b, node, agent.Config{})
	b.Run(node, replica(t, "a1", server))
	b.Report(node, "a1", wire.Ready)
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Hour})
	b.AwaitLog(node, "a1", "the machine will be taken in ")
	b.SendCommand(node, wire.Work{Command: wire.SaveAndStop, Notice: time.Hour, Now: true})
	if r := b.Result(node, "a1"); r.Event != wire.Stopped {
		t.Errorf("%+v", r)
	}
	b.AwaitLog(node, "a1", "ended by SIGTERM")
}
