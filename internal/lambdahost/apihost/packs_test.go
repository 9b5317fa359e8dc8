package apihost

import (
	"net/http/httptest"
	"testing"
)

// TestRequestsThatWakeDeployment checks which requests wake the deployment. Some look like requests that do not.
func TestRequestsThatWakeDeployment(t *testing.T) {
	for request, want := range map[[2]string]bool{
		{"GET", "/v1/jobs"}:                          true,
		{"POST", "/v1/agent/report"}:                 true,
		{"POST", "/v1/jobs/j/tasks/t/visits"}:        true,
		{"POST", "/v1/jobs/j/visits/0.1/1/person"}:   true,
		{"POST", "/v1/jobs/j/visits/0.1/1/end"}:      true,
		{"POST", "/v1/jobs"}:                         false,
		{"POST", "/v1/jobs/j/cancel"}:                false,
		{"POST", "/v1/jobs/visits/cancel"}:           false,
		{"POST", "/v1/jobs/j/tasks/visits/retry"}:    false,
		{"POST", "/v1/queues/visits/visits/a"}:       false,
		{"DELETE", "/v1/jobs/visits/tasks/visits/x"}: false,
	} {
		if got := needsNoWakeUp(httptest.NewRequest(request[0], request[1], nil)); got != want {
			t.Errorf("%v sleeps: %v", request, got)
		}
	}
}
