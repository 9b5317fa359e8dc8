package metrics_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.yaml.in/yaml/v3"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/metrics"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/bus"
)

// standing is a broker with one item of every kind.
type standing struct{ err error }

func (s standing) Queues(context.Context) ([]apitypes.Queue, error) {
	return []apitypes.Queue{{Name: "research", Running: 2, VCPU: 16, MaxVCPU: 64}, {Name: "other"}}, s.err
}

func (s standing) Waiting(_ context.Context, queue string, _ int) ([]apitypes.Waiting, error) {
	if queue == "research" {
		return make([]apitypes.Waiting, 3), nil
	}
	return nil, nil
}

func (s standing) Blocks(context.Context) ([]apitypes.Block, error) {
	return []apitypes.Block{{Cloud: "aws", Kind: "capacity"}, {Cloud: "aws", Kind: "capacity"}, {Cloud: "gcp", Kind: "quota"}}, nil
}

func (s standing) Pools(context.Context) ([]apitypes.PoolView, error) {
	return []apitypes.PoolView{{Name: "lab", Machines: make([]apitypes.MachineView, 2)}}, nil
}

// queues is a bus that stores nothing.
type queues struct {
	bus.Bus
	err error
}

func (q queues) Publish(context.Context, ...bus.Message) error { return q.err }

func (q queues) Depth(_ context.Context, fn string) (int, error) {
	if fn == events.FnOptimize {
		return 7, nil
	}
	return 0, nil
}

func (q queues) DeadLetters(context.Context, string, int) ([]bus.DeadLetter, error) {
	return []bus.DeadLetter{{Queue: events.FnOptimize}}, nil
}

func message(t *testing.T, data events.Data) bus.Message {
	t.Helper()
	body, err := events.New("id", "tradewind/test", time.Unix(0, 0).UTC(), data).MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return bus.Message{ID: "id", Type: data.Type(), Body: body}
}

