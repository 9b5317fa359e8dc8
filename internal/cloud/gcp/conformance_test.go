package gcp_test

import (
	"context"
	"net/http"
	"slices"
	"testing"

	compute "google.golang.org/api/compute/v1"

	"github.com/tradewind-broker/tradewind/internal/cloud/gcp"
	"github.com/tradewind-broker/tradewind/internal/emulator/gce"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/cloudtest"
)

// harness is the emulator of Google Cloud, for the conformance suite.
type harness struct {
	*world
	offer    apitypes.Offer
	reserved *[]*compute.Reservation
}

func (h harness) Cloud() cloud.Cloud    { return h.gcp }
func (h harness) Offer() apitypes.Offer { return h.offer }
func (h harness) Bootstrap(cluster string, nodes int) cloud.Bootstrap {
	return boot(cluster, nodes)
}

// refusals has Google's immediate answer for each kind of failure.
var refusals = map[cloud.Kind]gce.Fault{
	cloud.Capacity:  {Code: http.StatusServiceUnavailable, Reason: "ZONE_RESOURCE_POOL_EXHAUSTED", Message: "no more"},
	cloud.Quota:     {Code: http.StatusForbidden, Reason: "quotaExceeded", Message: "Quota 'CPUS' exceeded."},
	cloud.Auth:      {Code: http.StatusForbidden, Reason: "forbidden", Message: "Required 'compute.instances.create'"},
	cloud.Throttled: {Code: http.StatusForbidden, Reason: "rateLimitExceeded", Message: "Rate Limit Exceeded"},
	cloud.Transient: {Code: http.StatusServiceUnavailable, Reason: "backendError", Message: "Backend Error"},
	cloud.Invalid:   {Code: http.StatusBadRequest, Reason: "invalid", Message: "Invalid value for field"},
}

// lates has the error code of a failed operation for each kind of failure.
var lates = map[cloud.Kind]string{
	cloud.Capacity: "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", cloud.Quota: "QUOTA_EXCEEDED",
	cloud.Transient: "INTERNAL_ERROR",
}

func (h harness) Fail(_ apitypes.Offer, err *cloud.Error) bool {
	f := refusals[err.Kind]
	f.RetryAfter = err.RetryAfter
	tries := 1
	if err.Kind == cloud.Transient {
		tries = 3 // the driver retries after an indefinite answer
	}
	for range tries {
		h.gce.Refuse("compute.instances.bulkInsert", f)
	}
	return true
}

func (h harness) FailLate(_ apitypes.Offer, err *cloud.Error) bool {
	h.gce.FailLate(gce.Fault{Reason: lates[err.Kind], Message: err.Message}, 1)
	return true
}

func (h harness) LoseAnswer() bool {
	h.gce.Lose("compute.instances.bulkInsert")
	h.gce.Lag(1)
	return true
}

func (h harness) Leftovers(context.Context) ([]string, error) { return h.gce.Leftovers(), nil }

func (h harness) Sibling() cloud.Cloud {
	return h.another(func(c *gcp.Config) { c.Deployment = "another" })
}

func (h harness) Reserve(machines int) (apitypes.Offer, bool) {
	on := h.offer
	if on.Spot || h.reserved == nil {
		return on, false
	}
	*h.reserved = append(*h.reserved, h.gce.Reserve(on.Zone, "mine", on.InstanceType, machines, true))
	on.Reservation, on.Reserved = gcp.ReservationID(on.Zone, "mine", true), machines
	return on, true
}

func (h harness) Unreserve() {
	for _, r := range *h.reserved {
		h.gce.Unreserve(r)
	}
}

func (h harness) Beside(context.Context) (int, error) { return h.gce.Beside(), nil }

func (h harness) Settle(context.Context) {}

func (h harness) Left(context.Context) (int, error) {
	gone := func(m gce.Machine) bool { return m.Status == "STOPPING" }
	return len(slices.DeleteFunc(h.gce.Machines(), gone)), nil
}

func (h harness) Close() {}

func TestConformance(t *testing.T) {
	for name, offer := range map[string]apitypes.Offer{"OnDemand": onDemand, "Spot": spot} {
		t.Run(name, func(t *testing.T) {
			cloudtest.Run(t, func(_ context.Context, t *testing.T) (cloudtest.Harness, error) {
				return harness{newWorld(t, nil), offer, &[]*compute.Reservation{}}, nil
			})
		})
	}
}
