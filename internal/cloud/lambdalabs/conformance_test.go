package lambdalabs_test

import (
	"context"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/cloud/lambdalabs"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
	"github.com/tradewind-broker/tradewind/pkg/cloud"
	"github.com/tradewind-broker/tradewind/pkg/cloud/cloudtest"
)

// harness is the emulated account, for the conformance suite.
type harness struct{ *world }

func (h harness) Cloud() cloud.Cloud    { return h.lambda }
func (h harness) Offer() apitypes.Offer { return offer }
func (h harness) Bootstrap(cluster string, nodes int) cloud.Bootstrap {
	return boot(cluster, nodes)
}

func (h harness) Fail(_ apitypes.Offer, err *cloud.Error) bool {
	h.account.FailLaunch(0, failureOf(err))
	return true
}

// FailLate makes the third machine of a cluster fail, when two have been bought.
func (h harness) FailLate(_ apitypes.Offer, err *cloud.Error) bool {
	h.account.FailLaunch(2, failureOf(err))
	return true
}

func (h harness) LoseAnswer() bool {
	h.account.LoseAnswer()
	return true
}

func (h harness) Sibling() cloud.Cloud {
	cfg := h.cfg
	cfg.Deployment, cfg.Graves = "another", nil
	return lambdalabs.New(cfg)
}

func (h harness) Settle(context.Context) {}

func (h harness) Left(context.Context) (int, error) { return len(h.account.LiveMachines()), nil }

func (h harness) Close() {}

// TestConformance runs the suite with lists that show a new machine at once, and with lists that lag.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name string
		lag  int
	}{{"Prompt", 0}, {"Lagging", 3}} {
		t.Run(c.name, func(t *testing.T) {
			cloudtest.Run(t, func(_ context.Context, t *testing.T) (cloudtest.Harness, error) {
				w := newWorld(t, nil)
				w.account.Lag(c.lag)
				return harness{w}, nil
			})
		})
	}
}
