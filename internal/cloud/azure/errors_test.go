package azure_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
)

// answer returns the SDK's error for an answer.
func answer(status int, body string, header http.Header) error {
	return runtime.NewResponseError(&http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)),
		Request: &http.Request{Method: "PUT", URL: &url.URL{}}})
}

func TestTypedMapsCodes(t *testing.T) {
	for _, c := range []struct {
		status        int
		code, message string
		want          cloud.Kind
	}{
		{200, "AllocationFailed", "no", cloud.Capacity}, {200, "ZonalAllocationFailed", "no", cloud.Capacity},
		{200, "OverconstrainedAllocationRequest", "no", cloud.Capacity}, {200, "OverconstrainedZonalAllocationRequest", "no", cloud.Capacity},
		{409, "SkuNotAvailable", "no", cloud.Capacity}, {409, "OperationNotAllowed", "exceeding approved Total Regional Cores quota", cloud.Quota},
		{409, "OperationNotAllowed", "exceeding approved LowPriorityCores quota", cloud.Quota}, {409, "QuotaExceeded", "no", cloud.Quota},
		{409, "OperationNotAllowed", "max price too low", cloud.Capacity}, {409, "OperationNotAllowed", "resize is not allowed", cloud.Invalid},
		{429, "OperationNotAllowed", "too many requests", cloud.Throttled}, {429, "Whatever", "no", cloud.Throttled},
		{403, "RequestDisallowedByPolicy", "no", cloud.Quota}, {403, "AuthorizationFailed", "no", cloud.Auth},
		{404, "SubscriptionNotFound", "no", cloud.Auth}, {409, "MissingSubscriptionRegistration", "no", cloud.Auth},
		{409, "SubscriptionNotRegistered", "no", cloud.Auth}, {401, "ExpiredAuthenticationToken", "no", cloud.Auth},
		{400, "InvalidParameter", "no", cloud.Invalid}, {400, "SomethingNew", "no", cloud.Invalid}, {400, "NewLimitReached", "no", cloud.Quota},
		{409, "NewConflict", "no", cloud.Transient}, {500, "SomethingNew", "no", cloud.Transient}, {403, "", "", cloud.Auth},
		{502, "", "", cloud.Transient}, {200, "NewAllocationFailed", "no", cloud.Capacity},
	} {
		body := fmt.Sprintf(`{"error":{"code":%q,"message":%q}}`, c.code, c.message)
		if c.status == 200 {
			body = `{"status":"Failed",` + body[1:]
		}
		err := azure.Typed(fmt.Errorf("wrapped: %w", answer(c.status, body, nil)))
		var typed *cloud.Error
		if !errors.As(err, &typed) || typed.Kind != c.want || typed.Code != c.code || typed.Message == "" || typed.Cloud != "azure" {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// A refusal of a spot machine or of a machine type must have the same kind with status 400 and with 409, by code and
// by message. Source: learn.microsoft.com/azure/virtual-machines/error-codes-spot; for sizes
// github.com/microsoft/onefuzz/issues/1126 and github.com/skyplane-project/skyplane/issues/755.
func TestTypedMapsRefusalsOfSpotAndSizes(t *testing.T) {
	for _, c := range []struct {
		code, message string
		want          cloud.Kind
	}{
		{"SpotPriceGreaterThanProvidedMaxPrice", "Unable to perform operation 'Create VM' since the provided max price '0.01 USD' is lower " +
			"than the current spot price '0.02 USD' for Azure Spot Virtual Machine size 'Standard_D2s_v5'.", cloud.Capacity},
		{"InvalidParameter", "Unable to perform operation 'Create VM' since the provided max price '0.01 USD' is lower than the current " +
			"spot price", cloud.Capacity},
		{"AzureSpotIsNotSupportedForThisVMSize", "Azure Spot Virtual Machine isn't supported for this VM size Standard_B2s.", cloud.Capacity},
		{"OperationNotAllowed", "Azure Spot Virtual Machine isn't supported for this VM size Standard_B2s.", cloud.Capacity},
		{"AzureSpotFeatureNotEnabledForSubscription", "Subscription not enabled with Azure Spot Virtual Machine feature.", cloud.Quota},
		{"BadRequest", "Subscription not enabled with Azure Spot Virtual Machine feature.", cloud.Quota},
		{"InvalidParameter", "The requested VM size Standard_B2s is not available in the current region. The sizes available in the current " +
			"region are: Standard_DC8_v2", cloud.Capacity},
		{"OperationNotAllowed", "The requested VM size Standard_B2s is not available in the current region.", cloud.Capacity},
		{"BadRequest", "The VM size 'Standard_DC2as_v5' is not supported for creation of VMs and Virtual Machine Scale Set with '<NULL>' " +
			"security type", cloud.Capacity},
		{"InvalidParameter", "The selected VM size 'Standard_A1_v2' cannot boot Hypervisor Generation '2'.", cloud.Capacity},
		{"BadRequest", "Cannot create a VM of size 'Standard_D2ps_v5' because this VM size only supports a CPU Architecture of 'Arm64', " +
			"but an image or disk with CPU Architecture 'x64' was given.", cloud.Capacity},
		{"InvalidParameter", "The value of parameter osDisk.name is invalid.", cloud.Invalid},
		{"MaxPriceValueInvalid", "The max price value is invalid.", cloud.Invalid},
	} {
		for _, status := range []int{400, 409} {
			err := azure.Typed(answer(status, fmt.Sprintf(`{"error":{"code":%q,"message":%q}}`, c.code, c.message), nil))
			if cloud.KindOf(err) != c.want {
				t.Errorf("%d %s %q is %s, want %s", status, c.code, c.message, cloud.KindOf(err), c.want)
			}
		}
	}
}

func TestTypedFindsCause(t *testing.T) {
	const body = `{"error":{"code":"DeploymentFailed","message":"At least one operation failed.","details":[
		{"code":"Other","message":"x"},{"code":"Outer","details":[{"code":"ZonalAllocationFailed","message":"the real reason"}]}]}}`
	err := azure.Typed(answer(409, body, nil))
	if cloud.KindOf(err) != cloud.Capacity || !strings.Contains(err.Error(), "the real reason") {
		t.Error(err)
	}
}

func TestTypedKeepsRetryAfter(t *testing.T) {
	const body = `{"error":{"code":"TooManyRequests","message":"no"}}`
	for text, want := range map[string]time.Duration{"17": 17 * time.Second, "": 30 * time.Second, "-1": 30 * time.Second, "99999999": time.Hour} {
		var typed *cloud.Error
		err := azure.Typed(answer(429, body, http.Header{"Retry-After": {text}}))
		if !errors.As(err, &typed) || typed.RetryAfter != want {
			t.Errorf("%q: %v", text, typed.RetryAfter)
		}
	}
}

func TestMissingTokenIsAuth(t *testing.T) {
	w := newWorld(t, arm.Config{}, func(c *azure.Config) { c.Credential = arm.Credential{Err: errors.New("please run az login")} })
	if _, err := w.azure.Machines(t.Context(), ""); cloud.KindOf(err) != cloud.Auth || !strings.Contains(err.Error(), "az login") {
		t.Error(err)
	}
	if err := azure.Typed(context.DeadlineExceeded); cloud.KindOf(err) != cloud.Transient {
		t.Error(err)
	}
}

func TestMissingGroupOrSubscriptionIsAuth(t *testing.T) {
	for name, spoil := range map[string]func(*world){
		"ResourceGroupNotFound":           func(w *world) { w.arm.RemoveGroup() },
		"MissingSubscriptionRegistration": func(w *world) { w.arm.Unregister("Microsoft.Compute") },
		"AuthorizationFailed":             func(w *world) { w.arm.Deny("Microsoft.Compute/virtualMachines/write") },
		"ExpiredAuthenticationToken":      func(w *world) { w.arm.Skew(10 * time.Minute) },
		"SubscriptionNotFound": func(w *world) {
			w.cfg.Subscription = "00000000-0000-0000-0000-000000000000"
			w.azure = w.driver(w.cfg)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, arm.Config{}, nil)
			spoil(w)
			_, err := w.azure.Launch(t.Context(), spec("a", onDemand, 2))
			if cloud.KindOf(err) != cloud.Auth || !strings.Contains(err.Error(), name) {
				t.Errorf("%v", err)
			}
			w.arm.ClearTroubles()
			w.clean()
		})
	}
}

func FuzzDecodeError(f *testing.F) {
	f.Add([]byte(`{"error":{"code":"AllocationFailed","message":"no","details":[{"code":"x"}]}}`))
	f.Add([]byte(`{"status":"Failed","error":{"code":"x"}}`))
	f.Add([]byte(`{"code":"x","message":"y"}`))
	f.Add([]byte(`{"error":"access_denied"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		azure.DecodeError(body)
		err := azure.Typed(answer(409, string(body), nil))
		var typed *cloud.Error
		if !errors.As(err, &typed) || typed.Kind == "" || typed.Message == "" || len(typed.Message) > 1000 {
			t.Errorf("%q: %v", body, err)
		}
	})
}
