package api_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/api"
	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/broker/record"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

const trainFile = `apiVersion: tradewind/v1
name: train
objective: cost
deadline: 6h
tasks:
  train:
    run: python train.py
    resources: {accelerators: V100:1}
    time: 2h
  infer:
    after: [train]
    run: python infer.py
    time: 40m
`

const skypilotFile = `name: finetune
resources:
  accelerators: V100:1
run: python finetune.py
`

const daxFile = `<?xml version="1.0"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="diamond">
  <job id="ID1" name="pre" runtime="10"/>
  <job id="ID2" name="post" runtime="10"/>
  <child ref="ID2"><parent ref="ID1"/></child>
</adag>
`

const wfFile = `{"name":"wf","schemaVersion":"1.5","workflow":{
 "specification":{"tasks":[{"name":"a","id":"a","parents":[],"children":["b"]},{"name":"b","id":"b","parents":["a"],"children":[]}],"files":[]},
 "execution":{"makespanInSeconds":20,"executedAt":"2024-01-01T00:00:00Z","tasks":[{"id":"a","runtimeInSeconds":10},{"id":"b","runtimeInSeconds":10}],"machines":[]}}}
`

func TestSubmitAcceptsAllFormats(t *testing.T) {
	w := apitest.New(t)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	if _, err := z.Write([]byte(trainFile)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, contentType, file, wantName string
		tasks                             int
	}{
		{"train.yaml", "", trainFile, "train", 2},
		{"", "application/yaml", skypilotFile, "finetune", 1},
		{"", "application/xml", daxFile, "diamond", 2},
		{"", "application/json", wfFile, "wf", 2},
		{"train.yaml.gz", "application/gzip", zipped.String(), "train", 2},
		{"", "text/plain; charset=utf-8", trainFile, "train", 2},
	} {
		h := bearer(apitest.Token)
		h.Set("Content-Type", c.contentType)
		h.Set("Idempotency-Key", c.name+c.contentType)
		res := w.Do("POST", "/v1/dags?name="+c.name, c.file, h)
		v := answer[apitypes.Submitted](t, res, http.StatusCreated)
		if v.Name != c.wantName || v.Tasks != c.tasks || v.State != apitypes.JobPlanning {
			t.Errorf("%q %q: %+v", c.name, c.contentType, v.JobView)
		}
		if got := res.Header.Get("Location"); got != "/v1/jobs/"+v.ID {
			t.Errorf("Location %q of job %s", got, v.ID)
		}
		w.Drain()
		answer[apitypes.JobDetail](t, w.Request("GET", res.Header.Get("Location"), ""), http.StatusOK)
	}
}

func TestSubmitRecordedWorkflows(t *testing.T) {
	dir := filepath.FromSlash("../../../shared/data/workflows/dax")
	files, err := filepath.Glob(filepath.Join(dir, "*_25.xml*"))
	if err != nil || len(files) == 0 {
		t.Skipf("no recorded workflows in %s", dir)
	}
	w := apitest.New(t)
	for _, f := range files {
		data, err := os.ReadFile(f) //nolint:gosec // a file of the test's data
		if err != nil {
			t.Fatal(err)
		}
		v := answer[apitypes.Submitted](t, w.Request("POST", "/v1/dags?name="+filepath.Base(f), string(data)), http.StatusCreated)
		if v.Tasks < 20 {
			t.Errorf("%s has %d tasks", f, v.Tasks)
		}
	}
}

func TestSubmitIsIdempotentByKey(t *testing.T) {
	w := apitest.New(t)
	send := func(key string) string {
		h := bearer(apitest.Token)
		h.Set("Idempotency-Key", key)
		return answer[apitypes.Submitted](t, w.Do("POST", "/v1/dags", trainFile, h), http.StatusCreated).ID
	}
	first := send("k1")
	if again := send("k1"); again != first {
		t.Errorf("the same key made %s and %s", first, again)
	}
	if other := send("k2"); other == first {
		t.Error("a request with another key returned the same job")
	}
	if n := len(answer[apitypes.JobList](t, w.Request("GET", "/v1/jobs", ""), http.StatusOK).Jobs); n != 2 {
		t.Errorf("%d jobs", n)
	}
}

