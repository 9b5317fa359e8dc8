package main

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serving is a service whose replicas return their version, and end on request.
const serving = `apiVersion: tradewind/v1
name: web
tasks:
  web:
    env: {VERSION: "1"}
    run: |
      cat > serve.py <<'END'
      import http.server, os
      class Handler(http.server.BaseHTTPRequestHandler):
          def do_GET(self):
              if self.path == "/quit":
                  os._exit(3)
              self.send_response(200 if os.environ["VERSION"] != "bad" else 500)
              self.end_headers()
              self.wfile.write(os.environ["VERSION"].encode())
          def log_message(self, *a): pass
      http.server.ThreadingHTTPServer(("0.0.0.0", int(os.environ["PORT"])), Handler).serve_forever()
      END
      exec python3 serve.py
    service: {replicas: 2, port: 8080, readiness: {path: /health, initialDelay: 15s}}
    resources: {cpus: 2}
`

// served is the status of a job.
type served struct {
	State    string
	Services []struct{ Replicas, Ready, Current int }
	Update   struct{ Failed, Done string }
	TaskList []struct {
		Ready    bool
		Address  string
		Attempts int
	}
}

// awaitServed polls the status of the last job until it is as expected and each replica answers at its address.
func awaitServed(t *testing.T, s *shell, what string, ok func(served) bool) (is served) {
	t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if err := json.Unmarshal([]byte(s.must("tradewind status last -o json")), &is); err != nil {
			t.Fatal(err)
		}
		if ok(is) {
			return is
		}
		if time.Now().After(until) {
			t.Fatalf("%s: it is %+v\n%s", what, is, s.must("tradewind explain last"))
		}
	}
}

// ask returns a replica's answer; empty if it does not answer.
func ask(t *testing.T, address, path string) string {
	t.Helper()
	answer, err := http.Get("http://" + address + path) //nolint:noctx // of a test
	if err != nil {
		return ""
	}
	body, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	return string(body)
}

// forwarded returns what a task of the last job answers at a port of its machine, and the output of forward.
func forwarded(t *testing.T, s *shell, task, port string) (answer, said string) {
	t.Helper()
	forward := s.command("tradewind forward last " + task + " 0:" + port)
	var errs strings.Builder
	forward.Stderr = &errs
	out, err := forward.StdoutPipe()
	if err == nil {
		err = forward.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	await(t, lines, "http://")
	address, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "http://"), " ")
	answer = ask(t, address, "/")
	if err := forward.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = forward.Wait() // it was interrupted
	return answer, errs.String()
}

// A service starts, replaces a replica that ends, is updated without downtime, and stops an update that fails.
func TestServiceIsKeptRunning(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("there is no python3")
	}
	s := build(t).in(t)
	file := filepath.Join(t.TempDir(), "web.yaml")
	write := func(version string) {
		text := strings.Replace(serving, `"1"`, `"`+version+`"`, 1)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	if out := s.must("tradewind plan " + file); !strings.Contains(out, "USD an hour while they run") {
		t.Errorf("the plan says nothing of an hour:\n%s", out)
	}
	if _, errs, code := s.run("tradewind plan --deadline 2h " + file); code != 2 || !strings.Contains(errs, "deadline") {
		t.Errorf("with a deadline: %d %s", code, errs)
	}
	s.serves("tradewind up")
	s.must("tradewind submit " + file)
	ready := func(is served) bool { return len(is.Services) == 1 && is.Services[0].Ready == 2 }
	is := awaitServed(t, s, "it comes up", ready)
	for _, r := range is.TaskList {
		if got := ask(t, r.Address, "/"); got != "1" {
			t.Errorf("%s answers %q", r.Address, got)
		}
	}
	for to, want := range map[string]string{"8080": "1", "9": ""} {
		if got, errs := forwarded(t, s, "web.0", to); got != want ||
			(want == "") != strings.Contains(errs, "; the service listens on port ") {
			t.Errorf("forwarded to %s it answers %q, and says %q", to, got, errs)
		}
	}
	if text := s.must("tradewind status last"); !strings.Contains(text, "web: 2 of 2 ready") ||
		!strings.Contains(text, is.TaskList[0].Address) {
		t.Errorf("its status:\n%s", text)
	}

	ask(t, is.TaskList[1].Address, "/quit")
	awaitServed(t, s, "what has ended is replaced", func(is served) bool { return ready(is) && is.TaskList[1].Attempts == 2 })

	write("2")
	s.must("tradewind submit --update last " + file)
	is = awaitServed(t, s, "it is updated", func(is served) bool {
		if !ready(is) {
			t.Errorf("not all are ready while it is updated: %+v", is)
		}
		return is.Update.Done != ""
	})
	for _, r := range is.TaskList {
		if got := ask(t, r.Address, "/"); got != "2" {
			t.Errorf("after the update %s answers %q", r.Address, got)
		}
	}

	write("bad")
	s.must("tradewind submit --update last " + file)
	is = awaitServed(t, s, "the update is stopped", func(is served) bool {
		return is.Update.Failed != "" && is.Update.Done != "" && ready(is)
	})
	if !strings.Contains(is.Update.Failed, "not ready within") {
		t.Errorf("it was stopped as %q", is.Update.Failed)
	}
	for _, r := range is.TaskList {
		if got := ask(t, r.Address, "/"); got != "2" {
			t.Errorf("after an update that was stopped %s answers %q", r.Address, got)
		}
	}
	if text := s.must("tradewind explain last"); !strings.Contains(text, "the update was stopped") {
		t.Errorf("its story:\n%s", text)
	}
	other := strings.Replace(serving, "replicas: 2", "replicas: 3", 1)
	if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := s.run("tradewind submit --update last " + file); code != 2 || !strings.Contains(errs, "the number of replicas") {
		t.Errorf("with more replicas: %d %s", code, errs)
	}

	s.must("tradewind cancel last")
	awaitServed(t, s, "it ends", func(is served) bool { return is.State == "cancelled" })
}
