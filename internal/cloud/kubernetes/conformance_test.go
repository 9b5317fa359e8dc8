package kubernetes_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	driver "github.com/tradewind-broker/tradewind/internal/cloud/kubernetes"
	"github.com/tradewind-broker/tradewind/internal/kubetest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/cloudtest"
)

// harness is a namespace of a real control plane. A proxy before it simulates refusals and lost answers.
type harness struct {
	*world
	between *between
}

func (h harness) Cloud() cloud.Cloud    { return h.driver }
func (h harness) Offer() apitypes.Offer { return offer }
func (h harness) Bootstrap(cluster string, nodes int) cloud.Bootstrap {
	return boot(cluster, nodes)
}

func (h harness) Fail(_ apitypes.Offer, err *cloud.Error) bool {
	answers := map[cloud.Kind]answer{
		cloud.Quota: {http.StatusForbidden, "Forbidden", `pods "x" is forbidden: exceeded quota: compute, requested: cpu=1`},
		cloud.Auth: {http.StatusForbidden, "Forbidden",
			`pods is forbidden: User "x" cannot create resource "pods" in API group "" in the namespace "broker"`},
		cloud.Throttled: {http.StatusTooManyRequests, "TooManyRequests", "too many requests, please try again later"},
		cloud.Transient: {http.StatusInternalServerError, "InternalError", "etcdserver: leader changed"},
		cloud.Invalid: {http.StatusForbidden, "Forbidden",
			`pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true`},
	}
	a, ok := answers[err.Kind]
	if !ok {
		return false
	}
	h.between.fail(a)
	return true
}

func (h harness) LoseAnswer() bool {
	h.between.lose()
	return true
}

func (h harness) Sibling() cloud.Cloud {
	cfg := h.cfg
	cfg.Deployment, cfg.Graves = "another", nil
	return driver.New(cfg)
}

func (h harness) Settle(ctx context.Context) {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
	}
}

func (h harness) Left(ctx context.Context) (int, error) {
	pods, err := h.cluster.Pods(ctx, namespace)
	return len(pods), err
}

// Leftovers returns the remaining secrets.
func (h harness) Leftovers(context.Context) (found []string, err error) {
	for _, name := range h.left() {
		if strings.HasPrefix(name, "secret ") {
			found = append(found, name)
		}
	}
	return found, nil
}

func (h harness) Close() {}

func TestConformance(t *testing.T) {
	w := newWorld(t, large("a"))
	cloudtest.Run(t, func(_ context.Context, t *testing.T) (cloudtest.Harness, error) {
		b := &between{next: http.DefaultTransport}
		cfg := rest.CopyConfig(w.cluster.Config)
		cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
			b.next = next
			return b
		})
		client, err := driver.NewClient(cfg)
		if err != nil {
			return nil, err
		}
		own := *w
		own.T, own.cfg.Graves = t, nil
		own.cfg.Places = []driver.Place{{Name: "one", Client: client, Namespace: namespace}}
		own.driver = driver.New(own.cfg)
		return harness{&own, b}, nil
	})
	left := w.left()
	for range 600 { // a deleted pod exists until its node has ended it
		if len(left) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
		left = w.left()
	}
	t.Errorf("left: %v", left)
}

// A gang must be bound as a whole or not at all. Without room for all pods it is not started. If the scheduler cannot
// bind all of them, it is withdrawn.
func TestGangIsBoundWholeOrNotAtAll(t *testing.T) {
	w := newWorld(t, large("a"))
	ctx := t.Context()
	if _, err := w.driver.Launch(ctx, spec("first", 60)); err != nil {
		t.Fatal(err)
	}
	_, err := w.driver.Launch(ctx, spec("second", 8))
	if cloud.KindOf(err) != cloud.Capacity || !strings.Contains(err.Error(), "4 of 8 pods") {
		t.Errorf("a gang of 8 with room for 4: %v", err)
	}
	if made := cloud.Late(err); made != 0 {
		t.Errorf("%d of its pods were bound", made)
	}
	left, err := w.driver.Machines(ctx, "second")
	if err != nil || len(left) != 0 {
		t.Errorf("pods left: %v, %v", left, err)
	}
	if err := w.driver.Terminate(ctx, "first"); err != nil {
		t.Fatal(err)
	}
	w.await("room", func() bool {
		machines, err := w.driver.Launch(ctx, spec("third", 8))
		return err == nil && len(machines) == 8
	})
}

// The driver may not see other users' pods, so it does not know the free room. The error must then contain the
// scheduler's reason.
func TestSchedulerMessageIsReturned(t *testing.T) {
	w := newWorld(t, large("a"))
	o := spec("huge", 1)
	o.Offer.InstanceType = "m5.16xlarge_64x256"
	if _, err := w.driver.Launch(t.Context(), spec("small", 1)); err != nil {
		t.Fatal(err)
	}
	w.cfg.Places[0].Client = blind(t, w.cluster)
	w.cfg.Graves = nil
	other := w.cfg
	other.Deployment = "another"
	other.Places = []driver.Place{{Name: "one", Client: blind(t, w.cluster), Namespace: "default"}}
	_, err := driver.New(other).Launch(t.Context(), o)
	if cloud.KindOf(err) != cloud.Capacity || !strings.Contains(err.Error(), "Insufficient cpu") {
		t.Errorf("%v", err)
	}
	pods, err := w.cluster.Pods(t.Context(), "default")
	if err != nil || len(pods) > 0 {
		t.Errorf("left: %v, %v", pods, err)
	}
}

// blind returns a client that may not list the pods of other namespaces.
func blind(t *testing.T, c *kubetest.Cluster) driver.Client {
	t.Helper()
	cfg := rest.CopyConfig(c.Config)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return around(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodGet && r.URL.Path == "/api/v1/pods" {
				return answer{http.StatusForbidden, "Forbidden", "pods is forbidden"}.to(r), nil
			}
			return next.RoundTrip(r)
		})
	})
	client, err := driver.NewClient(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestMissingTaskImageIsInvalid(t *testing.T) {
	w := newWorld(t, large("a"))
	s := spec("a", 2)
	s.Container = "registry.example/none:1"
	_, err := w.driver.Launch(t.Context(), s)
	if cloud.KindOf(err) != cloud.Invalid || !strings.Contains(err.Error(), "registry.example/none:1") {
		t.Errorf("%v", err)
	}
	w.await("an empty namespace", func() bool { return len(w.left()) == 0 })
}

type around func(*http.Request) (*http.Response, error)

func (f around) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answer is a refusal in the API server's format.
type answer struct {
	code            int
	reason, message string
}

func (a answer) to(r *http.Request) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`,
		a.message, a.reason, a.code)
	return &http.Response{StatusCode: a.code, Request: r, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
}

// between is a proxy that can make the creation of the next pod fail.
type between struct {
	next http.RoundTripper

	mu    sync.Mutex
	fails *answer
	loses bool
}

func (b *between) fail(a answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fails = &a
}

func (b *between) lose() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loses = true
}

func (b *between) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pods") {
		return b.next.RoundTrip(r)
	}
	b.mu.Lock()
	fails, loses := b.fails, b.loses
	b.fails, b.loses = nil, false
	b.mu.Unlock()
	if fails != nil {
		return fails.to(r), nil
	}
	res, err := b.next.RoundTrip(r)
	if loses && err == nil {
		_ = res.Body.Close()
		return nil, io.ErrUnexpectedEOF
	}
	return res, err
}
