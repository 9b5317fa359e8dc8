package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/api/signin"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// body reads a response to its end.
func body(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// answer checks a response's status and reads its JSON.
func answer[T any](t *testing.T, res *http.Response, status int) T {
	t.Helper()
	var v T
	text := body(t, res)
	if res.StatusCode != status {
		t.Fatalf("%s %s: status %d, want %d: %s", res.Request.Method, res.Request.URL.Path, res.StatusCode, status, text)
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

// trouble checks a response's status and reads its problem document.
func trouble(t *testing.T, res *http.Response, status int) apitypes.Problem {
	t.Helper()
	if ct := res.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Fatalf("%s %s: %d with content type %q: %s", res.Request.Method, res.Request.URL.Path, res.StatusCode, ct, body(t, res))
	}
	p := answer[apitypes.Problem](t, res, status)
	if p.Status != status || p.Title == "" {
		t.Errorf("problem = %+v, want status %d and a title", p, status)
	}
	return p
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// userPaths returns one request, as method and path, for each path of the users' API.
func userPaths() [][2]string {
	return [][2]string{
		{"POST", "/v1/dags"}, {"POST", "/v1/packs/missing"}, {"POST", "/v1/plans"}, {"GET", "/v1/jobs"}, {"GET", "/v1/jobs/x"}, {"DELETE", "/v1/jobs/x"},
		{"POST", "/v1/jobs/x/suspend"}, {"POST", "/v1/jobs/x/resume"}, {"POST", "/v1/queues/q/suspend"}, {"POST", "/v1/queues/q/resume"},
		{"POST", "/v1/jobs/x/cancel"}, {"GET", "/v1/jobs/x/events"}, {"GET", "/v1/jobs/x/explain"},
		{"GET", "/v1/jobs/x/tasks/y/logs"}, {"GET", "/v1/queues"}, {"PUT", "/v1/queues/q"}, {"GET", "/v1/queues/q/waiting"},
		{"GET", "/v1/pools"}, {"PUT", "/v1/pools/p"}, {"DELETE", "/v1/pools/p"}, {"POST", "/v1/pools/p/token"}, {"POST", "/v1/pools/p/drain"},
		{"POST", "/v1/pools/p/machines/m/drain"}, {"DELETE", "/v1/pools/p/machines/m"}, {"GET", "/v1/blocks"}, {"GET", "/v1/deadletters"}, {"GET", "/ga4gh/tes/v1/tasks"}, {"POST", "/v1/deadletters/redrive"},
	}
}

func agentPaths() [][2]string {
	return [][2]string{{"POST", wire.PathHello}, {"GET", wire.PathWork}, {"POST", wire.PathReport}, {"POST", wire.PathLogs},
		{"POST", wire.PathGrants}, {"POST", wire.PathList}, {"POST", wire.PathUploads}, {"POST", wire.PathPrune},
		{"GET", wire.PathProgram + strings.Repeat("a", 64)},
	}
}

func TestUserPathsRequireUserToken(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Training())
	node := w.Node(job, "prepare-a", 0)
	for name, header := range map[string]http.Header{
		"none": {}, "wrong": bearer("not-the-token"), "an agent's": bearer(node.Token), "another scheme": {"Authorization": {"Basic " + apitest.Token}},
		"a prefix": bearer(apitest.Token[:10]), "a cookie that was made up": {"Cookie": {"tradewind=1"}},
	} {
		for _, p := range userPaths() {
			res := w.Do(p[0], p[1], "", header)
			trouble(t, res, http.StatusUnauthorized)
			if !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer") {
				t.Errorf("%s: %v does not say how to authenticate", name, p)
			}
		}
	}
	for _, p := range userPaths() {
		if res := w.Request(p[0], p[1], ""); res.StatusCode == http.StatusUnauthorized || res.StatusCode == http.StatusForbidden {
			t.Errorf("%v refuses the user token with %d", p, res.StatusCode)
		}
	}
}

func TestAgentPathsRequireAgentToken(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Training())
	cluster := record.ClusterID(job, 0, 1)
	expired := w.Mint(wire.Claims{Job: job, Cluster: cluster, Expires: w.Clock.Now().Add(-time.Hour)})
	for name, header := range map[string]http.Header{
		"none": {}, "the user's": bearer(apitest.Token), "expired": bearer(expired), "garbage": bearer("x.y.z"),
	} {
		for _, p := range agentPaths() {
			if res := w.Do(p[0], p[1], "", header); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s token on %v: %d", name, p, res.StatusCode)
			}
		}
	}
	mixed := w.Mint(wire.Claims{Job: "another-job", Cluster: cluster, Expires: w.Clock.Now().Add(time.Hour)})
	for _, p := range agentPaths() {
		trouble(t, w.Do(p[0], p[1], "", bearer(mixed)), http.StatusForbidden)
	}
}