func TestInvalidFileReportsPositionAndStoresNothing(t *testing.T) {
	w := apitest.New(t)
	file := strings.Replace(trainFile, "run: python train.py", "rum: python train.py", 1)
	for _, path := range []string{"/v1/dags", "/v1/plans"} {
		p := trouble(t, w.Request("POST", path+"?name=dir/train.yaml", file), http.StatusUnprocessableEntity)
		if p.File != "dir/train.yaml" || p.Line != 7 || p.Column != 5 || p.Field != "tasks.train.rum" || p.Reason == "" || !strings.Contains(p.Hint, "run") {
			t.Errorf("%s: problem = %+v", path, p)
		}
		if !strings.Contains(p.Detail, "dir/train.yaml:7:5") {
			t.Errorf("detail %q does not say where", p.Detail)
		}
	}
	p := trouble(t, w.Request("POST", "/v1/dags?name=a%1b%5b31mb.yaml", "{"), http.StatusUnprocessableEntity)
	if strings.ContainsRune(p.Detail, 0x1b) {
		t.Errorf("the file's name can disturb a terminal: %q", p.Detail)
	}
	trouble(t, w.Request("POST", "/v1/dags", ""), http.StatusUnprocessableEntity)
	if n := len(answer[apitypes.JobList](t, w.Request("GET", "/v1/jobs", ""), http.StatusOK).Jobs); n != 0 {
		t.Errorf("%d jobs were stored", n)
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '#'
	}
	return len(p), nil
}

func TestRejectsTooLargeFile(t *testing.T) {
	w := apitest.New(t)
	req, err := http.NewRequestWithContext(t.Context(), "POST", w.Server.URL+"/v1/dags", endless{})
	if err != nil {
		t.Fatal(err)
	}
	req.Header = bearer(apitest.Token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // only read from
	trouble(t, res, http.StatusRequestEntityTooLarge)
	req, err = http.NewRequestWithContext(t.Context(), "POST", w.Server.URL+"/v1/dags", endless{})
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength, req.Header = 65<<20, bearer(apitest.Token)
	if res, err := http.DefaultClient.Do(req); err == nil { // the connection may break before the answer
		trouble(t, res, http.StatusRequestEntityTooLarge)
		_ = res.Body.Close()
	}
	trouble(t, w.Request("PUT", "/v1/queues/q", `{"description":"`+strings.Repeat("x", 2<<20)+`"}`), http.StatusRequestEntityTooLarge)
}

func TestListJobsNewestFirst(t *testing.T) {
	w := apitest.New(t)
	for _, name := range []string{"one", "two", "three"} {
		w.Submit(apitest.Wide(name, 1))
		w.Clock.Advance(time.Minute)
	}
	l := answer[apitypes.JobList](t, w.Request("GET", "/v1/jobs?limit=2", ""), http.StatusOK)
	if len(l.Jobs) != 2 || l.Jobs[0].Name != "three" || l.Jobs[1].Name != "two" || !l.Now.Equal(w.Clock.Now()) {
		t.Errorf("list = %+v", l)
	}
	for _, limit := range []string{"0", "1001", "-1", "many"} {
		trouble(t, w.Request("GET", "/v1/jobs?limit="+limit, ""), http.StatusUnprocessableEntity)
	}
}

func TestGetJob(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Training())
	w.Clock.Advance(time.Hour)
	d := answer[apitypes.JobDetail](t, w.Request("GET", "/v1/jobs/"+job, ""), http.StatusOK)
	if d.ID != job || len(d.TaskList) != 6 || len(d.Plans) != 1 || len(d.Attempts) != 2 || d.SpentUSD <= 0 {
		t.Errorf("detail = %+v", d)
	}
	if after := d.TaskList[2].After; len(after) != 2 {
		t.Errorf("train waits for %v", after)
	}
	for _, path := range []string{"/v1/jobs/none", "/v1/jobs/none/explain", "/v1/jobs/none/events", "/v1/jobs/none/tasks/t/logs"} {
		trouble(t, w.Request("GET", path, ""), http.StatusNotFound)
	}
}

