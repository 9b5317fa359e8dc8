package gce_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
)

// project sends raw requests to an emulator, including those that no valid client would send.
type project struct {
	*testing.T
	gce *gce.Cloud
	url string
	now time.Time
}

func newProject(t *testing.T) *project {
	p := &project{T: t, now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)}
	var err error
	p.gce, err = gce.New(gce.Config{Now: func() time.Time { return p.now }, Price: func(b gce.Bill) float64 {
		if b.Spot {
			return 1
		}
		return 3
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(p.gce)
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

func (p *project) ask(method, path, body string) (int, map[string]any) {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(text, &out); err != nil {
		p.Fatalf("%s: %v", text, err)
	}
	return res.StatusCode, out
}

const zone = "/compute/v1/projects/demo/zones/us-central1-a/"

// bulk returns the body of a request for the machines m-0 and m-1.
func bulk(machineType, scheduling string) string {
	return `{"count":"2","minCount":"2","perInstanceProperties":{"m-0":{},"m-1":{}},
"instanceProperties":{"machineType":"` + machineType + `","scheduling":{` + scheduling + `},
"labels":{"who":"me"},"networkInterfaces":[{"network":"global/networks/default"}],
"disks":[{"boot":true,"autoDelete":true,"initializeParams":{"sourceImage":"x","diskSizeGb":"30","diskType":"pd-balanced"}}]}}`
}

func TestUndescribedRequestsAreRejected(t *testing.T) {
	for name, ask := range map[string]struct{ method, path, body, want string }{
		"a method":           {"PATCH", zone + "instances/m-0", "", "no method"},
		"a path":             {"GET", zone + "instancess", "", "no method"},
		"a parameter":        {"GET", zone + "instances?filters=x", "", "no parameter filters"},
		"a parameter's type": {"GET", zone + "instances?maxResults=many", "", "maxResults"},
		"a field":            {"POST", zone + "instances/bulkInsert", `{"counts":"2"}`, "no field counts"},
		"a field below": {"POST", zone + "instances/bulkInsert", `{"instanceProperties":{"disks":[{"boott":true}]}}`,
			"disks[0] has no field boott"},
		"a word": {"POST", zone + "instances/bulkInsert",
			`{"instanceProperties":{"scheduling":{"provisioningModel":"CHEAP"}}}`, `"CHEAP" is not one of`},
		"a type":       {"POST", zone + "instances/bulkInsert", `{"instanceProperties":[]}`, "is a list"},
		"a number":     {"POST", zone + "instances/bulkInsert", `{"count":"two"}`, "is not a number"},
		"no JSON":      {"POST", zone + "instances/bulkInsert", `{`, "request"},
		"a body":       {"GET", zone + "instances", `{}`, "has no request"},
		"another's":    {"POST", "/v3/projects/demo:testIamPermission", "", "no method"},
		"a named type": {"POST", "/v2/projects/demo/locations/us-central1-a/queuedResources", `{"tpu":{"nodeSpecs":[]}}`, "no field nodeSpecs"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProject(t)
			code, out := p.ask(ask.method, ask.path, ask.body)
			text, _ := json.Marshal(out)
			if faults := p.gce.Faults(); code != http.StatusBadRequest || len(faults) != 1 || !strings.Contains(faults[0], ask.want) {
				t.Errorf("%d %s; faults %q", code, text, faults)
			}
		})
	}
}

func TestRequestIDIsIdempotent(t *testing.T) {
	p := newProject(t)
	path := zone + "instances/bulkInsert?requestId=6f1f5a3c-0d5e-5c39-8f0a-1f1f1f1f1f1f"
	_, first := p.ask("POST", path, bulk("e2-standard-2", ""))
	_, second := p.ask("POST", path, bulk("e2-standard-2", ""))
	if first["name"] == nil || first["name"] != second["name"] || len(p.gce.Machines()) != 2 {
		t.Errorf("%v, then %v", first["name"], second["name"])
	}
	if code, out := p.ask("POST", zone+"instances/bulkInsert", bulk("e2-standard-2", "")); code != http.StatusConflict {
		t.Errorf("existing names: %d %v", code, out)
	}
}

func TestListsSupportFilterAndFields(t *testing.T) {
	p := newProject(t)
	_, op := p.ask("POST", zone+"instances/bulkInsert", bulk("e2-standard-2", ""))
	p.ask("POST", zone+"operations/"+op["name"].(string)+"/wait", "")
	_, out := p.ask("GET", zone+`instances?filter=labels.who="me"&fields=items(name,status)`, "")
	text, _ := json.Marshal(out)
	if string(text) != `{"items":[{"name":"m-0","status":"RUNNING"},{"name":"m-1","status":"RUNNING"}]}` {
		t.Errorf("%s", text)
	}
	if _, out := p.ask("GET", zone+`instances?filter=(labels.who!="me")+AND+(name="m-0")`, ""); out["items"] != nil {
		t.Errorf("%v", out)
	}
	_, page := p.ask("GET", "/compute/v1/projects/demo/aggregated/instances?maxResults=1&fields=nextPageToken,items/*/instances/name", "")
	text, _ = json.Marshal(page)
	if page["nextPageToken"] == nil || strings.Count(string(text), "m-") != 1 || strings.Contains(string(text), "status") {
		t.Errorf("%s", text)
	}
	if code, _ := p.ask("GET", zone+`instances?filter=labels.who`, ""); code != http.StatusBadRequest {
		t.Errorf("a filter without a comparison: %d", code)
	}
}

func TestMachinesArePreemptedAndBilled(t *testing.T) {
	p := newProject(t)
	_, op := p.ask("POST", zone+"instances/bulkInsert", bulk("n1-standard-4", `"provisioningModel":"SPOT","instanceTerminationAction":"DELETE"`))
	p.ask("POST", zone+"operations/"+op["name"].(string)+"/wait", "")
	bills := p.gce.Bills()
	p.now = p.now.Add(30 * time.Minute)
	if !p.gce.Preempt(bills[0].ID) || !p.gce.FinishPreemption(bills[0].ID) || p.gce.FinishPreemption("7") {
		t.Error("taken: ", p.gce.Machines())
	}
	p.now = p.now.Add(30 * time.Minute)
	bills = p.gce.Bills()
	if len(p.gce.Machines()) != 1 || bills[0].USD != 0.5 || bills[1].USD != 1 || !bills[1].Until.IsZero() || bills[0].DiskGiB != 30 {
		t.Errorf("%+v", bills)
	}
	if left := p.gce.Leftovers(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestDryZoneFailsAtOnceOrLate(t *testing.T) {
	p := newProject(t)
	p.gce.SetOutOfStock("us-central1-a", true, true)
	if code, _ := p.ask("POST", zone+"instances/bulkInsert", bulk("e2-standard-2", "")); code != http.StatusServiceUnavailable {
		t.Errorf("at once: %d", code)
	}
	p.gce.SetOutOfStock("us-central1-a", true, false)
	_, op := p.ask("POST", zone+"instances/bulkInsert", bulk("e2-standard-2", ""))
	_, done := p.ask("POST", zone+"operations/"+op["name"].(string)+"/wait", "")
	if done["error"] == nil || len(p.gce.Machines()) != 0 {
		t.Errorf("late: %v, left %v", done, p.gce.Machines())
	}
	_, group := p.ask("GET", zone+`operations?pageToken=0&filter=operationGroupId="`+op["operationGroupId"].(string)+`"`, "")
	if text, _ := json.Marshal(group); !strings.Contains(string(text), "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS") {
		t.Errorf("why: %s", text)
	}
}

func TestDescriptionsHavePinnedVersion(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "../../../scripts/discovery.sh", "--check").CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// A request sets a field that only responses may have. It must be rejected. (In the description of the Compute Engine
// API v1, BulkInsertInstanceResourcePerInstanceProperties.name is readOnly.)
func TestRequestWithOutputOnlyFieldIsRejected(t *testing.T) {
	p := newProject(t)
	body := strings.Replace(bulk("e2-standard-2", ""), `"m-0":{}`, `"m-0":{"name":"m-0"}`, 1)
	code, _ := p.ask("POST", zone+"instances/bulkInsert", body)
	if faults := p.gce.Faults(); code != http.StatusBadRequest || len(faults) != 1 ||
		!strings.Contains(faults[0], "output only") {
		t.Errorf("%d; faults %q", code, faults)
	}
}