// session signs a browser in with a code, and returns the headers of its requests.
func session(t *testing.T, w *apitest.World, code string) http.Header {
	t.Helper()
	page := http.Header{"Sec-Fetch-Site": {"same-origin"}}
	s := answer[signin.Session](t, w.Do("POST", signin.Path, `{"code":"`+code+`"}`, page), http.StatusOK)
	if left := time.Until(s.Expires); left <= 0 || left > signin.SessionFor || strings.Contains(s.Session, apitest.Token) {
		t.Errorf("session %+v", s)
	}
	page.Set("Authorization", "Bearer "+s.Session)
	return page
}

func TestDashboardGetsSessionForCode(t *testing.T) {
	w := apitest.New(t)
	res := w.Do("GET", "/?token="+apitest.Token, "", http.Header{})
	code, found := strings.CutPrefix(res.Header.Get("Location"), "/#code=")
	if res.StatusCode != http.StatusSeeOther || !found || len(res.Cookies()) > 0 {
		t.Fatalf("signing in: %d to %q, %d cookies", res.StatusCode, res.Header.Get("Location"), len(res.Cookies()))
	}
	page := session(t, w, code)
	answer[apitypes.JobList](t, w.Do("GET", "/v1/jobs", "", page), http.StatusOK)
	if res := w.Do("POST", "/v1/jobs/none/cancel", "", page); res.StatusCode != http.StatusNotFound {
		t.Errorf("cancelling with a session: %d", res.StatusCode)
	}
	for _, site := range []string{"cross-site", "same-site", "none", ""} { // "same-site" is another port of this host
		other := page.Clone()
		if other.Set("Sec-Fetch-Site", site); site == "" {
			other.Del("Sec-Fetch-Site")
		}
		trouble(t, w.Do("GET", "/v1/jobs", "", other), http.StatusUnauthorized)
	}
	elsewhere := page.Clone()
	elsewhere.Set("Host", "localhost:8080") // another origin
	trouble(t, w.Do("GET", "/v1/jobs", "", elsewhere), http.StatusUnauthorized)
	trouble(t, w.Do("GET", "/v1/jobs", "", http.Header{"Cookie": {"session=" + page.Get("Authorization")}}), http.StatusUnauthorized)
}

func TestCodeWorksOnce(t *testing.T) {
	w := apitest.New(t)
	user := signin.New(apitest.Token)
	code := user.Code()
	session(t, w, code)
	page := http.Header{"Sec-Fetch-Site": {"same-origin"}}
	for name, body := range map[string]string{
		"used": `{"code":"` + code + `"}`, "of another token": `{"code":"` + signin.New("another-token-of-a-user").Code() + `"}`,
		"changed": `{"code":"` + code[:len(code)-2] + `AA"}`, "empty": `{"code":""}`, "none": `{}`, "malformed": `{`,
		"huge": `{"code":"` + strings.Repeat("A", 1<<12) + `"}`, "the token": `{"code":"` + apitest.Token + `"}`,
	} {
		if res := w.Do("POST", signin.Path, body, page); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("a code that is %s: %d", name, res.StatusCode)
		}
	}
	page.Set("Sec-Fetch-Site", "cross-site")
	if res := w.Do("POST", signin.Path, `{"code":"`+user.Code()+`"}`, page); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a code from another site: %d", res.StatusCode)
	}
}

