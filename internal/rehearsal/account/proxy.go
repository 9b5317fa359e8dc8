package account

import (
	"bytes"
	"context"
	"hash/crc32"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tradewind-broker/tradewind/internal/rehearsal/sandbox"
)

// Proxy is between the functions and the emulators.
type Proxy struct {
	count    *Counter
	rights   *Rights
	mappings []*Mapping
	moves    *Moves
	trace    *Trace
	log      *slog.Logger
	next     *httputil.ReverseProxy
	control  controlPlane
	requests requests
	quotas   quotas

	functions map[string]*sandbox.Function // that others may invoke, set when they have started

	mu       sync.Mutex
	rand     *rand.Rand
	failure  float64         // fraction of the functions' calls that fail
	capacity int             // number of launches to refuse for lack of capacity
	full     int             // number of launches that were refused for lack of capacity
	without  map[string]bool // client tokens of refused launches
	injected int
	ended    map[string]string // EC2 codes of why machines ended without being terminated, by ID
}

// newProxy returns a proxy of the emulators. The same seed makes the same calls fail, if they come in the same order.
func newProxy(front *httputil.ReverseProxy, count *Counter, rights *Rights, seed uint64, log *slog.Logger) *Proxy {
	p := &Proxy{count: count, rights: rights, log: log, rand: rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // no secret
		without: map[string]bool{}}
	p.next = &httputil.ReverseProxy{
		Transport: front.Transport, Rewrite: front.Rewrite, ErrorHandler: front.ErrorHandler, ModifyResponse: p.explain,
	}
	return p
}

// Ended records why a machine ended without being terminated. moto always reports that a user terminated it.
func (p *Proxy) Ended(id, code string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.ended = map[string]string{}
	}
	p.ended[id] = code
}

// explain corrects the reasons of ended machines in EC2's answers.
func (p *Proxy) explain(r *http.Response) error {
	if callerOf(r.Request).service != "ec2" {
		return nil
	}
	raw, err := io.ReadAll(r.Body)
	_ = r.Body.Close() // it was read
	if err != nil {
		return err
	}
	p.countLaunched(r.Request, raw)
	raw = p.explained(raw)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	r.Header.Set("Content-Length", strconv.Itoa(len(raw)))
	return nil
}

func (p *Proxy) explained(raw []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	const begin, asked = "<instanceId>", "Client.UserInitiatedShutdown"
	parts := strings.Split(string(raw), begin)
	for i, part := range parts[1:] {
		id, _, _ := strings.Cut(part, "<")
		if code, ok := p.ended[id]; ok {
			part = strings.ReplaceAll(part, asked, code)
			parts[i+1] = userInitiated.ReplaceAllString(part, "<reason></reason>")
		}
	}
	return []byte(strings.Join(parts, begin))
}

var userInitiated = regexp.MustCompile(`<reason>User initiated[^<]*</reason>`)

// FailCalls makes a fraction of the functions' calls fail from now on.
func (p *Proxy) FailCalls(share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = share
}

// RefuseLaunches makes the next n launches fail for lack of capacity.
func (p *Proxy) RefuseLaunches(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.capacity = n
}

// Refused returns the number of refused launches and of calls that were made to fail.
func (p *Proxy) Refused() (launches, injected int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.full, p.injected
}

var credential = regexp.MustCompile(`Credential=([^/]+)/\d+/([^/]+)/([^/]+)/aws4_request`)

// caller is the signer of a request and the service for which it was signed, according to the signature.
type caller struct {
	key, Region, service string
	granted              bool // signed in the URL, which the function gave to the sender
}

func callerOf(r *http.Request) caller {
	signed, granted := r.Header.Get("Authorization"), false
	if name := r.URL.Query().Get("X-Amz-Credential"); signed == "" && name != "" {
		signed, granted = "Credential="+name, true
	}
	m := credential.FindStringSubmatch(signed)
	if m == nil {
		return caller{key: "anonymous", service: "s3"}
	}
	return caller{key: m[1], Region: m[2], service: m[3], granted: granted}
}

// functionKey returns the access key of a function's sandboxes, which identifies the caller in every signature.
func functionKey(name string) string {
	return "AKIA" + strings.ToUpper(strings.ReplaceAll(name, "-", ""))
}

const maxBody = 64 << 20

