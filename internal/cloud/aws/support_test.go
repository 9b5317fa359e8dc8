package aws_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/emulator"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/store"
)

// digest is the digest of no agent. The machines of these tests run nothing.
var digest = strings.Repeat("0123456789abcdef", 4)

var counter atomic.Int64

// world is a separate deployment on the shared emulator. A proxy in between can make requests fail.
type world struct {
	*testing.T
	endpoint string // the emulator's own
	proxy    *proxy
	cfg      aws.Config
	aws      *aws.Cloud
	straight *ec2.Client // bypasses the proxy
}

func newWorld(t *testing.T, change func(*aws.Config)) *world {
	t.Helper()
	w := &world{T: t, endpoint: emulator.Moto(t)}
	w.proxy = newProxy(t, w.endpoint)
	w.cfg = aws.Config{
		Deployment: fmt.Sprintf("tw%d-%d", time.Now().UnixNano(), counter.Add(1)),
		Agents:     map[string]string{"": digest},
	}
	if change != nil {
		change(&w.cfg)
	}
	w.aws = aws.New(w.sdk(), w.cfg)
	w.straight = ec2.NewFromConfig(emulator.Config(w.endpoint))
	return w
}

// sdk returns the configuration of a client that uses the proxy and retries without a pause.
func (w *world) sdk() awssdk.Config {
	sdk := emulator.Config(w.proxy.URL)
	sdk.Retryer = func() awssdk.Retryer { return hasty{awssdk.NopRetryer{}} }
	return sdk
}

// hasty retries a failed call once, at once.
type hasty struct{ awssdk.NopRetryer }

func (hasty) IsErrorRetryable(error) bool                  { return true }
func (hasty) MaxAttempts() int                             { return 2 }
func (hasty) RetryDelay(int, error) (time.Duration, error) { return 0, nil }
func (hasty) GetAttemptToken(context.Context) (func(error) error, error) {
	return func(error) error { return nil }, nil
}

var (
	onDemand = apitypes.Offer{Cloud: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "t3.micro", USDPerHour: 0.0104}
	spot     = apitypes.Offer{Cloud: "aws", Region: "us-east-1", Zone: "use1-az4", InstanceType: "t3.micro", USDPerHour: 0.0031, Spot: true}
)

func (w *world) spec(name string, offer apitypes.Offer, nodes int) cloud.LaunchSpec {
	return cloud.LaunchSpec{
		Cluster: name, Offer: offer, Nodes: nodes, Bootstrap: boot(name, nodes),
		Labels: map[string]string{"job": "j-1", "task": "train", "queue": "default", "attempt": "1"},
	}
}

func boot(cluster string, nodes int) cloud.Bootstrap {
	b := cloud.Bootstrap{Endpoint: "https://api.example"}
	for rank := range nodes {
		b.Tokens = append(b.Tokens, fmt.Sprintf("token-%s-%d", cluster, rank))
	}
	return b
}

func (w *world) launch(spec cloud.LaunchSpec) []cloud.Machine {
	w.Helper()
	machines, err := w.aws.Launch(w.Context(), spec)
	if err != nil {
		w.Fatalf("launch: %v", err)
	}
	return machines
}

func (w *world) terminate(cluster string) {
	w.Helper()
	if err := w.aws.Terminate(w.Context(), cluster); err != nil {
		w.Fatalf("terminate: %v", err)
	}
}

// instances lists the deployment's machines from the emulator, not through the proxy.
func (w *world) instances(ctx context.Context, region string) ([]types.Instance, error) {
	pages := ec2.NewDescribeInstancesPaginator(w.straight, &ec2.DescribeInstancesInput{
		Filters: []types.Filter{{Name: awssdk.String("tag:tradewind:deployment"), Values: []string{w.cfg.Deployment}}},
	})
	var all []types.Instance
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx, func(o *ec2.Options) { o.Region = region })
		if err != nil {
			return nil, err
		}
		for _, r := range page.Reservations {
			all = append(all, r.Instances...)
		}
	}
	return all, nil
}

