package loopback

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/tradewind-broker/tradewind/internal/api/signin"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/client"
)

// DashboardBroker is the broker whose jobs are shown: a client.Client.
type DashboardBroker interface {
	Broker
	Events(ctx context.Context, id, last string) iter.Seq2[client.Event, error]
	Log(ctx context.Context, job, task string, o client.LogOptions) (io.ReadCloser, error)
}

// DashboardProxy is the server of the dashboard for a remote broker. It serves the pages, signs in users that have its
// token, and joins the broker's responses, which end after a short time on AWS, into streams: a browser follows jobs
// and logs with long responses. It only answers requests for loopback host names.
type DashboardProxy struct {
	Broker DashboardBroker
	User   signin.Token // of its users
	Pages  http.Handler // of the dashboard
	Plans  http.Handler // makes plans if the broker does not: see api.Planning
}

// Handler returns the server's handler.
func (d DashboardProxy) Handler() http.Handler {
	user := d.User
	asked := http.NewServeMux()
	asked.HandleFunc("GET /v1/jobs/{id}/events", d.events)
	asked.HandleFunc("GET /v1/jobs/{id}/tasks/{task}/logs", d.log)
	asked.HandleFunc("POST /v1/plans", d.plan)
	asked.HandleFunc("POST /v1/frontiers", d.plan)
	asked.HandleFunc("/v1/", d.pass)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		signin.Secure(w.Header())
		token := signin.Bearer(r)
		switch {
		case !isLoopbackHost(r.Host):
			Refuse(w, http.StatusMisdirectedRequest, "this server does not answer for that host name")
		case signin.Visits(r):
			user.ServeHTTP(w, r)
		case r.URL.Path == "/" || strings.HasPrefix(r.URL.Path, "/assets/"):
			d.Pages.ServeHTTP(w, r)
		case !isUserPath(r.URL.EscapedPath()):
			Refuse(w, http.StatusNotFound, "not found")
		case token != "" && user.Matches(token), user.HasSession(r):
			asked.ServeHTTP(w, r)
		default:
			Refuse(w, http.StatusUnauthorized,
				"sign in with the address that `tradewind dashboard` printed")
		}
	})
}

// isLoopbackHost reports whether a request names this computer. It rejects a remote page whose host name was made to
// resolve here.
func isLoopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return host == "localhost" || host == "127.0.0.1"
}

// isUserPath reports whether an escaped path belongs to the API of users. It rejects a path that changes when cleaned.
func isUserPath(p string) bool {
	return strings.HasPrefix(p, "/v1/") && !strings.HasPrefix(p, "/v1/agent/") && !strings.HasPrefix(p, "/v1/push/") &&
		path.Clean(p) == p && !strings.Contains(strings.ToLower(p), "%2e")
}

func (d DashboardProxy) pass(w http.ResponseWriter, r *http.Request) {
	res, err := d.Broker.Pass(r.Context(), r)
	if err != nil {
		fail(w, err)
		return
	}
	forwardResponse(w, res)
}

// forwardResponse forwards the broker's response.
func forwardResponse(w http.ResponseWriter, res *http.Response) {
	defer res.Body.Close() //nolint:errcheck // only read
	for _, name := range []string{"Content-Type", "Location", "Retry-After"} {
		if v := res.Header.Get(name); v != "" {
			w.Header().Set(name, v)
		}
	}
	w.WriteHeader(res.StatusCode)
	Copy(w, res.Body)
}

// plan forwards the request to the broker, and plans here if the broker only plans submitted jobs.
func (d DashboardProxy) plan(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, client.MaxPassed+1)) // Pass reports a body that is too large
	if err != nil {
		Refuse(w, http.StatusBadRequest, "cannot read the request")
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	res, err := d.Broker.Pass(r.Context(), r)
	switch {
	case err != nil:
		fail(w, err)
	case res.StatusCode == http.StatusNotImplemented && d.Plans != nil:
		_ = res.Body.Close() // only read
		r.Body = io.NopCloser(bytes.NewReader(body))
		d.Plans.ServeHTTP(w, r)
	default:
		forwardResponse(w, res)
	}
}

// events streams a job's events in one response.
func (d DashboardProxy) events(w http.ResponseWriter, r *http.Request) {
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.URL.Query().Get("after")
	}
	send := flushing{w: w, rc: http.NewResponseController(w)}
	for ev, err := range d.Broker.Events(r.Context(), r.PathValue("id"), last) {
		switch {
		case err != nil && !send.begun:
			fail(w, err)
			return
		case err != nil:
			return // the page connects again and gets the error then
		case !send.begun:
			w.Header().Set("Content-Type", "text/event-stream")
		}
		var b bytes.Buffer
		b.WriteString("event: " + ev.Name + "\n")
		if ev.ID != "" {
			b.WriteString("id: " + ev.ID + "\n")
		}
		b.WriteString("data: ")
		b.Write(ev.Data)
		b.WriteString("\n\n")
		if _, err := send.Write(b.Bytes()); err != nil {
			return
		}
	}
}

// log streams a task's log in one response.
func (d DashboardProxy) log(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("offset") != "" || q.Get("after") != "" {
		d.pass(w, r)
		return
	}
	var o client.LogOptions
	var bad error
	number := func(name string) int {
		text := q.Get(name)
		if text == "" {
			return 0
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			bad = errors.Join(bad, errors.New(name+" must be a number of at least 0"))
		}
		return n
	}
	o.Attempt, o.Rank, o.Tail = number("attempt"), number("rank"), int64(number("tail"))
	o.Follow, o.Timestamps = q.Get("follow") == "true", q.Get("timestamps") == "true"
	if since := q.Get("since"); since != "" {
		var err error
		if o.Since, err = time.Parse(time.RFC3339, since); err != nil {
			bad = errors.Join(bad, errors.New("since must be a time such as 2026-01-02T15:04:05Z"))
		}
	}
	if bad != nil {
		Refuse(w, http.StatusUnprocessableEntity, bad.Error())
		return
	}
	body, err := d.Broker.Log(r.Context(), r.PathValue("id"), r.PathValue("task"), o)
	if err != nil {
		fail(w, err)
		return
	}
	defer body.Close() //nolint:errcheck // only read
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	send := &flushing{w: w, rc: http.NewResponseController(w)}
	if _, err := send.Write(nil); err != nil { // sends the headers at once
		return
	}
	Copy(send, body)
}

// flushing flushes every write.
type flushing struct {
	w     io.Writer
	rc    *http.ResponseController
	begun bool
}

func (f *flushing) Write(b []byte) (int, error) {
	f.begun = true
	n, err := f.w.Write(b)
	if err != nil {
		return n, err
	}
	return n, f.rc.Flush()
}

// fail returns a broker error to the browser: the broker's own response if there is one.
func fail(w http.ResponseWriter, err error) {
	var p *apitypes.Problem
	switch {
	case errors.As(err, &p):
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(p.Status)
		_ = json.NewEncoder(w).Encode(p)
	case client.Status(err) != 0:
		Refuse(w, client.Status(err), err.Error())
	case errors.Is(err, client.ErrTooLarge):
		Refuse(w, http.StatusRequestEntityTooLarge, err.Error())
	default:
		Refuse(w, http.StatusBadGateway, err.Error())
	}
}
