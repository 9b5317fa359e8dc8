package policy_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/internal/lambdahost/policy"
	"github.com/tradewind-broker/tradewind/pkg/agent/wire"
	"github.com/tradewind-broker/tradewind/pkg/broker"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// TestWhoRunsSessionsKnowsWhatMovingDataCosts: a function that does not is not even started.
func TestWhoRunsSessionsKnowsWhatMovingDataCosts(t *testing.T) {
	records := func(h *lambdahost.Host) error {
		h.Ports.Store, h.Ports.Now = mem.New(), time.Now
		h.Ports.Data = grant.Mux{}
		h.Ports.Tokens = func(wire.Claims) (string, error) { return "token", nil }
		return nil
	}
	for _, fn := range []string{events.FnSchedule, broker.FnAPI} {
		if _, err := lambdahost.New(fn, lambdahost.Env{}, aws.Config{}, io.Discard, records); err == nil || !strings.Contains(err.Error(), "Moves") {
			t.Errorf("%s without what it needs: %v", fn, err)
		}
		h, err := lambdahost.New(fn, lambdahost.Env{}, aws.Config{}, io.Discard, records, policy.Part)
		if err != nil {
			t.Fatal(err)
		}
		if usd, hours, ok := h.Ports.Moves.Move("aws:us-east-1", "aws:eu-west-1"); !ok || usd != 0.02 || hours <= 0 {
			t.Errorf("%s: a GiB across the Atlantic costs %g USD and takes %g hours, %v", fn, usd, hours, ok)
		}
	}
}
