package gcp_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/auth"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"

	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

func answer(code int, reason, message string) error {
	return &googleapi.Error{Code: code, Message: message, Errors: []googleapi.ErrorItem{{Reason: reason, Message: message}}}
}

func info(code int, reason string) error {
	return &googleapi.Error{Code: code, Message: "no", Details: []any{map[string]any{
		"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason, "domain": "googleapis.com",
	}}, Errors: []googleapi.ErrorItem{{Reason: "forbidden"}}}
}

func TestTypedMapsAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind cloud.Kind
		code string
	}{
		"quota":               {answer(403, "quotaExceeded", "Quota 'CPUS' exceeded"), cloud.Quota, "quotaExceeded"},
		"rate":                {answer(403, "rateLimitExceeded", "slow"), cloud.Throttled, "rateLimitExceeded"},
		"rate, newer":         {info(429, "RATE_LIMIT_EXCEEDED"), cloud.Throttled, "RATE_LIMIT_EXCEEDED"},
		"rate, without words": {answer(429, "", "slow"), cloud.Throttled, ""},
		"no right":            {answer(403, "forbidden", "Required 'compute.instances.create' permission"), cloud.Auth, "forbidden"},
		// A buyer without iam.serviceAccounts.actAs on the machines' account gets a 400, in an answer or in an
		// operation (github.com/gardener/gardener, "unauthorizedRegexp").
		"no right to the account": {answer(400, "SERVICE_ACCOUNT_ACCESS_DENIED", "The user does not have access to service account 'm'."),
			cloud.Auth, "SERVICE_ACCOUNT_ACCESS_DENIED"},
		"API off":              {info(403, "SERVICE_DISABLED"), cloud.Auth, "SERVICE_DISABLED"},
		"no billing":           {info(403, "BILLING_DISABLED"), cloud.Auth, "BILLING_DISABLED"},
		"an unknown info":      {info(403, "SOMETHING_NEW"), cloud.Auth, "forbidden"},
		"no project":           {answer(404, "notFound", "The resource 'projects/nope' was not found"), cloud.Auth, "notFound"},
		"no image":             {answer(404, "notFound", "The resource 'projects/p/global/images/i' was not found"), cloud.Invalid, "notFound"},
		"policy":               {answer(412, "conditionNotMet", "Constraint constraints/compute.vmExternalIpAccess violated for project demo."), cloud.Auth, "conditionNotMet"},
		"policy about a place": {answer(412, "conditionNotMet", "Location ZONE:us-x violates constraint constraints/gcp.resourceLocations"), cloud.Quota, "conditionNotMet"},
		"unauthenticated":      {answer(401, "authError", "Invalid Credentials"), cloud.Auth, "authError"},
		"backend":              {answer(503, "backendError", "oops"), cloud.Transient, "backendError"},
		"stock-out at once":    {answer(503, "ZONE_RESOURCE_POOL_EXHAUSTED", "none"), cloud.Capacity, "ZONE_RESOURCE_POOL_EXHAUSTED"},
		"unknown 400":          {answer(400, "somethingNew", "no"), cloud.Invalid, "somethingNew"},
		"unknown 500":          {answer(500, "somethingNew", "no"), cloud.Transient, "somethingNew"},
		"no token":             {&auth.Error{Response: &http.Response{StatusCode: 400}, Body: []byte(`{"error":"invalid_grant"}`)}, cloud.Auth, "NoCredentials"},
		"no token for now":     {&auth.Error{Response: &http.Response{StatusCode: 503}}, cloud.Transient, "NoCredentials"},
		"no token, older":      {&oauth2.RetrieveError{Response: &http.Response{StatusCode: 400}, ErrorCode: "invalid_grant"}, cloud.Auth, "NoCredentials"},
		"no answer":            {errors.New("connection reset by peer"), cloud.Transient, ""},
		"time is over":         {context.DeadlineExceeded, cloud.Transient, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var e *cloud.Error
			if !errors.As(gcp.Typed(c.err), &e) || e.Kind != c.kind || e.Code != c.code || e.Cloud != "gcp" || e.Message == "" {
				t.Errorf("%+v", e)
			}
			if (e.Kind == cloud.Throttled) != (e.RetryAfter > 0) {
				t.Errorf("wait %s", e.RetryAfter)
			}
		})
	}
	if gcp.Typed(nil) != nil {
		t.Error("nil is no error")
	}
}

func TestTypedKeepsRetryAfter(t *testing.T) {
	err := &googleapi.Error{Code: 429, Message: "slow", Header: http.Header{"Retry-After": {"7"}}}
	var e *cloud.Error
	if !errors.As(gcp.Typed(err), &e) || e.RetryAfter != 7*time.Second {
		t.Errorf("%+v", e)
	}
}

// A launch must map the errors of operations to kinds.
func TestLaunchMapsOperationErrors(t *testing.T) {
	for code, kind := range map[string]cloud.Kind{
		"ZONE_RESOURCE_POOL_EXHAUSTED": cloud.Capacity, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": cloud.Capacity,
		"STOCKOUT": cloud.Capacity, "QUOTA_EXCEEDED": cloud.Quota, "CONDITION_NOT_MET": cloud.Auth,
		"RESOURCE_OPERATION_RATE_EXCEEDED": cloud.Throttled, "INTERNAL_ERROR": cloud.Transient,
		"INVALID_USAGE": cloud.Invalid, "VM_MIN_COUNT_NOT_REACHED": cloud.Capacity, "SOMETHING_NEW": cloud.Transient,
		"UNSUPPORTED_OPERATION": cloud.Capacity, "RESOURCE_NOT_FOUND": cloud.Quota,
	} {
		t.Run(code, func(t *testing.T) {
			w := newWorld(t, nil)
			w.gce.FailLate(gce.Fault{Reason: code, Message: "in Google's words"}, 1)
			_, err := w.gcp.Launch(t.Context(), spec("a", 2, onDemand))
			var e *cloud.Error
			words := "in Google's words"
			if code == "VM_MIN_COUNT_NOT_REACHED" { // the emulator sets this message
				words = "minimum count"
			}
			if !errors.As(err, &e) || e.Kind != kind || e.Code != code || !strings.Contains(e.Message, words) {
				t.Errorf("%v", err)
			}
			w.none(w.gcp)
		})
	}
}

func TestMissingCredentialsAreAuth(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nowhere/at/all.json")
	c := gcp.New(gcp.Config{Deployment: "test", Project: "demo"})
	if _, err := c.Machines(t.Context(), ""); cloud.KindOf(err) != cloud.Auth || !strings.Contains(err.Error(), "/nowhere/at/all.json") {
		t.Errorf("%v", err)
	}
}
