// Package tracestest has an OpenTelemetry collector for tests.
package tracestest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Collector receives traces and metrics by OTLP over HTTP.
type Collector struct {
	*httptest.Server
	sync.Mutex // guards the fields below
	Spans      []*tracev1.Span
	Service    string
	Metrics    map[string]bool // the names of the metrics received
	Headers    http.Header     // of the last request
}

// New starts a collector. It stops at the end of the test.
func New(t *testing.T) *Collector {
	c := &Collector{Metrics: map[string]bool{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s: %v", r.URL, err)
		}
		c.Lock()
		defer c.Unlock()
		c.Headers = r.Header.Clone()
		switch r.URL.Path {
		case "/v1/traces":
			var in collectortrace.ExportTraceServiceRequest
			if err := proto.Unmarshal(body, &in); err != nil {
				t.Error(err)
			}
			for _, rs := range in.ResourceSpans {
				c.Service = Text(rs.Resource.Attributes, "service.name")
				for _, ss := range rs.ScopeSpans {
					c.Spans = append(c.Spans, ss.Spans...)
				}
			}
		case "/v1/metrics":
			var in collectormetrics.ExportMetricsServiceRequest
			if err := proto.Unmarshal(body, &in); err != nil {
				t.Error(err)
			}
			for _, rm := range in.ResourceMetrics {
				for _, sm := range rm.ScopeMetrics {
					for _, m := range sm.Metrics {
						c.Metrics[m.Name] = true
					}
				}
			}
		default:
			t.Errorf("a request for %s", r.URL)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(c.Close)
	return c
}

// Text returns the value of an attribute, or "" if it is missing.
func Text(all []*v1.KeyValue, name string) string {
	for _, a := range all {
		if a.Key == name {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// Named returns the received spans with that name. The caller holds the lock.
func (c *Collector) Named(name string) (found []*tracev1.Span) {
	for _, s := range c.Spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// Await waits until the collector has received a span with that name.
func (c *Collector) Await(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		c.Lock()
		there := len(c.Named(name)) > 0
		c.Unlock()
		if there {
			return
		}
	}
	t.Fatalf("the collector received no span named %q", name)
}
