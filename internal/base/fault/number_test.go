package fault_test

import (
	"math"
	"testing"

	"github.com/tradewind-broker/tradewind/internal/base/fault"
)

func TestAmountsAreShort(t *testing.T) {
	for v, want := range map[float64]string{
		16e9 / (1 << 30): "14.9", 0.75: "0.75", 0: "0", 8: "8", 32768: "32768", 100.5: "100.5", 128.26: "128.3", 1.0 / 3: "0.333",
		14.994: "14.99", 14.9999999: "15", 93132.257: "93132.3", 1e-7: "0.0000001", -2.5: "-2.5", math.Inf(1): "+Inf",
	} {
		if got := fault.Number(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}
