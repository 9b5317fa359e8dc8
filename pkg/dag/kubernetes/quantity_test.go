package kubernetes

import (
	"math"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "2": 2, " 2 ": 2, "500m": 0.5, "1.5Gi": 1.5 * 1073741824, "200M": 200e6, "1e3": 1000, "1k": 1000, "1Ki": 1024,
		"1Mi": 1048576, "1Ti": 1099511627776, "1Pi": 1125899906842624, "1Ei": 1152921504606846976, "1n": 1e-9, "1u": 1e-6,
		"1G": 1e9, "1T": 1e12, "1P": 1e15, "1E": 1e18,
	} {
		if got, err := parseQuantity(text); err != nil || math.Abs(got-want) > 1e-12*want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":      "\"\" is not a quantity (write 2, 500m, 200Mi or 1.5Gi)",
		"Gi":    `"Gi" is not a quantity (write 2, 500m, 200Mi or 1.5Gi)`,
		"1 x":   `"1 x" is not a quantity (write 2, 500m, 200Mi or 1.5Gi)`,
		"-1":    "cannot be negative",
		"-500m": "cannot be negative",
	} {
		if got, err := parseQuantity(text); err == nil || err.Error() != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
}

// TestCPUsRoundsUpToThousandths: smaller fractions of a CPU are rounded up, but floating-point errors are not.
func TestCPUsRoundsUpToThousandths(t *testing.T) {
	for text, want := range map[string]float64{
		"2": 2, "500m": 0.5, "0": 0, "1.0001": 1.001, "1u": 0.001, "0.1": 0.1, "0.3": 0.3, "1001m": 1.001, "2.3": 2.3,
	} {
		if got, err := cpus(text); err != nil || got.Min != want || got.Max != 0 {
			t.Errorf("%q are %v, %v; want at least %v", text, got, err, want)
		}
	}
	if _, err := cpus("x"); err == nil {
		t.Error("x is accepted as a number of processors")
	}
}
