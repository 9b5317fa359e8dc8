package kubejobs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/kubeapi"
	"github.com/tradewind-broker/tradewind/internal/kubejobs"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// cluster simulates the objects of a namespace by path, as far as the controller uses them. A merge changes fields.
// An object that is being deleted disappears with its last finalizer. A test can make the next call on a path fail.
type cluster struct {
	t       *testing.T
	objects map[string]kubeapi.Object
	events  []string
	fail    map[string]error // error of the next call, by method and a part of the path
}

const jobs = "/apis/tradewind.dev/v1/namespaces/batch/tradewindjobs"

func (c *cluster) failing(method, path string) error {
	for key, err := range c.fail {
		m, piece, _ := strings.Cut(key, " ")
		if m == method && strings.Contains(path, piece) {
			delete(c.fail, key)
			return err
		}
	}
	return nil
}

func (c *cluster) Get(_ context.Context, path string) (kubeapi.Object, error) {
	if err := c.failing("get", path); err != nil {
		return nil, err
	}
	if path != jobs {
		c.t.Fatalf("get %s", path)
	}
	var items []any
	for _, o := range c.objects {
		items = append(items, map[string]any(o))
	}
	return kubeapi.Object{"items": items}, nil
}

func (c *cluster) Create(_ context.Context, path string, o kubeapi.Object) (kubeapi.Object, error) {
	if err := c.failing("create", path); err != nil {
		return nil, err
	}
	c.events = append(c.events, o.Text("type")+" "+o.Text("reason")+": "+o.Text("message"))
	return o, nil
}

func (c *cluster) Apply(_ context.Context, path string, o kubeapi.Object, _ bool) (kubeapi.Object, error) {
	c.objects[path] = o
	return o, nil
}

func (c *cluster) Merge(_ context.Context, path string, change kubeapi.Object) (kubeapi.Object, error) {
	if err := c.failing("merge", path); err != nil {
		return nil, err
	}
	o, ok := c.objects[strings.TrimSuffix(path, "/status")]
	if !ok {
		return nil, &kubeapi.Error{Code: http.StatusNotFound}
	}
	merge(o, change)
	if left, _ := o.At("metadata", "finalizers").([]any); len(left) == 0 && o.At("metadata", "deletionTimestamp") != nil {
		delete(c.objects, path)
	}
	return o, nil
}

func merge(into, change map[string]any) {
	for k, v := range change {
		if m, ok := v.(map[string]any); ok {
			below, _ := into[k].(map[string]any)
			if below == nil {
				below = map[string]any{}
			}
			merge(below, m)
			v = below
		}
		into[k] = v
	}
}

// broker has jobs, keyed by the key of their submission.
type broker struct {
	byKey map[string]*apitypes.JobView
	calls []string
	fail  error // error of the next call, which takes effect nevertheless
}

func (b *broker) failing() (err error) { err, b.fail = b.fail, nil; return err }

func (b *broker) Submit(_ context.Context, name, key string, file []byte, _ map[string]string) (*apitypes.Submitted, error) {
	if strings.Contains(string(file), "nonsense") {
		return nil, &apitypes.Problem{Status: http.StatusUnprocessableEntity, Detail: name + ": nonsense"}
	}
	j := b.byKey[key]
	if j == nil {
		j = &apitypes.JobView{ID: fmt.Sprintf("j%d", len(b.byKey)), State: apitypes.JobPlanning, Tasks: 2}
		b.byKey[key] = j
		b.calls = append(b.calls, "submit "+name)
	}
	if err := b.failing(); err != nil {
		return nil, err
	}
	return &apitypes.Submitted{JobView: *j}, nil
}

func (b *broker) find(id string) *apitypes.JobView {
	for _, j := range b.byKey {
		if j.ID == id {
			return j
		}
	}
	return nil
}

func (b *broker) Job(_ context.Context, id string) (*apitypes.JobDetail, error) {
	return &apitypes.JobDetail{JobView: *b.find(id)}, b.failing()
}

func (b *broker) Cancel(_ context.Context, id, reason string) (*apitypes.JobView, error) {
	if err := b.failing(); err != nil {
		return nil, err
	}
	j := b.find(id)
	j.State = apitypes.JobCancelled
	b.calls = append(b.calls, "cancel "+id+": "+reason)
	return j, nil
}

type world struct {
	*kubejobs.Controller
	cluster *cluster
	broker  *broker
}