// left returns the number of machines that cost money.
func (w *world) left(region string) int {
	w.Helper()
	n, err := w.leftIn(w.Context(), region)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

func (w *world) leftIn(ctx context.Context, region string) (int, error) {
	all, err := w.instances(ctx, region)
	n := 0
	for _, i := range all {
		switch i.State.Name {
		case types.InstanceStateNameTerminated, types.InstanceStateNameShuttingDown:
		default:
			n++
		}
	}
	return n, err
}

// proxy is between the driver and the emulator. It applies its rules to EC2 requests by their action.
type proxy struct {
	*httptest.Server
	launches sync.Mutex
	mu       sync.Mutex
	rules    []*rule
	calls    map[string]int
	last     map[string]url.Values
}

// rule changes the handling of requests of an action ("": of any action).
type rule struct {
	action string
	region string
	times  int // number of requests that it still applies to; negative: no limit
	act    func(w http.ResponseWriter, r *http.Request, forward func(http.ResponseWriter))
}

func newProxy(t *testing.T, target string) *proxy {
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	back := httputil.NewSingleHostReverseProxy(u)
	p := &proxy{calls: map[string]int{}, last: map[string]url.Values{}}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		form, _ := url.ParseQuery(string(body))
		forward := func(w http.ResponseWriter) {
			if form.Get("Action") == "RunInstances" { // moto's address generator is not safe for concurrent use
				p.launches.Lock()
				defer p.launches.Unlock()
			}
			back.ServeHTTP(w, r)
		}
		if rule := p.match(r, form); rule != nil {
			rule.act(w, r, forward)
			return
		}
		forward(w)
	}))
	t.Cleanup(p.Close)
	return p
}

// match records a request, and returns the rule for it.
func (p *proxy) match(r *http.Request, form url.Values) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	action := form.Get("Action")
	if action == "" {
		_, action, _ = strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	}
	p.calls[action]++
	p.last[action] = form
	for _, rule := range p.rules {
		if rule.times != 0 && (rule.action == "" || rule.action == action) && strings.Contains(r.Header.Get("Authorization"), "/"+rule.region) {
			rule.times--
			return rule
		}
	}
	return nil
}

func (p *proxy) add(r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
}

func (p *proxy) count(action string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[action]
}

func (p *proxy) request(action string) url.Values {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last[action]
}

// refuse makes the next requests of an action fail with an error in EC2's format.
func (p *proxy) refuse(action string, times int, code, message string, status int, header http.Header) {
	p.add(&rule{action: action, times: times, act: func(w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		writeError(w, code, message, status, header)
	}})
}

func writeError(w http.ResponseWriter, code, message string, status int, header http.Header) {
	for k, v := range header {
		w.Header()[k] = v
	}
	var text strings.Builder
	_ = xml.EscapeText(&text, []byte(message))
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>r-1</RequestID></Response>`, code, text.String())
}

// lose drops the answers of the next requests of an action. The emulator carries the requests out.
func (p *proxy) lose(action string, times int) {
	p.add(&rule{action: action, times: times, act: func(w http.ResponseWriter, _ *http.Request, forward func(http.ResponseWriter)) {
		forward(httptest.NewRecorder())
		hijack(w)
	}})
}

// hijack drops the connection.
func hijack(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

// refusals has EC2's answer to a launch for each kind of failure.
var refusals = map[cloud.Kind]struct {
	code   string
	status int
}{
	cloud.Capacity:  {"InsufficientInstanceCapacity", 500},
	cloud.Quota:     {"VcpuLimitExceeded", 400},
	cloud.Auth:      {"UnauthorizedOperation", 403},
	cloud.Throttled: {"RequestLimitExceeded", 503},
	cloud.Transient: {"InternalError", 500},
	cloud.Invalid:   {"InvalidUserData.Malformed", 400},
}

// failLaunch makes the next RunInstances fail with an error of a kind.
func (p *proxy) failLaunch(want *cloud.Error) {
	header := http.Header{}
	if want.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int(want.RetryAfter.Seconds())))
	}
	r := refusals[want.Kind]
	p.refuse("RunInstances", 1, r.code, want.Message, r.status, header)
}

// drop disables a rule.
func (p *proxy) drop(r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.times = 0
}

// rewrite replaces a text in all answers to an action.
func (p *proxy) rewrite(action, old, replacement string) {
	p.add(&rule{action: action, times: -1, act: func(w http.ResponseWriter, _ *http.Request, forward func(http.ResponseWriter)) {
		rec := httptest.NewRecorder()
		forward(rec)
		body := strings.ReplaceAll(rec.Body.String(), old, replacement)
		for k, v := range rec.Header() {
			if k != "Content-Length" {
				w.Header()[k] = v
			}
		}
		w.WriteHeader(rec.Code)
		_, _ = io.WriteString(w, body)
	}})
}

// graves returns a list of terminated clusters in a store that several functions share.
func graves(st store.Store) driver.Graves { return driver.StoreGraves("aws", st, time.Hour, time.Now) }
