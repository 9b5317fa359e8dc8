package emrserverless_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service/servicetest"
)

func contains(t *testing.T, body any, want ...string) {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range want {
		if !strings.Contains(string(text), w) {
			t.Errorf("the request lacks %s:\n%s", w, text)
		}
	}
}

func TestRequestsHaveTheApplicationAndItsLimits(t *testing.T) {
	h := newHarness(t)
	spec := h.Spec("words")
	spec.Executors.VCPUs, spec.Executors.MemoryGiB = 4, 16
	p, err := h.Service().Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, h.Requests("CreateApplication")[0].Body, `"autoStopConfiguration":{"enabled":true,"idleTimeoutMinutes":10}`,
		`"maximumCapacity":{"cpu":"16 vCPU","memory":"64 GB"}`, `"releaseLabel":"emr-7.5.0"`, `"tradewind:job":"j-1"`)
	app := h.App("count", servicetest.Prints)
	app.Args, app.PyFiles = []string{"a b"}, []string{"s3://b/one.py"}
	app.Executors, app.Conf = spec.Executors, map[string]string{"spark.app.text": `two words "here"`}
	if _, err := h.Service().Submit(t.Context(), p, app); err != nil {
		t.Fatal(err)
	}
	contains(t, h.Requests("StartJobRun")[0].Body, `"entryPointArguments":["a b"]`,
		`"sparkSubmitParameters":"--py-files s3://b/one.py"`, `"spark.app.text":"two words \"here\""`,
		`"spark.executor.cores":"4"`, `"spark.executor.memory":"14894m"`, `"executionTimeoutMinutes":60`,
		`"logUri":"s3://`+h.Bucket+`/logs/"`)
}

// The lists do not show the results of earlier calls yet. Client tokens must make repeated calls idempotent.
func TestStaleListsBuyOnce(t *testing.T) {
	h := newHarness(t)
	h.Lag(3)
	spec := h.Spec("words")
	first, err := h.Service().Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.Service().Create(t.Context(), spec)
	if err != nil || second.ID != first.ID || h.Made() != 1 {
		t.Fatalf("first %s, then %s, %d made: %v", first.ID, second.ID, h.Made(), err)
	}
	app := h.App("count", servicetest.Prints)
	var runs []service.Run
	for len(runs) < 2 {
		run, err := h.Service().Submit(t.Context(), second, app)
		if err == nil {
			runs = append(runs, run)
		}
	}
	if runs[0].ID != runs[1].ID || h.Runs() != 1 {
		t.Errorf("%v, %d runs", runs, h.Runs())
	}
}
