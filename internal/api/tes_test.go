package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/api/apitest"
	"github.com/tradewind-broker/tradewind/internal/tes"
)

const tesTask = `{"name":"sum-1","executors":[{"image":"ubuntu","command":["md5sum","/in"]}],
 "inputs":[{"path":"/in","content":"secret words"}],"tags":{"run":"a"}}`

// TestTESTask follows a task from its creation to its cancellation, in each view and with each filter.
func TestTESTask(t *testing.T) {
	w := apitest.New(t)
	ask := func(method, path, body string, out any) int {
		t.Helper()
		r := w.Request(method, "/ga4gh/tes/v1"+path, body)
		defer r.Body.Close() //nolint:errcheck // of a test
		if out != nil {
			if err := json.NewDecoder(r.Body).Decode(out); err != nil {
				t.Fatal(err)
			}
		}
		return r.StatusCode
	}
	var made struct{ ID string }
	if status := ask("POST", "/tasks", tesTask, &made); status != http.StatusOK || made.ID == "" {
		t.Fatalf("created: %d, %q", status, made.ID)
	}
	// a job that was not created by TES is not a TES task, even with such a name
	job := "apiVersion: tradewind/v1\nname: j\ntasks: {t: {run: x}}\n"
	if res := w.Request("POST", "/v1/dags?name=ga4gh:tes", job); res.StatusCode >= http.StatusMultipleChoices {
		t.Errorf("a job file named as tasks' source: %d", res.StatusCode)
	}
	w.Drain()
	var full, basic, minimal tes.Task
	ask("GET", "/tasks/"+made.ID+"?view=FULL", "", &full)
	ask("GET", "/tasks/"+made.ID+"?view=BASIC", "", &basic)
	ask("GET", "/tasks/"+made.ID, "", &minimal)
	if full.Inputs[0].Content != "secret words" || full.State != tes.Initializing || full.CreationTime == "" {
		t.Errorf("full: %+v", full)
	}
	if basic.Inputs[0].Content != "" || basic.Name != "sum-1" || minimal.Executors != nil || minimal.ID != made.ID {
		t.Errorf("basic: %+v, minimal: %+v", basic, minimal)
	}
	for query, want := range map[string]int{
		"": 1, "?view=BASIC": 1, "?name_prefix=sum": 1, "?name_prefix=x": 0, "?tag_key=run": 1, "?tag_key=run&tag_value=a": 1,
		"?tag_key=run&tag_value=b": 0, "?state=INITIALIZING": 1, "?state=COMPLETE": 0,
	} {
		var list struct{ Tasks []tes.Task }
		if ask("GET", "/tasks"+query, "", &list); len(list.Tasks) != want {
			t.Errorf("%s lists %d, not %d", query, len(list.Tasks), want)
		}
	}
	if status := ask("POST", "/tasks/"+made.ID+":cancel", "", nil); status != http.StatusOK {
		t.Errorf("cancelled: %d", status)
	}
	w.Drain()
	ask("GET", "/tasks/"+made.ID, "", &minimal)
	if minimal.State != tes.Canceled && minimal.State != tes.Canceling {
		t.Errorf("cancelled, it is %s", minimal.State)
	}
	for path, want := range map[string]int{"/service-info": 200, "/tasks/service-info": 200, "/tasks/none": 404} {
		if status := ask("GET", path, "", nil); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
	var former map[string]any
	if ask("GET", "/tasks/service-info", "", &former); len(former) != 3 || former["name"] != "Tradewind" {
		t.Errorf("to clients of version 1.0 the service is %v", former)
	}
	if status := ask("POST", "/tasks", `{"executors":[{"image":"a","command":[]}]}`, nil); status != 422 {
		t.Errorf("no command: %d", status)
	}
}

// TestTESInfeasibleTaskExplainsWhy: a task fails without an attempt. Its reason must be in the field that clients
// show.
func TestTESInfeasibleTaskExplainsWhy(t *testing.T) {
	w := apitest.New(t)
	var made struct{ ID string }
	r := w.Request("POST", "/ga4gh/tes/v1/tasks",
		`{"executors":[{"image":"ubuntu","command":["true"]}],"resources":{"backend_parameters":{"budget":"0.001"}}}`)
	defer r.Body.Close() //nolint:errcheck // of a test
	if err := json.NewDecoder(r.Body).Decode(&made); err != nil {
		t.Fatal(err)
	}
	w.Drain()
	var task tes.Task
	r = w.Request("GET", "/ga4gh/tes/v1/tasks/"+made.ID+"?view=FULL", "")
	defer r.Body.Close() //nolint:errcheck // of a test
	if err := json.NewDecoder(r.Body).Decode(&task); err != nil {
		t.Fatal(err)
	}
	if task.State != tes.SystemError || len(task.Logs) != 1 || len(task.Logs[0].SystemLogs) != 1 ||
		!strings.Contains(task.Logs[0].SystemLogs[0], "no plan costs less than") {
		t.Errorf("%s: %+v", task.State, task.Logs)
	}
}
