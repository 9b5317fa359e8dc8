package planinput

import (
	"math"
	"testing"

	"github.com/tradewind-broker/tradewind/pkg/apitypes"
)

// TestSeenBootsReplaceMeasuredOnes: the more boots were seen, the more the estimate depends on them and the less on
// the catalogue.
func TestSeenBootsReplaceMeasuredOnes(t *testing.T) {
	seen := func(runs int, seconds, sigma float64) *Input {
		return &Input{Boots: map[string]apitypes.RunTimes{BootKey("aws", "m5.large"): {
			Runs: runs, Log: math.Log(seconds / 3600), Var: sigma * sigma}}}
	}
	for _, c := range []struct {
		in            *Input
		typical, slow float64 // of the catalogue, in seconds
		want, late    float64
	}{
		{&Input{}, 40, 80, 40, 80},
		{seen(0, 160, 0), 40, 80, 40, 80},
		// As many boots were seen as the catalogue counts: the typical boot is the geometric mean, and the slow boot
		// is longer than both.
		{seen(4, 160, 0), 40, 40, 80, 80 * math.Exp(1.645*math.Ln2)},
		{seen(4_000_000, 160, 0), 40, 40, 160, 160},
		{seen(4_000_000, 160, 0.2), 40, 80, 160, 160 * math.Exp(1.645*0.2)},
		{seen(3, 90, 0.1), 0, 0, 90, 90 * math.Exp(1.645*0.1)}, // the catalogue has no boot times
	} {
		typical, slow := c.in.Boot("aws", "m5.large", c.typical, c.slow)
		if math.Abs(typical/c.want-1) > 0.01 || math.Abs(slow/c.late-1) > 0.01 {
			t.Errorf("%+v: %.1f and %.1f s, want %.1f and %.1f", c.in.Boots, typical, slow, c.want, c.late)
		}
	}
	if typical, _ := seen(9, 100, 0).Boot("gcp", "m5.large", 40, 80); typical != 40 {
		t.Errorf("another cloud boots in %v s", typical)
	}
}
