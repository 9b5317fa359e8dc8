package emr_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/emr"
	emulated "github.com/tradewind-broker/tradewind/internal/emulator/emr"
	"github.com/tradewind-broker/tradewind/internal/emulator/emr/emrtest"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service"
	"github.com/tradewind-broker/tradewind/pkg/cloud/service/servicetest"
)

type harness struct{ emrtest.Harness }

func newHarness(t *testing.T) harness {
	t.Helper()
	w := emrtest.New(t, nil)
	h := emrtest.Harness{
		World: w,
		Driver: func(deployment string) service.Service {
			return emr.New(w.SDK(), emr.Config{Deployment: deployment})
		},
		Actions: map[servicetest.Call]string{
			servicetest.Create: "RunJobFlow", servicetest.Submit: "AddJobFlowSteps", servicetest.End: "TerminateJobFlows",
		},
		Refusals: map[cloud.Kind]emulated.Refusal{
			cloud.Auth:      {Code: "AccessDeniedException", Status: http.StatusBadRequest},
			cloud.Throttled: {Code: "ThrottlingException", Status: http.StatusBadRequest},
			cloud.Transient: {Code: "InternalServerException", Status: http.StatusInternalServerError},
			cloud.Invalid:   {Code: "ValidationException", Status: http.StatusBadRequest},
		},
	}
	h.Mine = h.Driver(w.Deployment)
	return harness{h}
}

func (h harness) FailLate(err *cloud.Error) bool {
	switch err.Kind {
	case cloud.Capacity:
		h.Cloud.FailLate("INSTANCE_FAILURE", "INTERNAL_ERROR_EC2_INSUFFICIENT_CAPACITY_AZ", err.Message)
	default:
		h.Cloud.FailLate("VALIDATION_ERROR", "",
			"The number of vCPUs for instance type m5.xlarge exceeds the EC2 service quota for that type.")
	}
	return true
}

func (h harness) Kill(place string) bool {
	h.Cloud.Kill(service.Prefix(h.Deployment) + place)
	return true
}

func TestConformance(t *testing.T) {
	servicetest.Run(t, func(_ context.Context, t *testing.T) (servicetest.Harness, error) {
		return newHarness(t), nil
	})
}
