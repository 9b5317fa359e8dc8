package loopback_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/api/signin"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/internal/cli/loopback"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/gateway"
	"github.com/tradewind-broker/tradewind/pkg/client"
	"github.com/tradewind-broker/tradewind/pkg/dag"
	"github.com/tradewind-broker/tradewind/web"
)

const token = "a-token-of-the-dashboard"

// functions makes an API respond like a Lambda function behind API Gateway: each response is complete, and a stream ends
// when it has been quiet for a moment.
func functions(t *testing.T, w *apitest.World) *client.Client {
	t.Helper()
	g := &gateway.Gateway{Handler: w.API, UserToken: apitest.Token, Quiet: 20 * time.Millisecond}
	s := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		in := awsevents.APIGatewayV2HTTPRequest{
			RawPath: r.URL.EscapedPath(), RawQueryString: r.URL.RawQuery, Body: string(body), Headers: map[string]string{},
		}
		in.RequestContext.HTTP.Method, in.RequestContext.DomainName = r.Method, "localhost"
		in.RequestContext.Authorizer = &awsevents.APIGatewayV2HTTPRequestContextAuthorizerDescription{
			IAM: &awsevents.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription{UserARN: "arn:aws:iam::1:user/me"}}
		for name := range r.Header {
			in.Headers[strings.ToLower(name)] = r.Header.Get(name)
		}
		res, err := g.Serve(r.Context(), in)
		if err != nil {
			t.Error(err)
		}
		for name, v := range res.Headers {
			out.Header().Set(name, v)
		}
		out.WriteHeader(res.StatusCode)
		said := []byte(res.Body)
		if res.IsBase64Encoded {
			said, _ = base64.StdEncoding.DecodeString(res.Body)
		}
		_, _ = out.Write(said)
	}))
	t.Cleanup(s.Close)
	return client.New(s.URL, "signed")
}

type door struct {
	*testing.T
	url     string
	session string
}

func opened(t *testing.T, b loopback.DashboardBroker) door {
	t.Helper()
	pages, err := web.Handler()
	if err != nil {
		t.Fatal(err)
	}
	plans := api.Planning(token, func(_ context.Context, spec *dag.Job) (*record.Plan, error) {
		return &record.Plan{Status: record.PlanInfeasible, Message: "planned here: " + spec.Name}, nil
	}, nil)
	user := signin.New(token)
	s := httptest.NewServer(loopback.DashboardProxy{Broker: b, User: user, Pages: pages, Plans: plans}.Handler())
	t.Cleanup(s.Close)
	d := door{T: t, url: s.URL}
	var got signin.Session
	if err := json.Unmarshal([]byte(d.text(d.ask(http.MethodPost, signin.Path, `{"code":"`+user.Code()+`"}`, nil))), &got); err != nil {
		t.Fatal(err)
	}
	d.session = got.Session
	return d
}

func (d door) ask(method, path, body string, set func(*http.Request)) *http.Response {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), time.Minute)
	d.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if d.session != "" {
		r.Header.Set("Authorization", "Bearer "+d.session)
	}
	if set != nil {
		set(r)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { _ = res.Body.Close() })
	return res
}

func (d door) text(res *http.Response) string {
	d.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		d.Fatal(err)
	}
	return string(body)
}

func bears(r *http.Request) {
	r.Header.Set("Authorization", "Bearer "+token)
}

// TestEventsAreStreamed: one stream to the page joins many short responses.
func TestEventsAreStreamed(t *testing.T) {
	w := apitest.New(t)
	d := opened(t, functions(t, w))
	job := w.Submit(apitest.Wide("one", 1))
	res := d.ask(http.MethodGet, "/v1/jobs/"+job+"/events", "", nil)
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("content type %q", got)
	}
	lines := bufio.NewScanner(res.Body)
	until := func(what string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), what) {
				return
			}
		}
		t.Fatalf("no %q", what)
	}
	until(`"full":true`)
	w.Node(job, "split", 0).Start().Succeed()
	until(`"succeeded":1`)
	w.Node(job, "project-0000", 0).Start().Succeed()
	w.Node(job, "merge", 0).Start().Succeed()
	until("event: end")
	for lines.Scan() {
		if lines.Text() != "" && !strings.HasPrefix(lines.Text(), "data: ") {
			t.Errorf("after its end: %q", lines.Text())
		}
	}
	if res := d.ask(http.MethodGet, "/v1/jobs/none/events", "", nil); res.StatusCode != http.StatusNotFound {
		t.Errorf("a job that is not there: %s", res.Status)
	}
}

// TestLogIsStreamed: it continues where a response ended, through attempts, without duplicates.
func TestLogIsStreamed(t *testing.T) {
	w := apitest.New(t)
	d := opened(t, functions(t, w))
	job := w.Submit(apitest.Wide("one", 1))
	first := w.Node(job, "split", 0).Start().Print("first")
	res := d.ask(http.MethodGet, "/v1/jobs/"+job+"/tasks/0/logs?follow=true&tail=1000", "", nil)
	lines := bufio.NewScanner(res.Body)
	want := func(text string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != text {
			t.Fatalf("got %q, want %q", lines.Text(), text)
		}
	}
	want("first")
	time.Sleep(60 * time.Millisecond) // the response has ended by then, even on a slow computer
	first.Print("second")
	want("second")
	w.Take(job, "split")
	w.Node(job, "split", 0).Start().Print("third").Succeed()
	want("")
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "== attempt 2 on ") {
		t.Fatalf("got %q", lines.Text())
	}
	want("third")
	if lines.Scan() {
		t.Errorf("after its end: %q", lines.Text())
	}
	for query, status := range map[string]int{"attempt=x": 422, "rank=-1": 422, "attempt=9": 404} {
		if res := d.ask(http.MethodGet, "/v1/jobs/"+job+"/tasks/0/logs?"+query, "", nil); res.StatusCode != status {
			t.Errorf("%s: %s", query, res.Status)
		}
	}
}

