package host_test

import (
	"strings"
	"testing"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/host"
	"github.com/tradewind-broker/tradewind/internal/traces/tracestest"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/dag/read"
)

// traced submits a job, and returns its ID.
func traced(t *testing.T, h *host.Host, file string) string {
	t.Helper()
	spec, err := read.Job("job.yaml", strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	job, err := h.Broker().Users.Submit(t.Context(), broker.Submission{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	return job.ID
}

// TestJobIsTraced: a job, its tasks, its attempts and the handling of its events are spans of one trace. Each span
// must have the right parent.
func TestJobIsTraced(t *testing.T) {
	c := tracestest.New(t)
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
	if d.State != apitypes.JobFailed {
		t.Fatalf("%+v", d)
	}
	c.Await(t, "traced") // the handler of the last event sends the job's span, after the job is visible as finished
	stop()
	c.Lock()
	defer c.Unlock()
	if c.Service != "tradewind" || !c.Metrics["tradewind_events_total"] && !c.Metrics["tradewind_events"] {
		t.Errorf("service %q, metrics %v", c.Service, c.Metrics)
	}
	job := c.Named("traced")
	if len(job) != 1 || len(job[0].ParentSpanId) > 0 || job[0].Status.Code != tracev1.Status_STATUS_CODE_ERROR {
		t.Fatalf("the job's span is %v", job)
	}
	partOf := map[string]*tracev1.Span{}
	for _, s := range c.Spans {
		partOf[string(s.SpanId)] = s
		if string(s.TraceId) != string(job[0].TraceId) {
			t.Errorf("%s is in another trace", s.Name)
		}
		if s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("%s ends before it begins", s.Name)
		}
	}
	for _, task := range []string{"first", "second"} {
		spans := c.Named(task)
		if len(spans) != 1 || partOf[string(spans[0].ParentSpanId)] != job[0] {
			t.Fatalf("%s: %v", task, spans)
		}
		at := d.Attempts[0].Offer
		attempts := c.Named(task + " on " + at.Cloud + "/" + at.Region)
		if len(attempts) == 0 || partOf[string(attempts[0].ParentSpanId)] != spans[0] ||
			tracestest.Text(attempts[0].Attributes, "cloud.provider") != at.Cloud {
			t.Fatalf("attempts of %s: %v", task, attempts)
		}
		failed := attempts[0].Status.Code == tracev1.Status_STATUS_CODE_ERROR
		if failed != (task == "second") {
			t.Errorf("attempt of %s: %v", task, attempts[0].Status)
		}
	}
	for _, name := range []string{"optimize dag.submitted", "schedule task.ready", "provision task.admitted", "advance dag.planned"} {
		if spans := c.Named(name); len(spans) == 0 || partOf[string(spans[0].ParentSpanId)] == nil {
			t.Errorf("%q is missing, or part of nothing: %v", name, spans)
		}
	}
	for _, s := range c.Spans {
		if strings.Contains(s.String(), h.Token()) {
			t.Errorf("%s holds the user's token", s.Name)
		}
	}
}

// TestMissingCollector: the collector of traces does not exist. Jobs must run, and the broker must be able to end.
func TestMissingCollector(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
	h, stop := serve(t, host.Options{State: t.TempDir()})
	id := traced(t, h, "apiVersion: tradewind/v1\nname: alone\ntasks: {a: {run: \"true\"}}\n")
	if d := await(t, h.Broker(), id); d.State != apitypes.JobSucceeded {
		t.Fatalf("%+v", d)
	}
	stop()
}
