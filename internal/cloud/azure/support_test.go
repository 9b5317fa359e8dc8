package azure_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/azure"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/emulator/arm"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/cloudtest"
)

// digest is the digest of no agent. The machines of these tests run nothing.
var digest = strings.Repeat("0123456789abcdef", 4)

// world is a deployment in a separate subscription.
type world struct {
	*testing.T
	arm   *arm.Server
	url   string
	cfg   azure.Config
	azure *azure.Cloud
}

func newWorld(t *testing.T, a arm.Config, change func(*azure.Config)) *world {
	t.Helper()
	w := &world{T: t, arm: arm.New(a)}
	server := httptest.NewServer(w.arm)
	t.Cleanup(server.Close)
	t.Cleanup(w.arm.Close)
	w.url = server.URL
	w.cfg = azure.Config{
		Deployment: "tw", Subscription: arm.DefaultSubscription, ResourceGroup: "tradewind",
		Regions: []string{"eastus", "westeurope"}, Agents: driver.Agents{"": digest}, Credential: arm.Credential{},
		Options: arm.Options(server.URL),
	}
	if change != nil {
		change(&w.cfg)
	}
	w.azure = w.driver(w.cfg)
	return w
}

func (w *world) driver(cfg azure.Config) *azure.Cloud {
	w.Helper()
	c, err := azure.New(cfg)
	if err != nil {
		w.Fatal(err)
	}
	c.Hasten()
	return c
}

var (
	onDemand = apitypes.Offer{Cloud: "azure", Region: "eastus", InstanceType: "Standard_D2s_v5", USDPerHour: 0.096}
	spot     = apitypes.Offer{Cloud: "azure", Region: "westeurope", Zone: "westeurope-az2", InstanceType: "Standard_D2s_v5", USDPerHour: 0.0182, Spot: true}
	gpu      = apitypes.Offer{Cloud: "azure", Region: "eastus", InstanceType: "Standard_NC4as_T4_v3", Accelerator: "T4", AccelCount: 1, USDPerHour: 0.526}
)

func boot(cluster string, nodes int) cloud.Bootstrap {
	b := cloud.Bootstrap{Endpoint: "https://api.example"}
	for rank := range nodes {
		b.Tokens = append(b.Tokens, fmt.Sprintf("token-%s-%d", cluster, rank))
	}
	return b
}

func spec(name string, offer apitypes.Offer, nodes int) cloud.LaunchSpec {
	return cloud.LaunchSpec{Cluster: name, Offer: offer, Nodes: nodes, Bootstrap: boot(name, nodes),
		Labels: map[string]string{"job": "j-1", "task": "train/it", "queue": "default", "attempt": "1", "rank": "7"}}
}

func (w *world) launch(s cloud.LaunchSpec) []cloud.Machine {
	w.Helper()
	machines, err := w.azure.Launch(w.Context(), s)
	if err != nil {
		w.Fatalf("launch: %v", err)
	}
	return machines
}

func (w *world) terminate(cluster string) {
	w.Helper()
	if err := w.azure.Terminate(w.Context(), cluster); err != nil {
		w.Fatalf("terminate: %v", err)
	}
}

// clean fails the test if any resource is left after all operations have ended.
func (w *world) clean() {
	w.Helper()
	w.arm.Settle()
	if left := append(w.arm.Left(), w.arm.Leftovers()...); len(left) > 0 {
		w.Errorf("left: %v", left)
	}
}

// refusals has, for each kind of failure, Azure's answer or the error of its operation.
var refusals = map[cloud.Kind]arm.Fault{
	cloud.Capacity:  {Status: http.StatusConflict, Code: "SkuNotAvailable"},
	cloud.Quota:     {Status: http.StatusConflict, Code: "QuotaExceeded"},
	cloud.Auth:      {Status: http.StatusForbidden, Code: "AuthorizationFailed"},
	cloud.Throttled: {Status: http.StatusTooManyRequests, Code: "TooManyRequests"},
	cloud.Transient: {Status: http.StatusInternalServerError, Code: "InternalServerError"},
	cloud.Invalid:   {Status: http.StatusBadRequest, Code: "InvalidParameter"},
}

var late = map[cloud.Kind]string{
	cloud.Capacity: "AllocationFailed", cloud.Quota: "QuotaExceeded", cloud.Transient: "InternalExecutionError",
}

// harness is the subscription for the conformance suite.
type harness struct {
	*world
	offer    apitypes.Offer
	reserved *arm.Reservation
}

func (h harness) Cloud() cloud.Cloud    { return h.azure }
func (h harness) Offer() apitypes.Offer { return h.offer }
func (h harness) Bootstrap(cluster string, nodes int) cloud.Bootstrap {
	return boot(cluster, nodes)
}

func (h harness) Fail(_ apitypes.Offer, err *cloud.Error) bool {
	f := refusals[err.Kind]
	f.Message, f.RetryAfter = err.Message, err.RetryAfter
	h.arm.Make(arm.Trouble{Kind: "PUT machine", Times: 1, Fault: &f})
	return true
}

func (h harness) FailLate(_ apitypes.Offer, err *cloud.Error) bool {
	h.arm.FailLate(1, 1, &arm.Fault{Status: http.StatusConflict, Code: late[err.Kind], Message: err.Message})
	return true
}

func (h harness) LoseAnswer() bool {
	h.arm.Make(arm.Trouble{Kind: "PUT machine", Times: 1})
	return true
}

func (h harness) Leftovers(context.Context) ([]string, error) { return h.arm.Leftovers(), nil }

func (h harness) Sibling() cloud.Cloud {
	cfg := h.cfg
	cfg.Deployment = "another"
	return h.driver(cfg)
}

func (h harness) Reserve(machines int) (apitypes.Offer, bool) {
	on := h.offer
	if on.Spot {
		return on, false
	}
	*h.reserved = arm.Reservation{ResourceGroup: "capacity", Group: "team", Name: "mine", Location: on.Region,
		Size: on.InstanceType, Count: machines}
	h.arm.Reserve(h.reserved)
	on.Zone, on.Reservation, on.Reserved = "", "crg-capacity--team--mine", machines
	return on, true
}

func (h harness) Unreserve() { h.arm.Unreserve(h.reserved) }

func (h harness) Beside(context.Context) (int, error) { return h.arm.Beside(), nil }

func (h harness) Settle(context.Context) { h.arm.Settle() }

func (h harness) Left(context.Context) (int, error) { return len(h.arm.Left()), nil }

func (h harness) Close() {
	if odd := h.arm.Unpublished(); len(odd) > 0 {
		h.Errorf("requests have fields that Azure's published models lack: %v", odd)
	}
}

func TestConformance(t *testing.T) {
	for name, offer := range map[string]apitypes.Offer{"OnDemand": onDemand, "Spot": spot} {
		t.Run(name, func(t *testing.T) {
			cloudtest.Run(t, func(_ context.Context, t *testing.T) (cloudtest.Harness, error) {
				return harness{newWorld(t, arm.Config{}, nil), offer, &arm.Reservation{}}, nil
			})
		})
	}
}

// TestConformanceWithLaggingLists runs the suite with lists that lack new machines and have pages of two machines.
func TestConformanceWithLaggingLists(t *testing.T) {
	cloudtest.Run(t, func(_ context.Context, t *testing.T) (cloudtest.Harness, error) {
		w := newWorld(t, arm.Config{Page: 2, Steps: 4}, func(c *azure.Config) { c.NoPublicAddress = true })
		w.arm.Lag(3)
		return harness{w, spot, &arm.Reservation{}}, nil
	})
}
