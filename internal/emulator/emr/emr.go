package emr

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
)

// Request is a request that was received.
type Request struct {
	Action string // RunJobFlow, StartJobRun, …
	Path   string
	Body   map[string]any
}

// Refusal is an error of the API.
type Refusal struct {
	Code, Message string
	Status        int // of HTTP
	RetryAfter    time.Duration
}

// Cloud is the emulated account. It is an http.Handler; all methods are safe for concurrent use.
type Cloud struct {
	run  sparkjob.Runner
	moto *httputil.ReverseProxy
	s3   *s3.Client

	ctx   context.Context //nolint:containedctx // of the running applications
	close context.CancelFunc
	work  sync.WaitGroup
	calls sync.Mutex // moto's address generator is not safe for concurrent use

	mu       sync.Mutex
	requests []Request
	refuse   map[string][]Refusal
	lose     map[string]int
	late     []reason
	slow     int              // requests until a cluster is ready
	boots    [2]time.Duration // until a cluster is ready, and until a job run begins
	lag      int              // lists that lack a new application or job run
	clusters map[string]*cluster
	order    []*cluster
	apps     map[string]*application
	tokens   map[string][]byte // answers by client token
}

// New returns an account in front of a moto server. run runs applications.
func New(moto string, run sparkjob.Runner) (*Cloud, error) {
	u, err := url.Parse(moto)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Cloud{
		run: run, moto: httputil.NewSingleHostReverseProxy(u), ctx: ctx, close: stop,
		s3:     s3.NewFromConfig(emulator.Config(moto), func(o *s3.Options) { o.UsePathStyle = true }),
		refuse: map[string][]Refusal{}, lose: map[string]int{}, slow: 2, clusters: map[string]*cluster{},
		apps: map[string]*application{}, tokens: map[string][]byte{},
	}, nil
}

// Close ends all applications.
func (c *Cloud) Close() {
	c.close()
	c.work.Wait()
}

// Requests returns the requests for these actions, or all to EMR and EMR Serverless if there are none.
func (c *Cloud) Requests(actions ...string) []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.requests), func(r Request) bool {
		return len(actions) > 0 && !slices.Contains(actions, r.Action)
	})
}

// Refuse makes the next request for an action fail.
func (c *Cloud) Refuse(action string, r Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse[action] = append(c.refuse[action], r)
}

// Lose makes the next request for an action succeed and lose its answer.
func (c *Cloud) Lose(action string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose[action]++
}

// Slow sets the number of requests until a new cluster is ready.
func (c *Cloud) Slow(requests int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slow = requests
}

// Boot sets how long a new cluster takes until it is ready, in addition to its requests, and a job run until it begins.
func (c *Cloud) Boot(cluster, run time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boots = [2]time.Duration{cluster, run}
}

// Usage returns the billed usage of the account.
func (c *Cloud) Usage() (all []sparkjob.Usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.order {
		all = append(all, k.usage)
	}
	for _, a := range c.apps {
		for _, r := range a.runs {
			if !r.usage.From.IsZero() {
				all = append(all, r.usage)
			}
		}
	}
	return all
}

// Lag makes each new application of EMR Serverless, and each new job run, missing from its first lists.
func (c *Cloud) Lag(lists int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lag = lists
}

// FailLate makes the next cluster be accepted and end, before it is ready, for a reason: VALIDATION_ERROR,
// INSTANCE_FAILURE, BOOTSTRAP_FAILURE. detail is the code in the details, if there are any.
func (c *Cloud) FailLate(code, detail, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.late = append(c.late, reason{code, detail, message})
}

// Kill ends the live clusters with a name, as if EMR had lost their machines.
func (c *Cloud) Kill(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.order {
		if k.name == name && !k.ended() {
			k.terminate(reason{"INSTANCE_FAILURE", "", "The primary node of the cluster was terminated."})
		}
	}
}

// Left returns how many clusters and applications have not ended.
func (c *Cloud) Left() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.order {
		if !k.ended() {
			n++
		}
	}
	for _, a := range c.apps {
		if a.state != "TERMINATED" {
			n++
		}
	}
	return n
}

// Made returns how many clusters and applications were made.
func (c *Cloud) Made() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.order) + len(c.apps)
}

// Runs returns how many steps and job runs were accepted.
func (c *Cloud) Runs() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.order {
		n += len(k.steps)
	}
	for _, a := range c.apps {
		n += len(a.runs)
	}
	return n
}

