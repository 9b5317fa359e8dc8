package lambdahost_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/events"
	"github.com/tradewind-broker/tradewind/internal/agent/wire"
	"github.com/tradewind-broker/tradewind/internal/broker"
	"github.com/tradewind-broker/tradewind/internal/lambdahost"
	"github.com/tradewind-broker/tradewind/pkg/catalog/egress"
	"github.com/tradewind-broker/tradewind/pkg/grant"
	"github.com/tradewind-broker/tradewind/pkg/store/mem"
)

// A function that runs sessions does not start without the prices of moving data.
func TestBrokerRejectsMissingPort(t *testing.T) {
	moves, err := egress.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, fn := range []string{events.FnSchedule, broker.FnAPI} {
		s, err := lambdahost.NewForTest(fn, lambdahost.Env{}, io.Discard, time.Now, lambdahost.Fakes{Store: mem.New()})
		if err != nil {
			t.Fatal(err)
		}
		ports := s.Ports()
		ports.Data, ports.Tokens = grant.Mux{}, func(wire.Claims) (string, error) { return "token", nil }
		if _, err := s.Broker(ports); err == nil || !strings.Contains(err.Error(), "Moves") {
			t.Errorf("%s without Moves: %v", fn, err)
		}
		ports.Moves = moves
		if _, err := s.Broker(ports); err != nil {
			t.Errorf("%s: %v", fn, err)
		}
	}
}
