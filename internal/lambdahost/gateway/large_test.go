package gateway_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	awsevents "github.com/aws/aws-lambda-go/events"

	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/cli/progress"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/gateway"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// lambda is a deployment's API as a client reaches it: each request is an event of API Gateway, and each response is
// within the limits of Lambda.
type lambda struct {
	*client.Client
	calls, bytes, largest int
}

func deploy(t *testing.T, h http.Handler) *lambda {
	t.Helper()
	l := &lambda{}
	g := &gateway.Gateway{Handler: h, UserToken: apitest.Token}
	in := document(t, "iam")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in := in
		in.RequestContext.HTTP.Method, in.RequestContext.DomainName = r.Method, "localhost"
		in.RawPath, in.RawQueryString, in.Headers = r.URL.EscapedPath(), r.URL.RawQuery, map[string]string{}
		for name := range r.Header {
			in.Headers[strings.ToLower(name)] = r.Header.Get(name)
		}
		out, err := g.Serve(r.Context(), in)
		if err != nil {
			t.Error(err)
		}
		l.answer(t, w, out)
	}))
	t.Cleanup(s.Close)
	l.Client = client.New(s.URL, "whatever")
	return l
}

func (l *lambda) answer(t *testing.T, w http.ResponseWriter, out awsevents.APIGatewayV2HTTPResponse) {
	l.calls++
	l.bytes += len(out.Body)
	l.largest = max(l.largest, len(out.Body))
	for name, v := range out.Headers {
		w.Header().Set(name, v)
	}
	w.WriteHeader(out.StatusCode)
	body := io.Reader(strings.NewReader(out.Body))
	if out.IsBase64Encoded {
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	if _, err := io.Copy(w, body); err != nil {
		t.Error(err)
	}
}

func TestGetJobWith20000Tasks(t *testing.T) {
	const tasks, running = 20_000, 100
	w := apitest.New(t)
	job := w.Large(tasks, running)
	l := deploy(t, w.API)
	w.Store.Take()
	d, err := l.Job(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.TaskList) != tasks || len(d.Attempts) != tasks-1 || d.TaskList[tasks-1].Name != "merge" || len(d.TaskList[tasks-1].After) != tasks-2 {
		t.Errorf("%d tasks, %d attempts", len(d.TaskList), len(d.Attempts))
	}
	if l.bytes > 4<<20 {
		t.Errorf("%d bytes were answered", l.bytes)
	}
	t.Logf("status: %d calls, %d bytes, the largest %d; %+v", l.calls, l.bytes, l.largest, w.Store.Take())
	*l = lambda{Client: l.Client}
	story, err := l.Explain(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	if n := 2 + (tasks - 1) + (tasks - 1 - running); len(story.Entries) != n || len(story.Choices) != tasks {
		t.Errorf("%d entries of %d, %d choices", len(story.Entries), n, len(story.Choices))
	}
	t.Logf("explain: %d calls, %d bytes, the largest %d; %+v", l.calls, l.bytes, l.largest, w.Store.Take())
	*l = lambda{Client: l.Client}
	follow(t, l, w, job, tasks)
}

// follow follows a job until a task that was running when the stream began has ended.
func follow(t *testing.T, l *lambda, w *apitest.World, job string, tasks int) {
	view, full, changed := progress.NewJob(1), 0, 0
	for u, err := range l.Follow(t.Context(), job) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Full {
			full++
		}
		changed += len(u.Tasks)
		view.Apply(u, time.Time{})
		if view.Tasks[tasks-2].State == "succeeded" {
			break
		}
		if changed == tasks && len(u.Tasks) > 0 {
			t.Logf("followed: %d calls, %d bytes, the largest %d; %+v", l.calls, l.bytes, l.largest, w.Store.Take())
			*l = lambda{Client: l.Client}
			w.Finish(job, tasks-2)
		}
	}
	if full != 1 || changed != tasks+1 || l.bytes > 64<<10 {
		t.Errorf("everything was sent %d times, %d tasks in all, the last ones in %d bytes", full, changed, l.bytes)
	}
	t.Logf("a change: %d calls, %d bytes; %+v", l.calls, l.bytes, w.Store.Take())
}