func TestExplainJob(t *testing.T) {
	w := apitest.New(t)
	w.Cloud.Refuse("use2-az3")
	job := w.Submit(apitest.Training())
	s := answer[apitypes.Story](t, w.Request("GET", "/v1/jobs/"+job+"/explain", ""), http.StatusOK)
	var kinds []string
	for _, e := range s.Entries {
		kinds = append(kinds, e.Kind)
	}
	story := strings.Join(kinds, " ")
	for _, want := range []string{"submitted", "planned", "refused", "launched"} {
		if !strings.Contains(story, want) {
			t.Errorf("the story %q lacks %s", story, want)
		}
	}
	if len(s.Choices) == 0 {
		t.Error("no choice is explained")
	}
}

func TestCancelJob(t *testing.T) {
	w := apitest.New(t)
	for _, how := range [][2]string{{"POST", "/cancel?reason=wrong+data"}, {"DELETE", ""}} {
		job := w.Submit(apitest.Wide("cancel-"+strings.ToLower(how[0]), 2))
		answer[apitypes.JobView](t, w.Request(how[0], "/v1/jobs/"+job+how[1], ""), http.StatusAccepted)
		w.Drain()
		v := answer[apitypes.JobDetail](t, w.Request("GET", "/v1/jobs/"+job, ""), http.StatusOK)
		if v.State != apitypes.JobCancelled || v.Reason == "" {
			t.Errorf("%v left the job %s, %q", how, v.State, v.Reason)
		}
		trouble(t, w.Request(how[0], "/v1/jobs/"+job+how[1], ""), http.StatusConflict)
		trouble(t, w.Request(how[0], "/v1/jobs/none"+how[1], ""), http.StatusNotFound)
	}
}

func TestSuspendAndResumeJob(t *testing.T) {
	w := apitest.New(t)
	job := w.Submit(apitest.Wide("paused", 2))
	v := answer[apitypes.JobView](t, w.Request("POST", "/v1/jobs/"+job+"/suspend?by=ann&reason=lunch", ""), http.StatusAccepted)
	if v.State != apitypes.JobSuspending && v.State != apitypes.JobSuspended || v.Suspended.By != "ann" || v.Suspended.Reason != "lunch" || v.Suspended.Since.IsZero() {
		t.Errorf("the suspended job is %+v", v)
	}
	again := answer[apitypes.JobView](t, w.Request("POST", "/v1/jobs/"+job+"/suspend?by=bob", ""), http.StatusAccepted)
	if again.Suspended != v.Suspended {
		t.Errorf("a second suspension is recorded as %+v", again.Suspended)
	}
	w.Drain()
	for _, q := range answer[apitypes.QueueList](t, w.Request("GET", "/v1/queues", ""), http.StatusOK).Queues {
		if q.Running != 0 || q.VCPU != 0 {
			t.Errorf("queue %s has %d running tasks with %g vCPUs", q.Name, q.Running, q.VCPU)
		}
	}
	if v := answer[apitypes.JobDetail](t, w.Request("GET", "/v1/jobs/"+job, ""), http.StatusOK); v.State != apitypes.JobSuspended {
		t.Errorf("when no task runs any more, its state is %s", v.State)
	}
	v = answer[apitypes.JobView](t, w.Request("POST", "/v1/jobs/"+job+"/resume?by=bob", ""), http.StatusAccepted)
	if v.State != apitypes.JobRunning || v.Suspended.By != "" {
		t.Errorf("the resumed job is %+v", v)
	}
	trouble(t, w.Request("POST", "/v1/jobs/none/suspend", ""), http.StatusNotFound)
	answer[apitypes.JobView](t, w.Request("POST", "/v1/jobs/"+job+"/cancel", ""), http.StatusAccepted)
	w.Drain()
	trouble(t, w.Request("POST", "/v1/jobs/"+job+"/suspend", ""), http.StatusConflict)
	trouble(t, w.Request("POST", "/v1/jobs/"+job+"/resume", ""), http.StatusConflict)
}