func TestPlansLocallyIfBrokerDoesNot(t *testing.T) {
	w := apitest.New(t, func(c *api.Config) { c.Plan, c.Frontier = nil, nil })
	d := opened(t, functions(t, w))
	file := "apiVersion: tradewind/v1\nname: far\ntasks:\n  a: {run: \"true\", resources: {cpus: 1+}, time: 1m}\n"
	res := d.ask(http.MethodPost, "/v1/plans?name=x.yaml", file, bears)
	if got := d.text(res); res.StatusCode != http.StatusOK || !strings.Contains(got, "planned here: far") {
		t.Errorf("%s %s", res.Status, got)
	}
	res = d.ask(http.MethodPost, "/v1/plans?name=x.yaml", "tasks: 1", bears)
	if got := d.text(res); res.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(got, "x.yaml:1") {
		t.Errorf("%s %s", res.Status, got)
	}
	if res = d.ask(http.MethodPost, "/v1/frontiers", file, bears); res.StatusCode != http.StatusNotImplemented {
		t.Errorf("a frontier that nobody makes: %s", res.Status)
	}
	res = d.ask(http.MethodPost, "/v1/dags?name=x.yaml", file, func(r *http.Request) {
		bears(r)
		r.Header.Set("Idempotency-Key", "once")
	})
	again := d.ask(http.MethodPost, "/v1/dags?name=x.yaml", file, func(r *http.Request) {
		bears(r)
		r.Header.Set("Idempotency-Key", "once")
	})
	var a, b struct{ ID string }
	if err := json.Unmarshal([]byte(d.text(res)), &a); err != nil || a.ID == "" {
		t.Fatal(a, err)
	}
	if err := json.Unmarshal([]byte(d.text(again)), &b); err != nil || a != b {
		t.Errorf("one key made %q and %q", a.ID, b.ID)
	}
}

func TestRequiresSignIn(t *testing.T) {
	w := apitest.New(t)
	d := opened(t, functions(t, w))
	job := w.Submit(apitest.Wide("one", 1))
	for name, c := range map[string]struct {
		method, path string
		set          func(*http.Request)
		status       int
	}{
		"the page needs nothing":      {"GET", "/", func(r *http.Request) { r.Header.Del("Authorization") }, 200},
		"its parts need nothing":      {"GET", "/assets/js/main.js", func(r *http.Request) { r.Header.Del("Authorization") }, 200},
		"the session reads":           {"GET", "/v1/jobs", nil, 200},
		"no session":                  {"GET", "/v1/jobs", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		"another page's request":      {"GET", "/v1/jobs", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 401},
		"the session changes":         {"POST", "/v1/jobs/" + job + "/cancel", nil, 202},
		"the token does, too":         {"POST", "/v1/jobs/" + job + "/cancel", bears, 202},
		"a wrong token":               {"GET", "/v1/jobs", func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }, 401},
		"another host's name":         {"GET", "/v1/jobs", func(r *http.Request) { r.Host = "evil.example.org" }, 421},
		"agents' calls":               {"GET", "/v1/agent/work", bears, 404},
		"a cloud's pushes":            {"POST", "/v1/push/gcp", bears, 404},
		"a path that means another":   {"GET", "/v1/jobs/../agent/work", bears, 404},
		"the same, hidden":            {"GET", "/v1/jobs/%2e%2e/agent/work", bears, 404},
		"what is not of the API":      {"GET", "/metrics", bears, 404},
		"a visit with a wrong token":  {"GET", "/?token=wrong", nil, 303},
		"a file that is not a page's": {"GET", "/assets/../../etc/passwd", nil, 404},
	} {
		if res := d.ask(c.method, c.path, "", c.set); res.StatusCode != c.status {
			t.Errorf("%s: %s", name, res.Status)
		} else if res.Header.Get("X-Content-Type-Options") != "nosniff" ||
			name == "a visit with a wrong token" && len(res.Cookies()) > 0 {
			t.Errorf("%s: %v", name, res.Header)
		}
	}
}

func TestReportsUnreachableBroker(t *testing.T) {
	d := opened(t, client.New("http://127.0.0.1:1", "x"))
	for _, path := range []string{"/v1/jobs", "/v1/jobs/j/tasks/0/logs"} {
		res := d.ask(http.MethodGet, path, "", nil)
		if got := d.text(res); res.StatusCode != http.StatusBadGateway || !strings.Contains(got, "does not answer") {
			t.Errorf("%s: %s %s", path, res.Status, got)
		}
	}
}

// TestCutsTruncatedResponses: a page reopens a log that broke off, but not one that has ended.
func TestCutsTruncatedResponses(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half a ")
		_ = http.NewResponseController(w).Flush() // begins a response that breaks off
		panic(http.ErrAbortHandler)
	}))
	defer s.Close()
	d := opened(t, client.New(s.URL, "signed"))
	for _, path := range []string{"/v1/jobs/j/tasks/t/logs?follow=true", "/v1/jobs/j/tasks/t/logs?offset=1", "/v1/jobs"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, d.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		bears(r)
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			continue // nothing was sent yet
		}
		got, err := io.ReadAll(res.Body)
		if _ = res.Body.Close(); err == nil {
			t.Errorf("%s: %s, %q looks whole", path, res.Status, got)
		}
	}
}
