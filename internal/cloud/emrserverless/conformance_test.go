package emrserverless_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/emrserverless"
	"github.com/tradewind-broker/tradewind/internal/emulator/emr"
	"github.com/tradewind-broker/tradewind/internal/emulator/emr/emrtest"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service/servicetest"
)

// role belongs to moto's account.
const role = "arn:aws:iam::123456789012:role/spark"

type harness struct{ emrtest.Harness }

func newHarness(t *testing.T) harness {
	t.Helper()
	w := emrtest.New(t, nil)
	h := emrtest.Harness{
		World: w,
		Driver: func(deployment string) service.Service {
			return emrserverless.New(w.SDK(), emrserverless.Config{Deployment: deployment, Role: role})
		},
		Actions: map[servicetest.Call]string{
			servicetest.Create: "CreateApplication", servicetest.Submit: "StartJobRun", servicetest.End: "DeleteApplication",
		},
		Refusals: map[cloud.Kind]emr.Refusal{
			cloud.Quota:     {Code: "ServiceQuotaExceededException", Status: http.StatusPaymentRequired},
			cloud.Auth:      {Code: "AccessDeniedException", Status: http.StatusForbidden},
			cloud.Throttled: {Code: "ThrottlingException", Status: http.StatusTooManyRequests},
			cloud.Transient: {Code: "InternalServerException", Status: http.StatusInternalServerError},
			cloud.Invalid:   {Code: "ValidationException", Status: http.StatusBadRequest},
		},
	}
	h.Mine = h.Driver(w.Deployment)
	return harness{h}
}

// FailLate implements servicetest.Harness: an application has no machines that could fail.
func (h harness) FailLate(*cloud.Error) bool { return false }

// Kill implements servicetest.Harness.
func (h harness) Kill(string) bool { return false }

func TestConformance(t *testing.T) {
	servicetest.Run(t, func(_ context.Context, t *testing.T) (servicetest.Harness, error) {
		return newHarness(t), nil
	})
}