func TestNewTokenEndsOldOneAndSessions(t *testing.T) {
	w := apitest.New(t)
	page := session(t, w, signin.New(apitest.Token).Code())
	const replaced = "the-new-token-of-this-broker"
	if err := w.API.SetToken("short"); err == nil {
		t.Error("a short token is accepted")
	}
	if err := w.API.SetToken(replaced); err != nil {
		t.Fatal(err)
	}
	trouble(t, w.Do("GET", "/v1/jobs", "", page), http.StatusUnauthorized)
	trouble(t, w.Do("GET", "/v1/jobs", "", bearer(apitest.Token)), http.StatusUnauthorized)
	answer[apitypes.JobList](t, w.Do("GET", "/v1/jobs", "", bearer(replaced)), http.StatusOK)
}

func TestWrongTokenInURLSignsNobodyIn(t *testing.T) {
	w := apitest.New(t)
	res := w.Do("GET", "/?token=guess", "", http.Header{})
	if res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "/" || len(res.Cookies()) != 0 {
		t.Errorf("%d to %q with %d cookies", res.StatusCode, res.Header.Get("Location"), len(res.Cookies()))
	}
}

func TestRejectsUnknownHostNames(t *testing.T) {
	w := apitest.New(t, func(c *api.Config) { c.Hosts = []string{"Broker.Example"} })
	for host, want := range map[string]int{
		"localhost:8080": 200, "127.0.0.1": 200, "[::1]:9": 200, "[::1]": 200, "broker.example:443": 200, "LOCALHOST": 200,
		"evil.example": 421, "localhost.evil.example": 421, "127.0.0.1.nip.io:80": 421, "192.168.1.2": 421,
	} {
		h := bearer(apitest.Token)
		h.Set("Host", host)
		if res := w.Do("GET", "/v1/jobs", "", h); res.StatusCode != want {
			t.Errorf("host %s: %d, want %d", host, res.StatusCode, want)
		}
	}
}

func TestResponsesHaveSecurityHeadersAndNoCORS(t *testing.T) {
	w := apitest.New(t)
	h := bearer(apitest.Token)
	h.Set("Origin", "https://evil.example")
	for _, p := range [][2]string{{"GET", "/v1/jobs"}, {"GET", "/nowhere"}, {"OPTIONS", "/v1/jobs"}, {"GET", "/healthz"}} {
		res := w.Do(p[0], p[1], "", h)
		for k, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"} {
			if got := res.Header.Get(k); got != want {
				t.Errorf("%v: %s: %q", p, k, got)
			}
		}
		if !strings.Contains(res.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%v has no policy", p)
		}
		for k := range res.Header {
			if strings.HasPrefix(k, "Access-Control-") {
				t.Errorf("%v: %s", p, k)
			}
		}
	}
}

func TestUnknownPathIsProblem(t *testing.T) {
	w := apitest.New(t)
	for _, path := range []string{"/nowhere", "/v1/nowhere", "/v1/jobs/x/nowhere", "/docs", "/assets/app.js", "/"} {
		trouble(t, w.Request("GET", path, ""), http.StatusNotFound)
	}
	res := w.Request("PATCH", "/v1/jobs", "")
	p := trouble(t, res, http.StatusMethodNotAllowed)
	if !strings.Contains(res.Header.Get("Allow"), "GET") || !strings.Contains(p.Detail, "GET") {
		t.Errorf("Allow: %q, detail %q", res.Header.Get("Allow"), p.Detail)
	}
	p = trouble(t, w.Request("GET", "/v1/jobs?limt=5", ""), http.StatusUnprocessableEntity)
	if len(p.Errors) != 1 || p.Errors[0].Location != "query.limt" {
		t.Errorf("a query that was mistyped: %+v", p)
	}
}

