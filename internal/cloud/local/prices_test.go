package local_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/cloud/local"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

func TestScenarioPrices(t *testing.T) {
	s, err := local.ReadScenario(strings.NewReader(`
prices:
  - {match: {accelerator: A10G}, at: 90m, times: 4}
  - {match: {accelerator: A10G, zone: "use1-*"}, at: 3h, usd: 0.5}
  - {match: {accelerator: A10G}, at: 2h, times: 2}
`))
	if err != nil {
		t.Fatal(err)
	}
	here := apitypes.Offer{Cloud: "aws", Zone: "use1-az1", Accelerator: "A10G"}
	there := apitypes.Offer{Cloud: "aws", Zone: "euw1-az1", Accelerator: "A10G"}
	for _, c := range []struct {
		offer apitypes.Offer
		since time.Duration
		want  float64
		at    time.Duration
	}{
		{here, time.Hour, 0.3, 0}, {here, 90 * time.Minute, 1.2, 90 * time.Minute}, {here, 100 * time.Minute, 1.2, 90 * time.Minute},
		{here, 2 * time.Hour, 0.6, 2 * time.Hour}, {here, 4 * time.Hour, 0.5, 3 * time.Hour},
		{there, 4 * time.Hour, 0.6, 2 * time.Hour}, {apitypes.Offer{Accelerator: "T4"}, 4 * time.Hour, 0.3, 0},
	} {
		if got, at := s.Price(c.offer, 0.3, c.since); got != c.want || at != c.at {
			t.Errorf("%s after %v: %v USD since %v, want %v since %v", c.offer.Zone, c.since, got, at, c.want, c.at)
		}
	}
	if s.Priced(apitypes.Offer{Accelerator: "T4"}) || !s.Priced(there) {
		t.Error("the scenario prices the wrong offers")
	}
}

func TestReadScenarioRejectsBadPrices(t *testing.T) {
	for _, text := range []string{
		"prices: [{at: 1h}]", "prices: [{at: 1h, times: 2, usd: 1}]", "prices: [{times: -1}]", "prices: [{usd: .nan}]",
		"prices: [{times: 2, match: {task: train}}]", "prices: [{times: 2, match: {market: on-demand}}]", "prices: [{times: 2, when: 1h}]",
		"prices: [{times: 2, match: {zone: '['}}]",
	} {
		if _, err := local.ReadScenario(strings.NewReader(text)); !errors.Is(err, local.ErrScenario) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
