package hardware_test

import (
	"testing"
	"time"

	"github.com/tradewind-broker/tradewind/internal/catalog/hardware"
)

func TestBootTimesOfCloudsAndSizes(t *testing.T) {
	for _, c := range []struct {
		cloud         string
		vcpu, gpus    float64
		typical, slow time.Duration
	}{
		{"aws", 4, 0, 33 * time.Second, 46 * time.Second},
		{"gcp", 8, 0, 40 * time.Second, 61 * time.Second},
		{"gcp", 96, 0, 45 * time.Second, 170 * time.Second},
		{"azure", 16, 0, 44 * time.Second, 125 * time.Second},
		{"lambda", 30, 1, 4 * time.Minute, 330 * time.Second},
		{"lambda", 240, 8, 750 * time.Second, 900 * time.Second},
	} {
		b, ok := hardware.BootOf(c.cloud, c.vcpu, c.gpus)
		if !ok || b.Typical() != c.typical || b.Slow() != c.slow {
			t.Errorf("%s with %g vCPUs: %v %v %v", c.cloud, c.vcpu, ok, b.Typical(), b.Slow())
		}
		last := time.Duration(0)
		for p := 0.0; p <= 1; p += 0.005 {
			q := b.Quantile(p)
			if q < last {
				t.Errorf("%s: quantile %g is %v, after %v", c.cloud, p, q, last)
			}
			last = q
		}
	}
	if _, ok := hardware.BootOf("kubernetes", 4, 0); ok {
		t.Error("a cluster has a boot time")
	}
}

func TestBilledTimes(t *testing.T) {
	for _, c := range []struct {
		cloud        string
		held, billed time.Duration
	}{
		{"aws", 10 * time.Second, time.Minute}, {"aws", 90500 * time.Millisecond, 91 * time.Second},
		{"gcp", 0, 0}, {"gcp", time.Hour, time.Hour},
		{"azure", time.Second, 5 * time.Minute}, {"azure", 301 * time.Second, 301 * time.Second},
		{"lambda", 61 * time.Second, 2 * time.Minute},
		{"kubernetes", time.Second / 2, time.Second / 2},
	} {
		b := hardware.BillingOf(c.cloud)
		if got := b.Billed(c.held); got != c.billed {
			t.Errorf("%s: %v is billed as %v, want %v", c.cloud, c.held, got, c.billed)
		}
		if got := b.BilledHours(c.held.Hours()); got < c.billed.Hours()-1e-9 || got > c.billed.Hours()+1e-9 {
			t.Errorf("%s: %v is billed as %v hours, want %v", c.cloud, c.held, got, c.billed.Hours())
		}
	}
}