func TestHealthAndDocumentNeedNoToken(t *testing.T) {
	w := apitest.New(t)
	h := answer[map[string]string](t, w.Do("GET", "/healthz", "", http.Header{}), http.StatusOK)
	if h["status"] != "ok" || h["version"] != "test" {
		t.Errorf("health = %v", h)
	}
	doc := answer[map[string]any](t, w.Do("GET", "/openapi.json", "", http.Header{}), http.StatusOK)
	if doc["openapi"] != "3.1.0" {
		t.Errorf("openapi = %v", doc["openapi"])
	}
	if y := body(t, w.Do("GET", "/openapi.yaml", "", http.Header{})); !strings.Contains(y, "openapi: 3.1.0") {
		t.Errorf("yaml begins %.100s", y)
	}
}

func TestDocumentIsCurrentAndComplete(t *testing.T) {
	w := apitest.New(t)
	have, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	want, err := w.API.Document()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Error("openapi.json is stale: run go generate ./internal/api")
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Security  []map[string][]string `json:"security"`
			Summary   string                `json:"summary"`
			Responses map[string]any        `json:"responses"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(have, &doc); err != nil {
		t.Fatal(err)
	}
	machines := [][2]string{{"POST", wire.PathPoolJoin("p", "m")}, {"POST", wire.PathPoolSync("p", "m")}}
	for _, want := range slices.Concat(userPaths(), agentPaths(), machines) {
		want[1] = strings.Replace(want[1], strings.Repeat("a", 64), "{sha256}", 1)
		path := strings.NewReplacer("/pools/p", "/pools/{pool}", "/machines/m", "/machines/{machine}", "/x", "/{id}", "/y/", "/{task}/", "/q", "/{name}", "/queues", "/queues").Replace(want[1])
		path = strings.Replace(path, "/{name}ueues", "/queues", 1)
		op, ok := doc.Paths[path][strings.ToLower(want[0])]
		if !ok {
			t.Errorf("%s %s is not in the document", want[0], path)
			continue
		}
		if len(op.Security) != 1 || op.Summary == "" || op.Responses["default"] == nil {
			t.Errorf("%s %s: %+v", want[0], path, op)
		}
	}
}

func TestNewRejectsIncompleteConfig(t *testing.T) {
	good := func() api.Config {
		return api.Config{
			Broker: api.PortsOf(&broker.Broker{}), Logs: struct{ api.Logs }{}, Token: apitest.Token,
			Verify: func(string) (wire.Claims, error) { return wire.Claims{}, nil },
		}
	}
	for name, spoil := range map[string]func(*api.Config){
		"broker": func(c *api.Config) { c.Broker.Agents = nil }, "logs": func(c *api.Config) { c.Logs = nil },
		"verify": func(c *api.Config) { c.Verify = nil }, "token": func(c *api.Config) { c.Token = "short" },
	} {
		cfg := good()
		spoil(&cfg)
		if _, err := api.New(cfg); err == nil {
			t.Errorf("an API without %s was made", name)
		}
	}
	a, err := api.New(good())
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	a.Close()
}

// failing is a broker that fails or panics.
type failing struct {
	api.QueueViews
	err error
}

func (f failing) Queues(context.Context) ([]apitypes.Queue, error) {
	if f.err == nil {
		panic("a bug")
	}
	return nil, f.err
}

func TestUnexpectedErrorsAreOnlyLogged(t *testing.T) {
	var logged syncBuffer
	set := func(err error) apitest.Option {
		return func(c *api.Config) {
			c.Broker.QueueViews = failing{c.Broker.QueueViews, err}
			c.Log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
	}
	for name, err := range map[string]error{"an error": errors.New("/secret/path is broken"), "a panic": nil} {
		w := apitest.New(t, set(err))
		p := trouble(t, w.Request("GET", "/v1/queues", ""), http.StatusInternalServerError)
		if strings.Contains(p.Detail, "secret") || strings.Contains(p.Detail, "bug") {
			t.Errorf("%s: the client gets %q", name, p.Detail)
		}
	}
	if s := logged.String(); !strings.Contains(s, "/secret/path is broken") || !strings.Contains(s, "a bug") {
		t.Errorf("the log does not say what was wrong: %s", s)
	}
}

func TestTokensAndQueriesAreNotLogged(t *testing.T) {
	var logged syncBuffer
	w := apitest.New(t, func(c *api.Config) {
		c.Log = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	w.Do("GET", "/?token="+apitest.Token, "", http.Header{})
	w.Request("GET", "/v1/jobs?limit=5", "")
	job := w.Submit(apitest.Training())
	node := w.Node(job, "prepare-a", 0)
	w.Do("GET", wire.PathWork+"?seen=0", "", bearer(node.Token))
	w.Do("GET", wire.PathWork+"?seen=0", "", bearer(node.Token+"x"))
	w.Server.Close() // waits for the last line of the log
	s := logged.String()
	for _, secret := range []string{apitest.Token, node.Token, "limit=5", "seen="} {
		if strings.Contains(s, secret) {
			t.Errorf("the log has %q: %s", secret, s)
		}
	}
	if !strings.Contains(s, "path=/v1/jobs") || !strings.Contains(s, "status=200") {
		t.Errorf("the log lacks the request: %s", s)
	}
}

func TestServerHasLimits(t *testing.T) {
	w := apitest.New(t)
	s := w.API.Server()
	if s.ReadHeaderTimeout <= 0 || s.MaxHeaderBytes <= 0 || s.IdleTimeout <= 0 {
		t.Errorf("server %+v lacks a limit", s)
	}
	if s.WriteTimeout != 0 {
		t.Error("a write time-out would cut streams off")
	}
}

func TestAcceptsUnusualBrowserHeaders(t *testing.T) {
	w := apitest.New(t)
	for _, accept := range []string{"text/html", "a;x,", ";", "application/cbor", "*/*;q=0.1,,"} {
		h := bearer(apitest.Token)
		h.Set("Accept", accept)
		res := w.Do("GET", "/v1/jobs", "", h)
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("Accept %q: %d %s", accept, res.StatusCode, res.Header.Get("Content-Type"))
		}
	}
}

func TestConcurrentClients(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Training())
	node := w.Node(job, "prepare-a", 0).Start()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 10 {
				rec := httptest.NewRecorder()
				req := httptest.NewRequest("GET", []string{"/v1/jobs", "/v1/jobs/" + job, "/v1/queues", "/openapi.json"}[n%4], http.NoBody)
				req.Host, req.Header = "localhost", bearer(apitest.Token)
				w.API.ServeHTTP(rec, req)
				if rec.Code != http.StatusOK {
					t.Errorf("%s: %d", req.URL, rec.Code)
				}
				rec = httptest.NewRecorder()
				report := fmt.Sprintf(`{"id":"c%d-%d","attempt":%q,"event":"alive"}`, i, n, node.Attempt())
				req = httptest.NewRequest("POST", wire.PathReport, strings.NewReader(report))
				req.Host, req.Header = "localhost", bearer(node.Token)
				w.API.ServeHTTP(rec, req)
				if rec.Code != http.StatusNoContent {
					t.Errorf("report: %d %s", rec.Code, rec.Body)
				}
			}
		})
	}
	all.Wait()
}

// syncBuffer is a buffer for a log that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestUncheckableTokenAnswers503: the key for checking tokens cannot be reached. The API must ask the agent to try
// again, because an agent ends its task when the API refuses it.
func TestUncheckableTokenAnswers503(t *testing.T) {
	away := errors.New("the keys are out of reach")
	w := apitest.New(t, func(c *api.Config) {
		c.Verify = func(string) (wire.Claims, error) { return wire.Claims{}, away }
		c.Machines.Verify = func(string) (wire.PoolClaims, error) { return wire.PoolClaims{}, away }
	})
	for _, p := range agentPaths() {
		if res := w.Do(p[0], p[1], "", bearer("some.good.token")); res.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("%v: %d", p, res.StatusCode)
		}
	}
}
