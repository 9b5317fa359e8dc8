package accel

import (
	"math"
	"testing"
)

func TestTFLOPS(t *testing.T) {
	for name, want := range map[string]float64{
		"V100": 125, "A100-80GB": 312, "tpu-v3-8": 492, "tpu-v5litepod-4": 788, "tpu-v4-8": 1100,
		"Alveo-U250": 0, "": 0, "tpu-": 0, "tpu-v3-": 0, "tpu-v9-8": 0, "tpu-v3--8": 0,
	} {
		if got := TFLOPS(name); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestSpeedsHaveCanonicalNames(t *testing.T) {
	for name := range speeds {
		if n, err := Normalize(name); err != nil || n != name {
			t.Errorf("%s is %q, %v", name, n, err)
		}
	}
}
