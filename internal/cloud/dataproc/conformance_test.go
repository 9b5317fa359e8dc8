package dataproc_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/option"

	"github.com/tradewind-broker/tradewind/internal/cloud/dataproc"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/internal/emulator/sparkjob"
	"github.com/tradewind-broker/tradewind/internal/grant/servers"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service/servicetest"
)

const region = "us-central1"

// world is an emulated project and the drivers for it.
type world struct {
	*gce.Cloud
	url string
}

func newWorld(t *testing.T, storage string, run sparkjob.Runner) *world {
	t.Helper()
	emulator, err := gce.New(gce.Config{Run: run})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(emulator.Close)
	emulator.KeepBuckets(storage)
	server := httptest.NewServer(emulator)
	t.Cleanup(server.Close)
	t.Cleanup(func() {
		for _, f := range emulator.Faults() {
			t.Errorf("Google's description: %s", f)
		}
	})
	return &world{emulator, server.URL}
}

func (w *world) config(deployment string) dataproc.Config {
	return dataproc.Config{
		Deployment: deployment, Project: "demo", Regions: []string{region, "europe-west4"}, Endpoint: w.url,
		Client: []option.ClientOption{option.WithoutAuthentication()},
	}
}

func (w *world) clusters(deployment string) service.Service {
	return dataproc.NewClusters(w.config(deployment))
}
func (w *world) batches(deployment string) service.Service {
	return dataproc.NewBatches(w.config(deployment))
}

// bucket creates the bucket for code and logs.
func bucket(t *testing.T, storage string) string {
	t.Helper()
	resp, err := http.Post(storage+"/storage/v1/b", "application/json", strings.NewReader(`{"name":"spark-logs"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return "spark-logs"
}

// suiteApp runs the suite's applications by the name of their main file.
func suiteApp(ctx context.Context, args []string) sparkjob.Result {
	all := strings.Join(args, " ")
	switch {
	case strings.Contains(all, "/"+string(servicetest.Fails)+".py"):
		return sparkjob.Result{Stderr: []byte(servicetest.Trouble), Err: errors.New("exit status 1")}
	case strings.Contains(all, "/"+string(servicetest.Waits)+".py"):
		<-ctx.Done()
		return sparkjob.Result{Err: ctx.Err()}
	}
	return sparkjob.Result{Stdout: []byte(servicetest.Hello)}
}

// harness is one of the two services.
type harness struct {
	*world
	bucket  string
	driver  func(deployment string) service.Service
	mine    service.Service
	batches bool
}

func (h harness) Service() service.Service   { return h.mine }
func (h harness) Restarted() service.Service { return h.driver("mine") }
func (h harness) Sibling() service.Service   { return h.driver("another") }

func (h harness) Spec(name string) service.Spec {
	return service.Spec{
		Name: name, Region: region, Release: "2.2", InstanceType: "n2-standard-4", Logs: "gs://" + h.bucket + "/logs/",
		Executors: service.Executors{Min: 1, Max: 3}, Idle: 10 * time.Minute, Life: time.Hour,
		Labels: map[string]string{"job": "j-1"},
	}
}

func (h harness) App(name string, kind servicetest.Kind) service.App {
	return service.App{Name: name, Main: "gs://" + h.bucket + "/code/" + string(kind) + ".py",
		Executors: service.Executors{Min: 1, Max: 3}, Limit: time.Hour, Labels: map[string]string{"task": "t"}}
}

func (h harness) method(call servicetest.Call) string {
	if h.batches {
		return map[servicetest.Call]string{
			servicetest.Submit: "dataproc.projects.locations.batches.create", servicetest.End: "dataproc.projects.locations.batches.delete",
		}[call]
	}
	return map[servicetest.Call]string{
		servicetest.Create: "dataproc.projects.regions.clusters.create", servicetest.Submit: "dataproc.projects.regions.jobs.submit",
		servicetest.End: "dataproc.projects.regions.clusters.delete",
	}[call]
}

func (h harness) Fail(call servicetest.Call, err *cloud.Error) bool {
	method := h.method(call)
	f, ok := map[cloud.Kind]gce.Fault{
		cloud.Quota:     {Code: http.StatusBadRequest, Reason: "badRequest", Status: "INVALID_ARGUMENT", Message: "Multiple validation errors:\n - Insufficient 'CPUS' quota. Requested 12.0, available 8.0."},
		cloud.Auth:      {Code: http.StatusForbidden, Reason: "forbidden", Status: "PERMISSION_DENIED", Message: err.Message},
		cloud.Throttled: {Code: http.StatusTooManyRequests, Reason: "rateLimitExceeded", Message: err.Message, RetryAfter: err.RetryAfter},
		cloud.Transient: {Code: http.StatusInternalServerError, Reason: "internalError", Message: err.Message},
		cloud.Invalid:   {Code: http.StatusBadRequest, Reason: "badRequest", Status: "INVALID_ARGUMENT", Message: err.Message},
	}[err.Kind]
	if !ok || method == "" {
		return false
	}
	h.Refuse(method, f)
	return true
}

func (h harness) FailLate(err *cloud.Error) bool {
	if h.batches {
		return false
	}
	detail := "The zone 'projects/demo/zones/us-central1-a' does not have enough resources available to fulfill the request."
	if err.Kind == cloud.Quota {
		detail = "Insufficient 'CPUS' quota. Requested 12.0, available 8.0."
	}
	h.FailCluster(detail)
	return true
}

func (h harness) LoseAnswer(call servicetest.Call) {
	if m := h.method(call); m != "" {
		h.Lose(m)
	}
}

func (h harness) Kill(place string) bool {
	h.KillCluster(service.Prefix("mine")+place, "The primary VM of the cluster was deleted.")
	return !h.batches
}

func (h harness) Settle(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Millisecond):
	}
}

func (h harness) Left(context.Context) (int, error) {
	_, clusters, batches, _ := h.Spark()
	return clusters + batches, nil
}

func (h harness) Made() int {
	made, _, _, _ := h.Spark()
	return made
}

func (h harness) Runs() int {
	_, _, _, runs := h.Spark()
	return runs
}

func (h harness) Close() {}

func newHarness(t *testing.T, storage, bucket string, batches bool) harness {
	t.Helper()
	w := newWorld(t, storage, suiteApp)
	h := harness{world: w, bucket: bucket, driver: w.clusters, batches: batches}
	if batches {
		h.driver = w.batches
	}
	h.mine = h.driver("mine")
	return h
}

func TestConformance(t *testing.T) {
	storage := servers.FakeGCS(t)
	in := bucket(t, storage)
	for name, batches := range map[string]bool{"Clusters": false, "Batches": true} {
		t.Run(name, func(t *testing.T) {
			servicetest.Run(t, func(_ context.Context, t *testing.T) (servicetest.Harness, error) {
				return newHarness(t, storage, in, batches), nil
			})
		})
	}
}