// authorize returns the function that makes a request, "user" or "agent" for other callers, and the action that it may
// not perform.
func (p *Proxy) authorize(who caller, action string, r *http.Request, body []byte) (function, lacks string) {
	if function = p.rights.Function(who.key); function == "" {
		function = "user"
	} else {
		lacks = p.rights.Missing(function, who.service, action, r, body)
	}
	if who.granted { // with the rights of the function that granted it
		function = "agent"
	}
	return function, lacks
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := callerOf(r)
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	action := actionOf(who.service, r, body)
	function, lacks := p.authorize(who, action, r, body)
	if who.service == "sqs" {
		body = traced(action, r.Header.Get(traceHeader), body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	if lacks != "" {
		p.log.Warn("denied", "function", function, "action", lacks)
		fail(w, who.service, http.StatusForbidden, deniedCode(who.service), "User is not authorized to perform: "+lacks)
		return
	}
	if strings.HasPrefix(r.URL.Path, mappingPath) {
		if !p.control.admit(time.Now()) {
			fail(w, "lambda", http.StatusTooManyRequests, "TooManyRequestsException", "Rate exceeded")
			return
		}
		p.count.add("lambda", action, function)
		serveMappings(p.mappings, w, r)
		return
	}
	if who.service == "ec2" && p.refused(w, who.Region, action, function, body) {
		return
	}
	lost, broken := p.fault(function)
	if broken {
		fail(w, who.service, http.StatusServiceUnavailable, "ServiceUnavailable", "made to fail by the rehearsal")
		return
	}
	if who.service == "ec2" && action == "RunInstances" {
		each, n := classOf(who.Region, body)
		if !p.quotas.take(each, n) {
			p.count.add("ec2", action, function)
			overQuota(w, each)
			return
		}
		l := &launch{each: each, n: n}
		defer p.quotas.abandon(l)
		r = r.WithContext(context.WithValue(r.Context(), launching{}, l))
	}
	answer := &measured{ResponseWriter: w}
	if lost { // executed, but without an answer
		answer.ResponseWriter = discard{header: http.Header{}}
	}
	if name := invoked(r); who.service == "lambda" && name != "" {
		p.invoke(answer, r, name, body)
	} else {
		began := time.Now()
		p.next.ServeHTTP(answer, r)
		p.trace.add(Span{InService, function, who.service, began, time.Now()})
	}
	if who.granted && answer.status < http.StatusMultipleChoices {
		p.moves.moved(r, int64(len(body)), int64(answer.size))
	}
	units := unitsOf(who.service, action, body, answer.size)
	if who.service == "dynamodb" && answer.status >= http.StatusBadRequest {
		action += Refused
	}
	p.count.addUnits(who.service, action, function, units)
	if lost {
		panic(http.ErrAbortHandler) // the connection is cut
	}
}

// refused answers a request that EC2 throttles, or a launch for which it has no capacity, and reports whether it has.
func (p *Proxy) refused(w http.ResponseWriter, region, action, function string, body []byte) bool {
	switch {
	case !p.requests.admit(region, action, time.Now()):
		fail(w, "ec2", http.StatusServiceUnavailable, "RequestLimitExceeded", "Request limit exceeded.")
	case action == "RunInstances" && p.refuse(body):
		fail(w, "ec2", http.StatusInternalServerError, "InsufficientInstanceCapacity",
			"We currently do not have sufficient capacity in the Availability Zone you requested.")
	default:
		return false
	}
	p.count.add("ec2", action, function)
	return true
}

// refuse reports whether to refuse a launch. A refused launch is refused again, because the function may have been
// killed before it recorded the refusal.
func (p *Proxy) refuse(launch []byte) bool {
	form, err := url.ParseQuery(string(launch))
	token := form.Get("ClientToken")
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err != nil:
		return false
	case p.without[token]:
		return true
	case p.capacity == 0:
		return false
	}
	p.capacity--
	p.full++
	p.without[token] = true
	return true
}

// fault decides whether a function's call fails. It is not executed, or in one of three cases executed without an
// answer.
func (p *Proxy) fault(function string) (lost, broken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == 0 || function == "user" || function == "agent" || p.rand.Float64() >= p.failure {
		return false, false
	}
	p.injected++
	if p.rand.IntN(3) == 0 {
		return true, false
	}
	return false, true
}

// Refused is the suffix of a failed request to the table, mostly a transaction that conflicted with another.
const Refused = ", refused"

// measured records the size and status of an answer.
type measured struct {
	http.ResponseWriter
	size, status int
}

// WriteHeader implements http.ResponseWriter.
func (m *measured) WriteHeader(status int) {
	m.status = status
	m.ResponseWriter.WriteHeader(status)
}

func (m *measured) Write(b []byte) (int, error) {
	m.size += len(b)
	return m.ResponseWriter.Write(b)
}

type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

// fail sends an error in the format of the service.
func fail(w http.ResponseWriter, service string, status int, code, message string) {
	var body string
	switch service {
	case "ec2":
		w.Header().Set("Content-Type", "text/xml")
		body = `<Response><Errors><Error><Code>` + code + `</Code><Message>` + message +
			`</Message></Error></Errors><RequestID>rehearsal</RequestID></Response>`
	case "s3":
		w.Header().Set("Content-Type", "application/xml")
		body = `<Error><Code>` + code + `</Code><Message>` + message + `</Message></Error>`
	case "sns", "iam", "sts":
		w.Header().Set("Content-Type", "text/xml")
		body = `<ErrorResponse><Error><Type>Sender</Type><Code>` + code + `</Code><Message>` + message +
			`</Message></Error></ErrorResponse>`
	default:
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.Header().Set("X-Amzn-Errortype", code)
		body = `{"__type":"` + code + `","message":"` + message + `"}`
		// DynamoDB's clients check it
		w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10))
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) //nolint:gosec // to a function, which may have been killed; there is no browser
}

func deniedCode(service string) string {
	switch service {
	case "ec2":
		return "UnauthorizedOperation"
	case "s3":
		return "AccessDenied"
	default:
		return "AccessDeniedException"
	}
}
