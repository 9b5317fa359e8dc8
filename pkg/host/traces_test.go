package host_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
	"github.com/tradewind-broker/tradewind/pkg/host"
)

// collector takes traces and metrics by OTLP over HTTP.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []*tracev1.Span
	service string
	metrics map[string]bool
}

func newCollector(t *testing.T) *collector {
	c := &collector{metrics: map[string]bool{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("%s: %v", r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		switch r.URL.Path {
		case "/v1/traces":
			var in collectortrace.ExportTraceServiceRequest
			if err := proto.Unmarshal(body, &in); err != nil {
				t.Error(err)
			}
			for _, rs := range in.ResourceSpans {
				c.service = text(rs.Resource.Attributes, "service.name")
				for _, ss := range rs.ScopeSpans {
					c.spans = append(c.spans, ss.Spans...)
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
						c.metrics[m.Name] = true
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

func text(all []*v1.KeyValue, name string) string {
	for _, a := range all {
		if a.Key == name {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// named are the spans of a name, and of which span each is part.
func (c *collector) named(name string) (found []*tracev1.Span) {
	for _, s := range c.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// await waits until a span of a name has come.
func (c *collector) await(t *testing.T, name string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		there := len(c.named(name)) > 0
		c.mu.Unlock()
		if there {
			return
		}
	}
	t.Fatalf("no span named %q has come", name)
}

// traced hands a job in.
func traced(t *testing.T, h *host.Host, file string) string {
	t.Helper()
	spec, err := read.Job("job.yaml", strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	job, err := h.Broker().Submit(t.Context(), broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return job.ID
}

// TestAJobIsATrace: its tasks, attempts and the events handled for it are spans of one trace, each part of what it is of.
func TestAJobIsATrace(t *testing.T) {
	c := newCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", c.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20") // milliseconds
	h, stop := serve(t, host.Options{State: t.TempDir()})
	const file = `apiVersion: tradewind/v1
name: traced
tasks:
  first: {run: "true"}
  second: {run: "exit 3", after: [first]}
`
	d := await(t, h.Broker(), traced(t, h, file))
	if d.State != record.JobFailed {
		t.Fatalf("%+v", d)
	}
	c.await(t, "traced") // it is told by the event of the job's end, which is handled after the job is seen to have ended
	stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.service != "tradewind" || !c.metrics["tradewind_events_total"] && !c.metrics["tradewind_events"] {
		t.Errorf("service %q, metrics %v", c.service, c.metrics)
	}
	job := c.named("traced")
	if len(job) != 1 || len(job[0].ParentSpanId) > 0 || job[0].Status.Code != tracev1.Status_STATUS_CODE_ERROR {
		t.Fatalf("the job's span is %v", job)
	}
	partOf := map[string]*tracev1.Span{}
	for _, s := range c.spans {
		partOf[string(s.SpanId)] = s
		if string(s.TraceId) != string(job[0].TraceId) {
			t.Errorf("%s is in another trace", s.Name)
		}
		if s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%s ends before it begins", s.Name)
		}
	}
	for _, task := range []string{"first", "second"} {
		spans := c.named(task)
		if len(spans) != 1 || partOf[string(spans[0].ParentSpanId)] != job[0] {
			t.Fatalf("%s: %v", task, spans)
		}
		at := d.Attempts[0].Offer
		attempts := c.named(task + " on " + at.Cloud + "/" + at.Region)
		if len(attempts) == 0 || partOf[string(attempts[0].ParentSpanId)] != spans[0] ||
			text(attempts[0].Attributes, "cloud.provider") != at.Cloud {
			t.Fatalf("attempts of %s: %v", task, attempts)
		}
		failed := attempts[0].Status.Code == tracev1.Status_STATUS_CODE_ERROR
		if failed != (task == "second") {
			t.Errorf("attempt of %s: %v", task, attempts[0].Status)
		}
	}
	for _, name := range []string{"optimize dag.submitted", "schedule task.ready", "provision task.admitted", "advance dag.planned"} {
		if spans := c.named(name); len(spans) == 0 || partOf[string(spans[0].ParentSpanId)] == nil {
			t.Errorf("%q is missing, or part of nothing: %v", name, spans)
		}
	}
	for _, s := range c.spans {
		if strings.Contains(s.String(), h.Token()) {
			t.Errorf("%s holds the user's token", s.Name)
		}
	}
}

// TestACollectorThatIsNotThere harms no job, and does not keep the broker from ending.
func TestACollectorThatIsNotThere(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	h, stop := serve(t, host.Options{State: t.TempDir()})
	id := traced(t, h, "apiVersion: tradewind/v1\nname: alone\ntasks: {a: {run: \"true\"}}\n")
	if d := await(t, h.Broker(), id); d.State != record.JobSucceeded {
		t.Fatalf("%+v", d)
	}
	stop()
}
