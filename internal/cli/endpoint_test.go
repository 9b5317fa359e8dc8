package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/base/freeport"
	"github.com/tradewind-broker/tradewind/internal/cli/command"
	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// elsewhere is a remote broker behind a gateway that records how requests are authorised.
func elsewhere(t *testing.T, p *program) (endpoint string, seen func() []string) {
	t.Helper()
	to, err := url.Parse(p.hosts.serve().URL)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all []string
	proxy := httputil.NewSingleHostReverseProxy(to)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		all = append(all, r.Header.Get("Authorization"))
		mu.Unlock()
		if strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-") { // verified by an IAM authoriser
			r.Header.Set("Authorization", "Bearer "+testToken)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return all
	}
}

func TestRemoteBroker(t *testing.T) {
	p := newProgram(t)
	p.hosts.broker.jobs = append(p.hosts.broker.jobs, detail("train-infer-4k7q2a", apitypes.JobRunning, 1))
	endpoint, seen := elsewhere(t, p)
	p.environ = []string{client.EnvToken + "=" + testToken}
	for _, line := range []string{"status", "status train", "explain train", "queue list", "dlq list", "cancel train"} {
		if r := p.run(append(strings.Fields(line), "--endpoint", endpoint)...); r.code != command.ExitDone {
			t.Errorf("%s: exit %d\n%s", line, r.code, r.err)
		}
	}
	for _, a := range seen() {
		if a != "Bearer "+testToken {
			t.Errorf("authorised by %q", a)
		}
	}
	p.in = "apiVersion: tradewind/v1\nname: far\ntasks:\n  a: {run: \"true\", resources: {cpus: 1+}, time: 1m}\n"
	r := p.run("submit", "-", "--endpoint", endpoint)
	if r.code != command.ExitDone || !strings.Contains(r.err, "-w "+strings.TrimSpace(r.out)+" --endpoint "+endpoint) {
		t.Errorf("submit: exit %d, %q\n%s", r.code, r.out, r.err)
	}
	p.environ = append(p.environ, command.EnvEndpoint+"="+endpoint)
	if r = p.run("submit", "-"); r.code != command.ExitDone || strings.Contains(r.err, "--endpoint") {
		t.Errorf("submit: exit %d, %q\n%s", r.code, r.out, r.err)
	}
	if r = p.run("status", "--state", p.state, "--endpoint", endpoint); r.code != command.ExitBadInput || !strings.Contains(r.err, "leave out one") {
		t.Errorf("both: exit %d\n%s", r.code, r.err)
	}
	n := len(seen())
	if p.run("status", "--state", p.state); len(seen()) != n {
		t.Error("--state does not outweigh the environment")
	}
	if r = p.run("status", "--help"); strings.Contains(r.out, endpoint) {
		t.Errorf("the help shows the environment\n%s", r.out)
	}
}

func TestRequestsToAWSAreSigned(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", "/nowhere")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
	p := newProgram(t)
	endpoint, seen := elsewhere(t, p)
	p.environ = []string{command.EnvEndpoint + "=" + endpoint, client.EnvSign + "=eu-west-1", client.EnvToken + "=not-sent"}
	if r := p.run("queue", "list"); r.code != command.ExitDone {
		t.Fatalf("exit %d\n%s", r.code, r.err)
	}
	for _, a := range seen() {
		if !strings.HasPrefix(a, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") || !strings.Contains(a, "/eu-west-1/execute-api/aws4_request") {
			t.Errorf("signed %q", a)
		}
	}
	if len(seen()) == 0 {
		t.Error("nothing was asked")
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	if r := p.run("queue", "list"); r.code != command.ExitFailed || !strings.Contains(r.err, "no AWS credentials") {
		t.Errorf("exit %d\n%s", r.code, r.err)
	}
}

// TestTESServesWorkflowEngines: tes sends a signed request to the broker before it reports success, and ends on interrupt.
func TestTESServesWorkflowEngines(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_CONFIG_FILE", "/nowhere")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
	p := newProgram(t)
	endpoint, seen := elsewhere(t, p)
	token := "0123456789abcdef"
	p.environ = []string{command.EnvEndpoint + "=" + endpoint, client.EnvSign + "=eu-west-1",
		loopback.EnvTESToken + "=" + token}
	free, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free)
	done := p.started("tes", "--port", port)
	var res *http.Response
	for res == nil { // until it listens
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+
			"/ga4gh/tes/v1/service-info", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth("tes", token)
		res, _ = http.DefaultClient.Do(r)
		runtime.Gosched()
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Errorf("answered with %s", res.Status)
	}
	p.signals <- syscall.SIGINT
	r := <-done
	if r.code != command.ExitDone ||
		!strings.Contains(r.out, "TES of "+endpoint+"\n  url    http://127.0.0.1:"+port+"/ga4gh/tes\n  token  "+token) {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	if !strings.HasPrefix(seen()[0], "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") {
		t.Errorf("authorised by %q", seen())
	}
	p.environ = append(p.environ, loopback.EnvTESToken+"=short")
	if r := p.run("tes"); r.code != command.ExitBadInput || !strings.Contains(r.err, "fewer than 16 characters") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	p.environ = []string{command.EnvEndpoint + "=" + endpoint, client.EnvToken + "=wrong"}
	if r := p.run("tes"); r.code != command.ExitFailed || !strings.Contains(r.err, "refuses these credentials: 401") ||
		!strings.Contains(r.err, "$TRADEWIND_TOKEN must contain its token") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	n := len(seen())
	for _, name := range []string{"tes", "dashboard"} { // refused before any request
		r := p.run(name, "--port", "70000")
		if r.code != command.ExitBadInput || !strings.Contains(r.err, "70000 is not a port") || len(seen()) != n {
			t.Errorf("%s: exit %d: %s", name, r.code, r.err)
		}
	}
}

// Ctrl-C ends every command that waits for a remote broker that accepts the connection but does not answer.
func TestInterruptStopsWaitingForRemoteBroker(t *testing.T) {
	asked := make(chan struct{}, 100)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not detect that the client has gone
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-t.Context().Done():
		}
	}))
	t.Cleanup(s.Close)
	for _, line := range []string{
		"submit testdata/jobs/two.yaml", "run --detach testdata/jobs/two.yaml", "exec last train -- true",
		"shell last train", "forward last train 8888", "ssh-config last train", "run testdata/jobs/two.yaml",
	} {
		p := newProgram(t)
		p.environ = []string{client.EnvToken + "=" + testToken, command.EnvEndpoint + "=" + s.URL}
		if strings.HasPrefix(line, "run testdata") { // uses the broker of this computer
			p.environ = nil
			p.hosts.running = &host.Running{URL: s.URL, PID: 4242, Started: begin, TimeScale: 1, Token: testToken}
		}
		done := p.started(strings.Fields(line)...)
		<-asked
		p.signals <- syscall.SIGINT
		select {
		case r := <-done:
			if r.code != command.ExitInterrupted {
				t.Errorf("%s: exit %d, %s", line, r.code, r.err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s does not hear it", line)
		}
	}
}