func TestSuspendAndResumeQueue(t *testing.T) {
	w := apitest.New(t)
	trouble(t, w.Request("POST", "/v1/queues/none/suspend", ""), http.StatusNotFound)
	q := answer[apitypes.Queue](t, w.Request("POST", "/v1/queues/default/suspend?by=ann&reason=maintenance&drain=true", ""), http.StatusAccepted)
	if !q.Closed || q.Suspended.By != "ann" || !q.Suspended.Drain {
		t.Errorf("the suspended queue is %+v", q)
	}
	job := w.Submit(apitest.Wide("waits", 2))
	if s := answer[apitypes.Story](t, w.Request("GET", "/v1/jobs/"+job+"/explain", ""), http.StatusOK); !slices.ContainsFunc(s.Entries,
		func(e apitypes.Entry) bool { return e.Kind == "suspended" && strings.Contains(e.Text, "maintenance") }) {
		t.Errorf("the story does not mention the queue: %+v", s.Entries)
	}
	if q = answer[apitypes.Queue](t, w.Request("POST", "/v1/queues/default/resume", ""), http.StatusAccepted); q.Closed || q.Running != 0 {
		t.Errorf("the resumed queue is %+v", q)
	}
	w.Drain()
	if d := answer[apitypes.JobDetail](t, w.Request("GET", "/v1/jobs/"+job, ""), http.StatusOK); len(d.Attempts) == 0 {
		t.Error("the resumed queue admits nothing")
	}
}

func TestPlanWithoutSubmitting(t *testing.T) {
	w := apitest.New(t)
	v := answer[apitypes.PlanView](t, w.Request("POST", "/v1/plans?name=train.yaml&objective=makespan&deadline=9h&budget=12.5", trainFile), http.StatusOK)
	if v.Name != "train" || v.Objective != "makespan" || v.Status != "optimal" || v.DeadlineHours != 9 || len(v.Tasks) != 2 || v.USD <= 0 || v.OnDemandUSD <= v.USD {
		t.Errorf("plan = %+v", v)
	}
	if train, infer := v.Tasks[0], v.Tasks[1]; !strings.HasPrefix(train.Offer, "gcp/us-central1/") || len(train.Runners) == 0 ||
		len(infer.After) != 1 || infer.After[0] != 0 {
		t.Errorf("tasks = %+v", v.Tasks)
	}
	v = answer[apitypes.PlanView](t, w.Request("POST", "/v1/plans?budget=0.001", trainFile), http.StatusOK)
	if v.Status != record.PlanInfeasible || v.Message == "" || v.Tasks[0].Offer != "" {
		t.Errorf("an infeasible plan = %+v", v)
	}
	if n := len(answer[apitypes.JobList](t, w.Request("GET", "/v1/jobs", ""), http.StatusOK).Jobs); n != 0 {
		t.Errorf("planning stored %d jobs", n)
	}
	for _, q := range []string{"objective=speed", "deadline=soon", "deadline=-1h", "budget=-4", "budget=NaN", "deadline=1000000h"} {
		trouble(t, w.Request("POST", "/v1/plans?"+q, trainFile), http.StatusUnprocessableEntity)
	}
	without := apitest.New(t, func(c *api.Config) { c.Plan = nil })
	trouble(t, without.Request("POST", "/v1/plans", trainFile), http.StatusNotImplemented)
}