// action returns the action of a request to EMR or EMR Serverless, and the parts of its path; empty for other services.
func action(r *http.Request) (name string, path []string) {
	if target, ok := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "ElasticMapReduce."); ok {
		return target, nil
	}
	if !strings.Contains(r.Header.Get("Authorization"), "/emr-serverless/") {
		return "", nil
	}
	path = strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	shape := r.Method
	for i, p := range path {
		if i%2 == 1 && p != "start" && p != "stop" {
			p = "*"
		}
		shape += "/" + p
	}
	return map[string]string{
		"POST/applications": "CreateApplication", "GET/applications": "ListApplications",
		"GET/applications/*": "GetApplication", "DELETE/applications/*": "DeleteApplication",
		"POST/applications/*/stop": "StopApplication", "POST/applications/*/start": "StartApplication",
		"POST/applications/*/jobruns": "StartJobRun", "GET/applications/*/jobruns": "ListJobRuns",
		"GET/applications/*/jobruns/*": "GetJobRun", "DELETE/applications/*/jobruns/*": "CancelJobRun",
	}[shape], path
}

// call is one request to EMR or EMR Serverless.
type call struct {
	*http.Request
	action string
	path   []string
	body   map[string]any
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, path := action(r)
	if name == "" {
		c.moto.ServeHTTP(w, r)
		return
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	in := &call{Request: r, action: name, path: path, body: map[string]any{}}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &in.body); err != nil {
			refusal(w, Refusal{"SerializationException", err.Error(), http.StatusBadRequest, 0})
			return
		}
	}
	c.calls.Lock()
	defer c.calls.Unlock()
	status, body, refused := c.answer(in)
	c.mu.Lock()
	lost := c.lose[name] > 0
	if lost {
		c.lose[name]--
	}
	c.mu.Unlock()
	switch {
	case lost:
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = conn.Close()
		}
	case refused != nil:
		refusal(w, *refused)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
}

func refusal(w http.ResponseWriter, r Refusal) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Errortype", r.Code)
	if r.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(r.RetryAfter.Seconds())))
	}
	w.WriteHeader(r.Status)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": r.Code, "message": r.Message})
}

func bad(format string, args ...any) *Refusal {
	return &Refusal{"ValidationException", fmt.Sprintf(format, args...), http.StatusBadRequest, 0}
}

// answer handles a request: it may be refused, then this emulator and moto handle it.
func (c *Cloud) answer(in *call) (status int, body []byte, refused *Refusal) {
	c.mu.Lock()
	c.requests = append(c.requests, Request{in.action, in.URL.Path, in.body})
	c.advance()
	if next := c.refuse[in.action]; len(next) > 0 {
		c.refuse[in.action] = next[1:]
		c.mu.Unlock()
		return 0, nil, &next[0]
	}
	token, _ := in.body["clientToken"].(string)
	known := c.tokens[token]
	c.mu.Unlock()
	if token != "" && known != nil {
		return http.StatusOK, known, nil
	}
	handle := c.elastic
	if in.path != nil {
		handle = c.serverless
	}
	if status, body, refused = handle(in); token != "" && status == http.StatusOK {
		c.mu.Lock()
		c.tokens[token] = body
		c.mu.Unlock()
	}
	return status, body, refused
}

// ask forwards a request to moto, with a body if it is not nil.
func (c *Cloud) ask(in *call, body map[string]any) (int, map[string]any) {
	r := in.Clone(in.Context())
	text, _ := json.Marshal(body)
	if body == nil {
		text = nil
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	r.Header.Set("Content-Length", strconv.Itoa(len(text)))
	answer := httptest.NewRecorder()
	c.moto.ServeHTTP(answer, r)
	out := map[string]any{}
	d := json.NewDecoder(answer.Body)
	d.UseNumber()
	_ = d.Decode(&out)
	return answer.Code, out
}

func encode(status int, body map[string]any) (int, []byte, *Refusal) {
	text, err := json.Marshal(body)
	if err != nil {
		return http.StatusInternalServerError, []byte("{}"), nil
	}
	return status, text, nil
}

// start runs an application; done is called with the lock held.
func (c *Cloud) start(args []string, logs string, done func(sparkjob.Result)) context.CancelFunc {
	ctx, stop := context.WithCancel(c.ctx)
	c.work.Go(func() {
		defer stop()
		result := c.run(ctx, args)
		c.write(logs+"stdout.gz", result.Stdout)
		c.write(logs+"stderr.gz", result.Stderr)
		c.mu.Lock()
		defer c.mu.Unlock()
		done(result)
	})
	return stop
}

// write writes a log.
func (c *Cloud) write(uri string, text []byte) {
	bucket, key, ok := strings.Cut(strings.TrimPrefix(uri, "s3://"), "/")
	if !ok || len(text) == 0 {
		return
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write(text)
	_ = zip.Close()
	_, _ = c.s3.PutObject(context.WithoutCancel(c.ctx), &s3.PutObjectInput{
		Bucket: &bucket, Key: &key, Body: bytes.NewReader(packed.Bytes()),
	})
}

// advance advances the time of all clusters by one request.
func (c *Cloud) advance() {
	for _, k := range c.order {
		c.step(k)
	}
	for _, id := range slices.Sorted(maps.Keys(c.apps)) {
		for _, r := range c.apps[id].runs {
			c.begin(c.apps[id], r)
		}
	}
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

func texts(v any) (all []string) {
	for _, e := range list(v) {
		all = append(all, text(e))
	}
	return all
}
