package config_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/broker/config"
	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestSlowBootsHaveLongerLimits: machines and services that may need more than the usual 15 minutes to boot have a
// longer limit.
func TestSlowBootsHaveLongerLimits(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	for _, c := range []struct {
		offer apitypes.Offer
		want  time.Duration
	}{
		{apitypes.Offer{Cloud: "aws"}, 15 * time.Minute},
		{apitypes.Offer{Cloud: "aws", Service: "emr"}, 30 * time.Minute},
		{apitypes.Offer{Cloud: "aws", Service: "emr-serverless"}, 15 * time.Minute},
		{apitypes.Offer{Cloud: "lambda", AccelCount: 1}, 15 * time.Minute},
		{apitypes.Offer{Cloud: "lambda", AccelCount: 8}, 30 * time.Minute},
	} {
		if got := cfg.BootLimit(c.offer); got != c.want {
			t.Errorf("%+v: %s, want %s", c.offer, got, c.want)
		}
	}
}
