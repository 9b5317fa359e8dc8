package aws_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/aws"
	"github.com/tradewind-broker/tradewind/internal/cloud/driver"
	"github.com/tradewind-broker/tradewind/internal/cloud/remote"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/cloudtest"
)

// harness is EC2 as emulated by moto, for the conformance suite.
type harness struct {
	*world
	offer    apitypes.Offer
	reserved *reservation
}

// reservation simulates a capacity reservation, which moto does not have: the proxy admits a limited number of
// machines. All machines of the account use the reservation, except those that were launched without naming it.
type reservation struct {
	room, beside int
	tokens       map[string]bool
}

func (h harness) Reserve(machines int) (apitypes.Offer, bool) {
	const id = "cr-0123456789abcdef0"
	on := h.offer
	if on.Spot || h.reserved == nil {
		return on, false
	}
	*h.reserved = reservation{room: machines, tokens: map[string]bool{}}
	h.proxy.add(&rule{action: "RunInstances", times: -1, act: func(w http.ResponseWriter, r *http.Request, forward func(http.ResponseWriter)) {
		in := h.proxy.request("RunInstances")
		asked, _ := strconv.Atoi(in.Get("MinCount"))
		target, token := in.Get("CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"), in.Get("ClientToken")
		there, err := h.Left(r.Context())
		if there == 0 {
			h.reserved.beside = 0
		}
		switch {
		case err != nil:
			writeError(w, "InternalError", err.Error(), http.StatusInternalServerError, nil)
			return
		case h.reserved.tokens[token]:
		case target == "":
			h.reserved.beside += asked
		case target != id || h.reserved.room == 0:
			writeError(w, "InvalidCapacityReservationId.NotFound", "The capacity reservation does not exist.", http.StatusBadRequest, nil)
			return
		case there-h.reserved.beside+asked > h.reserved.room:
			writeError(w, "ReservationCapacityExceeded", "The requested reservation does not have sufficient capacity.", http.StatusBadRequest, nil)
			return
		}
		h.reserved.tokens[token] = true
		forward(w)
	}})
	on.Reservation, on.Reserved = id, machines
	return on, true
}

func (h harness) Unreserve() { h.reserved.room = 0 }

func (h harness) Beside(context.Context) (int, error) { return h.reserved.beside, nil }

func (h harness) Cloud() cloud.Cloud    { return h.aws }
func (h harness) Offer() apitypes.Offer { return h.offer }
func (h harness) Bootstrap(cluster string, nodes int) cloud.Bootstrap {
	return boot(cluster, nodes)
}

func (h harness) Fail(_ apitypes.Offer, err *cloud.Error) bool {
	h.proxy.failLaunch(err)
	return true
}

func (h harness) LoseAnswer() bool {
	h.proxy.lose("RunInstances", 1)
	return true
}

func (h harness) Sibling() cloud.Cloud {
	return aws.New(h.sdk(), aws.Config{
		Deployment: "another", Home: h.offer.Region, Agents: driver.Agents{"": strings.Repeat("b", 64)},
	})
}

func (h harness) Settle(context.Context) {}

func (h harness) Left(ctx context.Context) (int, error) { return h.leftIn(ctx, h.offer.Region) }

func (h harness) Close() {}

func TestConformance(t *testing.T) {
	for name, offer := range map[string]apitypes.Offer{"OnDemand": onDemand, "Spot": spot} {
		t.Run(name, func(t *testing.T) {
			cloudtest.Run(t, func(_ context.Context, t *testing.T) (cloudtest.Harness, error) {
				return harness{newWorld(t, nil), offer, &reservation{}}, nil
			})
		})
	}
}

// distant is EC2 with its driver behind package remote.
type distant struct{ harness }

func (h distant) Cloud() cloud.Cloud {
	return remote.New(aws.Name, remote.Server{Cloud: h.harness.Cloud()}.Serve)
}

// The driver must conform behind package remote, as in a function that links no SDK.
func TestConformanceRemote(t *testing.T) {
	cloudtest.Run(t, func(_ context.Context, t *testing.T) (cloudtest.Harness, error) {
		return distant{harness{newWorld(t, nil), onDemand, &reservation{}}}, nil
	})
}

func TestConformanceInSeveralRegions(t *testing.T) {
	cloudtest.Run(t, func(_ context.Context, t *testing.T) (cloudtest.Harness, error) {
		w := newWorld(t, func(c *aws.Config) {
			c.Home, c.Regions = "us-east-1", []string{"us-east-1", "eu-west-1", "us-west-2", "no-such-region"}
		})
		elsewhere := onDemand
		elsewhere.Region, elsewhere.Zone = "eu-west-1", "euw1-az2"
		return harness{w, elsewhere, nil}, nil
	})
}