func scrape(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func TestHandlerExportsCountersAndState(t *testing.T) {
	m := metrics.New("v1")
	b := m.Bus(queues{})
	for _, data := range []events.Data{
		events.DAGFinished{Job: "j", Outcome: "succeeded", Hours: 1}, events.DAGFinished{Job: "k", Outcome: "failed"},
		events.CapacityFreed{Queue: "research", USD: 1.5, Outcome: "preempted"}, events.CapacityFreed{Queue: "research", USD: 0.5},
		events.LocationBlocked{Cloud: "aws", Kind: "capacity"}, events.SpotInterrupted{Kind: "interruption"},
		events.TaskReady{Job: "j"},
	} {
		if err := b.Publish(t.Context(), message(t, data)); err != nil {
			t.Fatal(err)
		}
	}
	m.Handled(events.FnAdvance, 2*time.Millisecond, 1)
	got := scrape(t, m.Handler(standing{}, b, slog.New(slog.DiscardHandler)))
	for _, want := range []string{
		`tradewind_jobs_finished_total{outcome="failed"} 1`, `tradewind_jobs_finished_total{outcome="succeeded"} 1`,
		`tradewind_jobs_finished_total{outcome="cancelled"} 0`,
		`tradewind_spent_usd_total{queue="research"} 2`, `tradewind_spot_attempts_total{outcome="preempted"} 1`,
		`tradewind_refusals_total{cloud="aws",kind="capacity"} 1`, `tradewind_interruptions_total{kind="interruption"} 1`,
		`tradewind_events_total{type="task.ready"} 1`, `tradewind_function_duration_seconds_count{function="advance"} 1`,
		`tradewind_function_failures_total{function="advance"} 1`, `tradewind_build_info{version="v1"} 1`,
		`tradewind_queue_running_tasks{queue="research"} 2`, `tradewind_queue_vcpus{queue="research"} 16`,
		`tradewind_queue_max_vcpus{queue="research"} 64`, `tradewind_queue_waiting_tasks{queue="research"} 3`,
		`tradewind_blocked_locations{cloud="aws",kind="capacity"} 2`, `tradewind_blocked_locations{cloud="gcp",kind="quota"} 1`,
		`tradewind_function_queue_depth{function="optimize"} 7`, `tradewind_dead_letters{function="optimize"} 1`,
		`tradewind_pool_machines{pool="lab"} 2`, `tradewind_job_duration_seconds_count 2`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
	if strings.Contains(got, `tradewind_queue_max_vcpus{queue="other"}`) {
		t.Error("a queue without a limit exports one")
	}
	if problems, err := promlint.New(strings.NewReader(got)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// Some state cannot be read. Its metrics must be omitted, and all others exported.
func TestHandlerOmitsUnreadableState(t *testing.T) {
	m := metrics.New("v1")
	b := m.Bus(queues{err: errors.New("full")})
	if err := b.Publish(t.Context(), message(t, events.TaskReady{})); err == nil {
		t.Error("the bus' error is lost")
	}
	h := m.Handler(standing{err: errors.New("not now")}, b, slog.New(slog.DiscardHandler))
	scrape(t, h)
	got := scrape(t, h)
	if strings.Contains(got, "tradewind_queue_vcpus{") || !strings.Contains(got, "tradewind_pool_machines{") {
		t.Error(got)
	}
	if strings.Contains(got, `type="task.ready"`) || strings.Contains(got, "tradewind_scrape_failures_total 0\n") {
		t.Error(got)
	}
}

// The dashboard and the alerts may use only metrics that exist.
func TestDashboardAndAlertsUseExistingMetrics(t *testing.T) {
	m := metrics.New("v1")
	b := m.Bus(queues{})
	for _, data := range []events.Data{
		events.DAGFinished{}, events.CapacityFreed{Outcome: "held"}, events.LocationBlocked{}, events.SpotInterrupted{},
	} {
		if err := b.Publish(t.Context(), message(t, data)); err != nil {
			t.Fatal(err)
		}
	}
	m.Handled(events.FnAdvance, time.Millisecond, 0)
	got := scrape(t, m.Handler(standing{}, b, slog.New(slog.DiscardHandler)))
	for _, file := range []string{"grafana.json", "alerts.yaml"} {
		body, err := os.ReadFile(filepath.Join("..", "..", "deploy", "prometheus", file))
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`tradewind_[a-z_]+`).FindAllString(string(body), -1)
		if len(names) < 5 {
			t.Errorf("%s uses %v", file, names)
		}
		for _, name := range names {
			if !strings.Contains(got, "\n"+name+"{") && !strings.Contains(got, "\n"+name+" ") {
				t.Errorf("%s uses the missing metric %s", file, name)
			}
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Summary, Instructions string }
			}
		}
	}
	body, err := os.ReadFile("../../deploy/prometheus/alerts.yaml")
	if err := errors.Join(err, yaml.Unmarshal(body, &rules)); err != nil || len(rules.Groups) != 1 || len(rules.Groups[0].Rules) < 5 {
		t.Errorf("%+v, %v", rules, err)
	}
	page, err := os.ReadFile("../../docs/alarms.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules.Groups[0].Rules {
		_, section, _ := strings.Cut(rule.Annotations.Instructions, "docs/alarms.md#")
		heading := "\n## " + strings.ReplaceAll(section, "-", " ") + "\n"
		if section == "" || !strings.Contains(strings.ToLower(string(page)), heading) || !strings.Contains(string(page), "`"+rule.Alert+"`") {
			t.Errorf("docs/alarms.md has no instructions for %s: %q", rule.Alert, rule.Annotations.Instructions)
		}
	}
	var board struct{ Panels []struct{ Title string } }
	body, err = os.ReadFile("../../deploy/prometheus/grafana.json")
	if err := errors.Join(err, json.Unmarshal(body, &board)); err != nil || len(board.Panels) < 10 {
		t.Errorf("%+v, %v", board, err)
	}
}