func newWorld(t *testing.T, specs map[string]map[string]any) *world {
	t.Helper()
	w := &world{
		cluster: &cluster{t: t, objects: map[string]kubeapi.Object{}, fail: map[string]error{}},
		broker:  &broker{byKey: map[string]*apitypes.JobView{}},
	}
	for name, spec := range specs {
		w.cluster.objects[jobs+"/"+name] = kubeapi.Object{
			"metadata": map[string]any{"name": name, "namespace": "batch", "uid": "uid-" + name}, "spec": spec,
		}
	}
	w.Controller = &kubejobs.Controller{
		Cluster: w.cluster, Broker: w.broker, Namespace: "batch", Log: slog.New(slog.DiscardHandler), Every: time.Second,
	}
	return w
}

func (w *world) object(name string) kubeapi.Object { return w.cluster.objects[jobs+"/"+name] }

func (w *world) look(t *testing.T) {
	t.Helper()
	if err := w.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
}

var count = map[string]any{"dag": map[string]any{"tasks": map[string]any{"a": map[string]any{"run": "echo"}}}}

func TestObjectRunsAsJob(t *testing.T) {
	w := newWorld(t, map[string]map[string]any{"count": count})
	w.look(t)
	if o := w.object("count"); o.Text("status", "phase") != "planning" || o.Text("status", "job") != "j0" ||
		o.Text("status", "tasks") != "0/2" {
		t.Fatalf("%v", o["status"])
	}
	j := w.broker.find("j0")
	j.State, j.Succeeded, j.SpentUSD, j.Deadline = apitypes.JobRunning, 1, 0.25, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w.look(t)
	if o := w.object("count"); o.Text("status", "tasks") != "1/2" || o.Text("status", "costUSD") != "0.2500" ||
		o.Text("status", "deadline") != "2026-01-02T03:04:05Z" {
		t.Errorf("%v", o["status"])
	}
	j.State, j.Reason = apitypes.JobFailed, "task a: exit code 1"
	w.look(t)
	w.look(t)
	want := []string{"Normal planning: the job is planning", "Normal running: the job is running",
		"Warning failed: task a: exit code 1"}
	if !slices.Equal(w.cluster.events, want) {
		t.Errorf("events %q", w.cluster.events)
	}
	if !slices.Equal(w.broker.calls, []string{"submit count.yaml"}) {
		t.Errorf("calls %q", w.broker.calls)
	}
}

func TestInvalidJobsAreRefused(t *testing.T) {
	w := newWorld(t, map[string]map[string]any{"bad": {"text": "nonsense"}, "empty": {}, "count": count})
	w.look(t)
	if o := w.object("bad"); o.Text("status", "phase") != "refused" || !strings.Contains(o.Text("status", "message"), "nonsense") {
		t.Errorf("%v", o["status"])
	}
	if o := w.object("empty"); o.Text("status", "message") != "spec has neither dag nor text" {
		t.Errorf("%v", o["status"])
	}
	if o := w.object("count"); o.Text("status", "job") == "" {
		t.Errorf("%v", o["status"])
	}
}

func TestDeletionCancelsJob(t *testing.T) {
	w := newWorld(t, map[string]map[string]any{"count": count})
	w.look(t)
	w.object("count")["metadata"].(map[string]any)["deletionTimestamp"] = "now" //nolint:forcetypeassert // as made above
	w.broker.fail = errors.New("the broker is unavailable")
	if err := w.Sync(t.Context()); err == nil || w.object("count") == nil {
		t.Fatalf("the object was removed although its job was not cancelled: %v", err)
	}
	w.look(t)
	if w.object("count") != nil || w.broker.find("j0").State != apitypes.JobCancelled {
		t.Errorf("%v, job %v", w.object("count"), w.broker.find("j0").State)
	}
}

// A call fails or loses its response. In the end the object must have exactly one job, and deleting the object must
// cancel the job.
func TestFailedCallsDoNotDuplicateJob(t *testing.T) {
	for _, failing := range []string{"get tradewindjobs", "merge /count", "merge /status", "create events", "broker"} {
		w := newWorld(t, map[string]map[string]any{"count": count})
		if failing == "broker" {
			w.broker.fail = errors.New("the response is lost")
		} else {
			w.cluster.fail[failing] = errors.New("the API server is unavailable")
		}
		_ = w.Sync(t.Context())
		o := w.object("count")
		if failing == "broker" || failing == "merge /status" { // the object was deleted before the job's ID was stored
			o["metadata"].(map[string]any)["deletionTimestamp"] = "now" //nolint:forcetypeassert // as made above
			w.look(t)
			if j := w.broker.find("j0"); w.object("count") != nil || j.State != apitypes.JobCancelled {
				t.Errorf("%s: %v, job %v", failing, w.object("count"), j)
			}
			continue
		}
		w.look(t)
		if len(w.broker.byKey) != 1 || w.object("count").Text("status", "job") != "j0" {
			t.Errorf("%s: %d jobs, %v", failing, len(w.broker.byKey), w.object("count")["status"])
		}
	}
}
